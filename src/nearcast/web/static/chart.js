// How late one topic's messages were, with the bound and its moves.

import { clock, ms, s } from "./dom.js";

const WIDTH = 900;
const HEIGHT = 280;
const LEFT = 46;
const RIGHT = 14;
const TOP = 26;
const BOTTOM = 26;
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];

export function draw(history, bound_ms, decisions) {
  const known = [...history.measured_ms, ...history.worst_ms].filter((each) => each !== null);
  if (history.at_s.length < 2 || !known.length) return null;
  const from = history.at_s[0];
  const until = history.at_s.at(-1);
  const top = 1.15 * Math.max(...known, bound_ms ?? 0);
  const x = (at_s) => LEFT + ((at_s - from) / Math.max(1, until - from)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Latency over time" });
  const step = STEPS.find((each) => top / each <= 6) ?? top;
  for (let value = 0; value <= top; value += step) {
    svg.append(s("path", { class: "axis", d: `M${LEFT} ${y(value)}H${WIDTH - RIGHT}` }), s("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, `${value}`));
  }
  svg.append(s("text", { x: LEFT, y: 12 }, "ms from publish to receipt"));
  for (let tick = 0; tick <= 4; tick++) {
    const at = from + ((until - from) * tick) / 4;
    svg.append(s("text", { x: x(at), y: HEIGHT - 7, "text-anchor": tick === 0 ? "start" : tick === 4 ? "end" : "middle" }, clock(at)));
  }
  if (bound_ms) {
    svg.append(s("path", { class: "bound", d: `M${LEFT} ${y(bound_ms)}H${WIDTH - RIGHT}` }), s("text", { class: "bound-text", x: WIDTH - RIGHT, y: y(bound_ms) - 5, "text-anchor": "end" }, `promised ${ms(bound_ms)}`));
  }
  moves(svg, decisions, from, until, x);
  svg.append(s("path", { class: "worst", d: line(history.at_s, history.worst_ms, x, y) }));
  svg.append(s("path", { class: "measured", d: line(history.at_s, history.measured_ms, x, y) }));
  if (bound_ms) svg.append(s("path", { class: "over", d: line(history.at_s, history.measured_ms.map((each) => (each > bound_ms ? each : null)), x, y) }));
  return svg;
}

function moves(svg, decisions, from, until, x) {
  let free = -Infinity;
  for (const each of [...decisions].sort((a, b) => a.at_s - b.at_s)) {
    if (each.refused || each.at_s < from || each.at_s > until) continue;
    const at = x(each.at_s);
    svg.append(s("g", { "data-move": each.id }, s("title", {}, `${clock(each.at_s)}: ${each.was_brokers.join(", ")} → ${each.brokers.join(", ")}: ${each.reason}`), s("path", { class: "move", d: `M${at} ${TOP - 4}V${HEIGHT - BOTTOM}` })));
    if (at > free) {
      const text = `→ ${each.brokers.join(", ")}`;
      const late = at > WIDTH - 90;
      svg.append(s("text", { class: "move-text", x: late ? at - 4 : at + 4, y: TOP + 4, "text-anchor": late ? "end" : "start" }, text));
      free = at + 12 + 7 * text.length;
    }
  }
}

function line(times, values, x, y) {
  let path = "";
  let pen = false;
  values.forEach((value, place) => {
    if (value === null) pen = false;
    else {
      path += `${pen ? "L" : "M"}${x(times[place]).toFixed(1)} ${y(value).toFixed(1)}`;
      // A single point between two gaps has no length: it gets one.
      if (!pen && (values[place + 1] ?? null) === null) path += "h1.5";
      pen = true;
    }
  });
  return path;
}
