// The views that are not one topic or many.

import * as actions from "./actions.js";
import { get } from "./api.js";
import * as brokers from "./brokers.js";
import { card, count, empty, h, percent, renew, seconds, topicLink } from "./dom.js";
import { stream } from "./events.js";
import * as map from "./map.js";
import * as topics from "./topics.js";

const live = (title, draw, ...end) => {
  const body = h("div");
  const page = h("div", {}, h("div", { class: "head" }, h("h1", {}, title), h("div", { class: "end" }, end)), body);
  return { page, refresh: async () => renew(body, await draw()) };
};

const button = (text, act, name) => h("button", { type: "button", "data-action": name, onclick: act }, text);

export function overview() {
  let policy = "";
  const rebalance = button("Rebalance…", () => actions.rebalance(policy), "rebalance");
  return live("Overview", async () => {
    const [status, found, risky, told, plan, mapped] = await Promise.all([
      get("status"), get("brokers"), get("topics", { limit: 10 }), get("decisions", { limit: 12 }), get("rebalance"), get("map", { limit: 200 })]);
    policy = status.policy;
    const drawn = map.draw(mapped, topics.open);
    return [
      figures(status), running(plan),
      h("div", { class: "grid" },
        h("div", { class: "stack" },
          card("Network map", drawn ? h("div", {}, drawn, map.legend()) : empty("No coordinates yet.", "Agents find out where they are within some seconds of their start."), mapped.left_out ? h("span", { class: "small soft" }, `${count(mapped.topics.length)} topics most at risk of ${count(mapped.topics.length + mapped.left_out)}`) : null),
          card("Topics most at risk", risky.topics.length ? topics.table(risky.topics, null, null, 6) : empty("No topic is used yet.", "Try ", h("code", {}, "nearcast sub hello"), " and ", h("code", {}, "nearcast pub hello world"), "."), h("a", { class: "small", href: "#/topics" }, "all topics"))),
        h("div", { class: "stack" },
          card("Load of brokers", h("div", {}, brokers.list(found.brokers, false)), h("a", { class: "small", href: "#/brokers" }, "all brokers")),
          card("Decisions", told.happenings.length ? h("div", { class: "scroll", "data-scroll": "decisions" }, stream(told.happenings)) : empty("Nothing was decided yet.", "A move shows here with its reason. ", "Give a topic a promise, or make a plan with “Rebalance…”."), h("a", { class: "small", href: "#/decisions" }, "all decisions")))),
    ];
  }, rebalance);
}

function figures(status) {
  const { kept, broken, unknown } = status.promises;
  const one = (value, text, kind, href) => h(href ? "a" : "div", { class: `kpi ${kind ?? ""}`, href }, h("b", {}, value), h("span", {}, text));
  return h("div", { class: "kpis" },
    one(kept, unknown ? `kept, ${unknown} not measured` : "promises kept", kept && !broken ? "good" : "", "#/topics"), one(broken, "promises broken", broken ? "bad" : "", "#/topics"),
    one(count(status.topics), status.moving ? `topics, ${count(status.moving)} moving` : "topics", "", "#/topics"), one(`${count(status.publications_hz)}/s`, `in, ${count(status.deliveries_hz)}/s out`),
    one(`${count(status.publishers)} + ${count(status.subscribers)}`, "publishers + subscribers"), one(status.brokers, status.agents_lost.length ? `brokers, ${status.agents_lost.length} agents lost` : "brokers", status.agents_lost.length ? "bad" : "", "#/brokers"),
    h("div", { class: "kpi", title: "The mean load of brokers over the highest: 100 % where all carry alike" }, h("b", {}, status.balancedness === null ? "–" : percent(status.balancedness)), h("span", {}, "balancedness")));
}

function running(plan) {
  if (!plan.plan || !["running", "stopping"].includes(plan.state)) return null;
  const { waiting, moving, done, settling, refused } = plan.counts;
  return h("div", { class: "notice" }, `Plan ${plan.plan} (${plan.policy}) is ${plan.state}: ${done + settling} moved, ${moving} moving, ${waiting} waiting${refused ? `, ${refused} refused` : ""}. `, plan.state === "running" ? h("button", { class: "mini", type: "button", "data-key": "stop", onclick: actions.stop }, "Stop…") : null);
}

export const fleet = () => live("Brokers", async () => {
  const { brokers: found } = await get("brokers");
  return h("section", { class: "card", "aria-label": "Brokers" }, brokers.list(found, true));
}, button("Add a broker…", actions.add, "add"));

export const decisions = () => live("Decisions", async () => {
  const { happenings } = await get("decisions", { limit: 100 });
  return h("section", { class: "card", "aria-label": "Decisions" }, happenings.length ? stream(happenings) : empty("Nothing was decided yet.", "What moves topics shows here, with its reason, its candidates, and what was measured afterwards."));
});

export const channels = () => live("Channels", async () => {
  const { channels: found } = await get("channels");
  if (!found.length) return h("section", { class: "card" }, empty("There is no channel.", "Make a dataset and a channel, and run the pipeline: ", h("code", {}, "nearcast channel create NAME --query SELECT"), ", ", h("code", {}, "nearcast pipeline run"), "."));
  const rows = found.map((each) => h("tr", { "data-channel": each.name },
    h("td", { class: "name" }, each.name), h("td", {}, each.period_s === null ? "as data arrives" : `every ${each.period_s} s`), h("td", {}, each.push ? "rows are sent" : "rows are asked for"),
    h("td", { class: "num" }, count(each.executions)), h("td", { class: "num" }, count(each.rows)), h("td", { class: "num" }, count(each.keys)),
    h("td", { class: "num" }, each.took_s === null ? "–" : seconds(each.took_s)), h("td", { class: "num" }, each.late_s === null ? "–" : seconds(each.late_s)),
    h("td", {}, each.failure ? h("span", { class: "pill broken", title: each.failure }, "failing") : each.failures ? `${each.failures} before` : "")));
  const head = ["Channel", "Runs", "Results", "Executions", "Rows", "Subscriptions", "Took", "Lag", "Failures"];
  return h("section", { class: "card", "aria-label": "Channels" }, h("div", { class: "table-wrap" }, h("table", {}, h("thead", {}, h("tr", {}, head.map((each, place) => h("th", { class: place > 2 && place < 8 ? "num" : "" }, each)))), h("tbody", {}, rows))));
});

export const processors = () => live("Processors", async () => {
  const { processors: found } = await get("processors");
  if (!found.length) return h("section", { class: "card" }, empty("No topic is processed.", "Have messages filtered, projected or aggregated at the broker: ", h("code", {}, "nearcast topic set TOPIC --sql SELECT"), " or ", h("code", {}, "--processor MODULE:CALLABLE"), "."));
  const failures = (each) => [["raised", each.raised], ["hung", each.hung], ["died", each.died]].filter(([, number]) => number).map(([what, number]) => `${count(number)} ${what}`).join(", ");
  const rows = found.map((each) => h("tr", { "data-processor": each.topic },
    h("td", { class: "name" }, topicLink(each.topic)), h("td", {}, each.broker), h("td", { class: "num" }, each.interval_ms === null ? "–" : `${each.interval_ms.toFixed(1)} ms`),
    h("td", { class: "num" }, count(each.queue)), h("td", { class: "num" }, count(each.processed)), h("td", { class: "num" }, count(each.dropped)),
    h("td", {}, each.failed ? h("span", { class: "pill broken", title: each.errors.join("\n") }, failures(each)) : ""),
    h("td", { class: "reason" }, each.errors.at(-1) ?? "")));
  const head = ["Topic", "Broker", "Takes", "Waiting", "Processed", "Left out", "Failed", "Last error"];
  return h("section", { class: "card", "aria-label": "Processors" }, h("div", { class: "table-wrap" }, h("table", {}, h("thead", {}, h("tr", {}, head.map((each, place) => h("th", { class: place > 1 && place < 6 ? "num" : "" }, each)))), h("tbody", {}, rows))));
});
