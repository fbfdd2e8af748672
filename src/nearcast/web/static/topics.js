// Topics in a table, and one topic by itself.

import { move, setPromise } from "./actions.js";
import { get, topicPath } from "./api.js";
import * as chart from "./chart.js";
import { bytes, card, count, empty, h, meter, ms, promise, renew, route } from "./dom.js";
import { stream } from "./events.js";

const COLUMNS = [["topic", "Topic", ""], ["risk", "Promise", ""], ["measured", "Measured", "num"], ["worst", "Worst case", "num"], [null, "On", ""], ["messages", "In /s", "num"], ["load", "Out", "num"], ["publishers", "Pubs", "num"], ["subscribers", "Subs", "num"]];

export const open = (name) => { location.hash = `#/topics/${encodeURIComponent(name)}`; };

// `wide`: how many columns there is room for.
export function table(topics, sort, resort, wide = COLUMNS.length) {
  const head = COLUMNS.slice(0, wide).map(([key, text, kind]) => {
    const chosen = sort && key === sort.by;
    const label = key && resort ? h("button", { type: "button", "data-key": `sort ${key}`, onclick: () => resort(key) }, text) : text;
    return h("th", { class: kind, "aria-sort": chosen ? (sort.order || (key === "topic" ? "ascending" : "descending")) : null, scope: "col" }, label);
  });
  return h("div", { class: "table-wrap" }, h("table", { class: "topics" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, topics.map((each) => row(each, wide)))));
}

function row(each, wide) {
  const go = () => open(each.topic);
  const cells = [
    h("td", { class: "name", title: each.topic }, each.topic, each.moving ? [" ", h("span", { class: "pill info" }, "moving")] : null),
    h("td", {}, standing(each)),
    h("td", { class: "num" }, ms(each.measured_ms)), h("td", { class: "num" }, ms(each.worst_ms)),
    h("td", { class: "at" }, route(each.strategy, each.brokers), each.by_ring ? h("span", { class: "soft small" }, " ring") : null),
    h("td", { class: "num" }, count(each.publications_hz)), h("td", { class: "num" }, `${bytes(each.bytes_out_per_s)}/s`),
    h("td", { class: "num" }, count(each.publishers)), h("td", { class: "num" }, count(each.subscribers)),
  ];
  return h("tr", { tabindex: 0, "data-key": `row ${each.topic}`, "data-topic": each.topic, onclick: go, onkeydown: (event) => keys(event, go) }, cells.slice(0, wide));
}

function standing(each) {
  if (!each.slo) return h("span", { class: "soft small" }, "–");
  const known = [each.measured_ms, each.worst_ms].filter((value) => value !== null);
  const bar = known.length ? meter(Math.max(...known), 2 * each.bound_ms, each.promise, each.bound_ms) : null;
  return h("div", { class: "row", style: { gap: "8px", "flex-wrap": "nowrap", "align-items": "center" } }, promise(each.promise), h("span", { class: "small mono" }, each.slo), bar);
}

function keys(event, go) {
  const next = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  if (event.key === "Enter") go();
  else if (next) { event.preventDefault(); event.currentTarget[next]?.focus(); }
}

// The whole list: search, filter, sort, pages.

const asked = { search: "", promise: "", by: "risk", order: "", limit: 50, offset: 0 };

export function view() {
  const body = h("div");
  const change = (values) => { Object.assign(asked, { offset: 0 }, values); refresh(); };
  const search = h("input", { type: "search", id: "search", value: asked.search, placeholder: "Search topics  ( / )", "aria-label": "Search topics", oninput: () => change({ search: search.value }) });
  const kinds = [["", "all promises"], ["broken", "broken"], ["kept", "kept"], ["unknown", "not measured"], ["none", "no promise"]];
  const kind = h("select", { "aria-label": "Promise", onchange: () => change({ promise: kind.value }) }, kinds.map(([value, text]) => h("option", { value, selected: value === asked.promise }, text)));
  const many = h("select", { "aria-label": "How many", onchange: () => change({ limit: Number(many.value) }) }, [10, 25, 50, 100, 500].map((each) => h("option", { value: each, selected: each === asked.limit }, `top ${each}`)));

  async function refresh() {
    const { by, ...query } = asked;
    const found = await get("topics", { ...query, sort: by });
    const resort = (key) => change(key === asked.by ? { order: asked.order ? "" : key === "topic" ? "descending" : "ascending" } : { by: key, order: "" });
    renew(body, found.topics.length ? [table(found.topics, asked, resort), pager(found)] : nothing(found));
  }

  function pager(found) {
    const last = asked.offset + found.topics.length;
    const turn = (by) => { asked.offset = Math.max(0, asked.offset + by); refresh(); };
    return h("div", { class: "pager" }, `${asked.offset + 1}–${last} of ${found.total}${found.total < found.known ? ` (of ${found.known} in all)` : ""}`,
      h("div", { class: "end" }, h("button", { class: "mini", type: "button", "data-key": "back", disabled: asked.offset === 0, onclick: () => turn(-asked.limit) }, "Back"), h("button", { class: "mini", type: "button", "data-key": "next", disabled: last >= found.total, onclick: () => turn(asked.limit) }, "Next")));
  }

  const page = h("div", {}, h("div", { class: "head" }, h("h1", {}, "Topics"), search, kind, many), h("section", { class: "card", "aria-label": "Topics" }, body));
  return { page, refresh };
}

function nothing(found) {
  if (found.known) return empty("No topic fits.", "Search for less, or choose all promises.");
  return empty("No topic is used yet.", "Subscribe and publish: ", h("code", {}, "nearcast sub hello"), " and, elsewhere, ", h("code", {}, "nearcast pub hello world"), ". Then promise a latency: ", h("code", {}, "nearcast topic set hello --slo p95:40ms"), ".");
}

// One topic.

export function detail(name) {
  const top = h("div");
  const body = h("div");
  let at = [];
  let slo = "";
  const buttons = [  // of no use until it is known how the topic is
    h("button", { type: "button", disabled: true, "data-action": "promise", onclick: () => setPromise(name, slo) }, "Promise…"),
    h("button", { type: "button", disabled: true, "data-action": "move", onclick: () => move(name, at) }, "Move…"),
  ];

  async function refresh() {
    const [found, told] = await Promise.all([get(topicPath(name)), get("decisions", { topic: name, limit: 50 })]);
    const each = found.topic;
    at = found.at;
    slo = each?.slo ?? "";
    for (const button of buttons) button.disabled = false;
    const drawn = chart.draw(found.history, each?.bound_ms ?? null, found.decisions);
    renew(top, each ? [promise(each.promise), each.moving ? h("span", { class: "pill info" }, "moving") : null] : null);
    renew(body, h("div", { class: "grid" },
      h("div", { class: "stack" },
        card("Latency over time", drawn ? [h("div", { class: "body" }, drawn), key()] : empty("Nothing is measured yet.", "Latencies show when messages are published and received by nearcast's clients.")),
        card("Decisions", told.happenings.length ? h("div", { class: "scroll", "data-scroll": "decisions" }, stream(told.happenings)) : empty("It has not been moved.", "It is where the ring puts it; a broken promise, load or an operator moves it."))),
      card("Route", h("div", { class: "body" }, each ? facts(each) : h("p", { class: "soft" }, `Nobody uses it now; the ring has it on ${at.join(", ")}.`)))));
  }

  const page = h("div", {}, h("div", { class: "head" }, h("a", { href: "#/topics" }, "← Topics"), h("h1", {}, name), top, h("div", { class: "end" }, buttons)), body);
  return { page, refresh };
}

const key = () => h("div", { class: "legend" }, h("span", {}, h("i", { class: "accent" }), "measured (promised percentile)"), h("span", {}, h("i", { class: "broken" }), "over the bound"), h("span", {}, h("i", { class: "dotted" }), "worst case as clients are placed"), h("span", {}, h("i", { class: "unknown" }), "moves"));

function facts(each) {
  const rows = [
    ["strategy", each.strategy.replaceAll("_", " ")], ["brokers", each.brokers.join(", ")], ["chosen by", each.by_ring ? "the ring (no route names it)" : `route, epoch ${each.epoch}`],
    ["promise", each.slo || "none"], ["measured", each.measured_ms === null ? "not lately" : `${ms(each.measured_ms)} on ${count(each.samples)} messages, ± ${ms(each.uncertainty_ms)}`], ["worst case", ms(each.worst_ms)],
    ["publishers", `${count(each.publishers)}, ${count(each.publications_hz)} messages/s, ${bytes(each.bytes_in_per_s)}/s`], ["subscribers", `${count(each.subscribers)}, ${count(each.deliveries_hz)} messages/s, ${bytes(each.bytes_out_per_s)}/s`],
  ];
  return h("dl", { class: "facts" }, rows.map(([term, text]) => [h("dt", {}, term), h("dd", { class: "num" }, text)]));
}
