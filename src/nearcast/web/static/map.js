// Sites, brokers and the middles of topics' clients, where network coordinates have them.

import { h, s } from "./dom.js";

const WIDTH = 900;
const HEIGHT = 470;
const EDGE = 76;
const NARROWEST_MS = 4;

// The same for the same name: topics whose clients are at one place lie around it, not on one another.
function spread(name, radius) {
  let seed = 2166136261;
  for (const letter of name) seed = Math.imul(seed ^ letter.codePointAt(0), 16777619) >>> 0;
  const angle = ((seed % 3600) / 3600) * 2 * Math.PI;
  const far = radius * (0.55 + 0.45 * ((seed >>> 12) % 100) / 100);
  return [Math.cos(angle) * far, Math.sin(angle) * far];
}

function frame(points) {
  const xs = points.map((each) => each.x_ms);
  const ys = points.map((each) => each.y_ms);
  const middle = [(Math.min(...xs) + Math.max(...xs)) / 2, (Math.min(...ys) + Math.max(...ys)) / 2];
  const wide = Math.max(NARROWEST_MS, Math.max(...xs) - Math.min(...xs));
  const high = Math.max(NARROWEST_MS / 2, Math.max(...ys) - Math.min(...ys));
  const scale = Math.min((WIDTH - 2 * EDGE) / wide, (HEIGHT - 2 * EDGE) / high);
  return { scale, at: (point) => [WIDTH / 2 + (point.x_ms - middle[0]) * scale, HEIGHT / 2 + (point.y_ms - middle[1]) * scale] };
}

const NICE = [0.5, 1, 2, 5, 10, 20, 50, 100, 200];

export function draw(found, open) {
  const placed = found.brokers.filter((each) => each.at);
  if (!placed.length) return null;
  const points = [...placed.map((each) => each.at), ...found.topics.flatMap((each) => [each.publishers, each.subscribers]).filter(Boolean)];
  const { scale, at } = frame(points);
  const spots = new Map(placed.map((each) => [each.name, at(each.at)]));
  const svg = s("svg", { class: "map", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": "Map of network coordinates" });
  for (const [, [x, y]] of spots) svg.append(s("circle", { class: "site", cx: x, cy: y, r: 46 }));
  const order = { none: 0, unknown: 1, kept: 2, broken: 3 };
  for (const each of [...found.topics].sort((a, b) => order[a.promise] - order[b.promise])) {
    const drawn = topic(each, spots, at, open);
    if (drawn) svg.append(drawn);
  }
  for (const each of placed) svg.append(broker(each, spots.get(each.name)));
  svg.append(ruler(scale));
  return svg;
}

function topic(each, spots, at, open) {
  const legs = [];
  const marks = [];
  for (const [who, side] of [["pub", each.publishers], ["sub", each.subscribers]]) {
    if (!side) continue;
    const [dx, dy] = spread(`${each.topic}${who}`, 34);
    const [x, y] = at(side);
    const end = [x + dx, y + dy];
    marks.push(s("circle", { class: `client ${who} ${each.promise}`, cx: end[0], cy: end[1], r: who === "pub" ? 3.2 : 4 }));
    for (const name of each.brokers) {
      const spot = spots.get(name);
      if (spot) legs.push(s("path", { class: `topic ${each.promise}${each.moving ? " moving" : ""}`, d: curve(end, spot) }));
    }
  }
  if (!legs.length) return null;
  const title = `${each.topic}: on ${each.brokers.join(", ")}, promise ${each.promise}; ${each.publisher_count} publishers, ${each.subscriber_count} subscribers`;
  const group = s("g", { class: `t ${each.promise}`, tabindex: 0, role: "link", "aria-label": title, "data-key": `map ${each.topic}`, "data-topic": each.topic, "data-promise": each.promise },
    s("title", {}, title), legs, marks);
  group.addEventListener("click", () => open(each.topic));
  group.addEventListener("keydown", (event) => { if (event.key === "Enter") open(each.topic); });
  return group;
}

function curve([x1, y1], [x2, y2]) {
  const bend = 0.12;
  const mx = (x1 + x2) / 2 - (y2 - y1) * bend;
  const my = (y1 + y2) / 2 + (x2 - x1) * bend;
  return `M${x1.toFixed(1)} ${y1.toFixed(1)}Q${mx.toFixed(1)} ${my.toFixed(1)} ${x2.toFixed(1)} ${y2.toFixed(1)}`;
}

function broker(each, [x, y]) {
  return s("g", {},
    s("title", {}, `broker ${each.name}, site ${each.site || "not named"}, ${each.state}`),
    s("rect", { class: `broker-box ${each.state}`, x: x - 17, y: y - 13, width: 34, height: 26, rx: 6 }),
    s("text", { class: "broker-name", x, y: y + 4, "text-anchor": "middle" }, each.name),
    s("text", { x, y: y + 58, "text-anchor": "middle" }, each.state === "present" ? each.site : `${each.site} · ${each.state}`));
}

function ruler(scale) {
  const length = NICE.filter((each) => each * scale <= 180).at(-1) ?? NICE[0];
  const x = 18;
  const y = HEIGHT - 20;
  const end = x + length * scale;
  return s("g", { "aria-hidden": "true" }, s("path", { class: "scale", d: `M${x} ${y - 4}v8M${x} ${y}H${end}M${end} ${y - 4}v8` }), s("text", { x: x + 4, y: y - 8 }, `${length} ms one way`));
}

export const legend = () =>
  h("div", { class: "legend" },
    h("span", {}, h("i", { class: "kept" }), "promise kept"), h("span", {}, h("i", { class: "broken" }), "broken"),
    h("span", {}, h("i", { class: "unknown" }), "not measured"), h("span", {}, h("i"), "no promise"),
    h("span", {}, h("i", { class: "dash" }), "moving"),
    h("span", {}, h("i", { class: "dot full" }), "publishers"), h("span", {}, h("i", { class: "dot" }), "subscribers"));
