// Brokers: what each carries against what it can.

import { drain, keep, remove } from "./actions.js";
import { bytes, count, h, many, meter, percent } from "./dom.js";

export function list(brokers, actions) {
  return brokers.map((each) => h("div", { class: "broker", "data-broker": each.name },
    h("div", { class: "top" }, h("b", {}, each.name), h("span", { class: "soft" }, each.site || "no site"), state(each), agent(each), h("span", { class: "end" }, actions ? buttons(each) : null)),
    load(each),
    h("div", { class: "row small soft num" }, many(each.topics, "topic"), h("span", {}, `${many(each.publishers, "publisher")}, ${many(each.subscribers, "subscriber")}`), h("span", {}, `${count(each.publications_hz)} in/s, ${count(each.deliveries_hz)} out/s`), each.residents ? h("span", {}, `${count(each.residents)} at home`) : null,
      actions ? resources(each) : null),
    actions && each.handed_over && (each.handed_over.forwarded || each.handed_over.notices)
      ? h("div", { class: "small soft num" }, `moves cost: ${many(each.handed_over.forwarded, "message")} forwarded (${bytes(each.handed_over.forwarded_bytes)}), ${many(each.handed_over.notices, "notice")}${each.handed_over.emptied_s === null ? "" : `, empty after at most ${each.handed_over.emptied_s.toFixed(1)} s`}`) : null,
    each.trouble ? h("div", { class: "small pill broken" }, each.trouble) : null));
}

function load(each) {
  if (each.load_ratio === null) {
    const text = each.out_bytes_per_s === null ? "has not reported" : `${bytes(each.out_bytes_per_s)}/s out; no capacity is configured`;
    return h("div", { class: "small soft num" }, text);
  }
  const state = each.load_ratio > 1 ? "broken" : each.load_ratio > 0.8 ? "warn" : "";
  return h("div", {}, meter(each.load_ratio, 1, state, 0.8), h("div", { class: "small num" }, `${bytes(each.out_bytes_per_s)}/s of ${bytes(each.capacity_bytes_per_s)}/s `, h("span", { class: "soft" }, `(${percent(each.load_ratio)})`)));
}

function resources(each) {
  const parts = [];
  if (each.cores !== null) parts.push(`${each.cores.toFixed(2)} processors${each.most_cores ? ` of ${each.most_cores}` : ""}`);
  if (each.memory_bytes !== null) parts.push(`${bytes(each.memory_bytes)} memory${each.most_memory_bytes ? ` of ${bytes(each.most_memory_bytes)}` : ""}`);
  return parts.length ? h("span", {}, parts.join(", ")) : null;
}

function state(each) {
  if (each.state === "present") return each.rented ? h("span", { class: "pill" }, "rented") : null;
  return h("span", { class: "pill unknown" }, each.state !== "draining" ? each.state : each.left ? `draining, ${many(each.left, "topic")} left` : each.in_ring ? "draining, still in the ring" : "drained: it can be removed");
}

const agent = (each) => (each.agent === "present" ? null : h("span", { class: "pill broken" }, `agent not heard${each.silent_s === null ? "" : ` for ${Math.round(each.silent_s)} s`}`));

function buttons(each) {
  const one = (word, act) => h("button", { class: "mini", type: "button", "data-key": `${word} ${each.name}`, onclick: () => act(each.name) }, word);
  if (each.state === "present") return one("Drain…", drain);
  if (each.state === "draining") return [one("Keep…", keep), " ", one("Remove…", remove)];
  return null;
}
