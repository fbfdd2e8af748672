// The stream of what was decided and ordered.

import { ago, clock, h, ms, promise, route, seconds, topicLink } from "./dom.js";

export const stream = (happenings) => happenings.map((each) => (each.decision ? decision(each.decision) : task(each.task)));

function decision(each) {
  const state = each.refused ? h("span", { class: "pill broken" }, "refused")
    : each.told_s === null ? h("span", { class: "pill unknown" }, "under way")
    : h("span", { class: "pill" }, `told in ${seconds(each.told_s)}${each.done_s === null ? "" : `, over in ${seconds(each.done_s)}`}`);
  return h("article", { class: "event", "data-decision": each.id },
    h("div", { class: "top" }, h("b", {}, topicLink(each.topic)), h("span", {}, route(each.was_strategy, each.was_brokers), h("span", { class: "arrow" }, " → "), route(each.strategy, each.brokers)), h("span", { class: "pill info" }, each.policy), state, when(each.at_s)),
    h("p", { class: "why" }, each.reason), each.refused ? h("p", { class: "why small soft" }, each.refused) : null, outcome(each), candidates(each));
}

function outcome(each) {
  const { predicted_ms, bound_ms } = each.forecast;
  const parts = [
    each.before ? `before ${ms(each.before.latency_ms)}` : null,
    predicted_ms === null ? null : `predicted worst case ${ms(predicted_ms)}`,
    each.after ? `measured after ${ms(each.after.latency_ms)} (p${each.after.percentile}, ${each.after.samples} messages)` : each.refused ? null : "not measured yet",
  ].filter(Boolean);
  const kept = each.after && bound_ms !== null ? promise(each.after.latency_ms <= bound_ms ? "kept" : "broken") : null;
  return parts.length ? h("p", { class: "small soft" }, parts.join(" · "), " ", kept) : null;
}

function candidates(each) {
  const { candidates: found, feasible, considered, bound_ms } = each.forecast;
  if (!found.length) return null;
  const rows = found.map(([broker, worst_ms, full]) =>
    h("tr", {}, h("td", {}, broker, each.brokers.includes(broker) ? h("b", {}, " (chosen)") : null), h("td", { class: "num" }, ms(worst_ms)), h("td", {}, full ? "would be overloaded" : bound_ms !== null && worst_ms > bound_ms ? "breaks the promise" : "")));
  return h("details", { "data-key": `candidates ${each.id}` }, h("summary", {}, bound_ms === null ? `${considered} candidates` : `${feasible} of ${considered} candidates would keep ${ms(bound_ms)}`),
    h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "broker"), h("th", { class: "num" }, "worst case"), h("th", {}, ""))), h("tbody", {}, rows)));
}

function task(each) {
  const state = { running: "unknown", done: "kept", refused: "broken" }[each.state];
  return h("article", { class: "event", "data-task": each.id },
    h("div", { class: "top" }, h("b", {}, each.subject), h("span", {}, each.what), h("span", { class: "pill info" }, "operator"), h("span", { class: `pill ${state}` }, each.state), when(each.at_s)),
    each.reason ? h("p", { class: "why" }, each.reason) : h("p", { class: "small soft" }, "no reason was given"),
    h("p", { class: "small soft" }, `by ${each.by}${each.outcome ? `: ${each.outcome}` : ""}`));
}

const when = (at_s) => h("time", { title: clock(at_s) }, ago(at_s));
