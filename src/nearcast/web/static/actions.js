// What an operator can do: every action shows what it would do, asks for a reason, and only then acts.

import { finished, get, post, topicPath } from "./api.js";
import { h, renew, route, toast } from "./dom.js";

const dialog = () => document.getElementById("dialog");

export function close() {
  dialog().close();
}

// `fields`: elements of the form. `order()`: [path, body] of what is asked for, or a promise of it. `word`: on the button.
function ask({ title, text, fields, order, word, danger, plan }) {
  const preview = h("div", { "aria-live": "polite" });
  const reason = h("input", { name: "reason", maxlength: 300, placeholder: "Why? Others will read it in the decisions", autocomplete: "off", required: true });
  const apply = h("button", { class: danger ? "danger" : "primary", type: "submit", disabled: true, "data-action": "apply" }, word);
  const dry = h("button", { type: "button", "data-action": "dry-run", onclick: () => foresee() }, "Dry run");
  let shown = null;
  const ready = () => { apply.disabled = !(shown && reason.value.trim()); };
  const changed = () => { shown = null; renew(preview); ready(); };

  async function foresee() {
    shown = null;
    try {
      const [path, body] = await order();
      const found = await post(path, { ...body, ...(plan ? {} : { reason: reason.value.trim() }) }, true);
      shown = true;
      renew(preview, foresight(found));
    } catch (error) {
      renew(preview, h("p", { class: "error" }, error.message));
    }
    ready();
  }

  async function carryOut(event) {
    event.preventDefault();
    if (apply.disabled) return;
    apply.disabled = true;
    try {
      const [path, body] = await order();
      const { task } = await post(path, { ...body, reason: reason.value.trim() }, false);
      close();
      toast(`${title}: ordered`);
      const found = await finished(task);
      if (found) toast(`${title}: ${found.outcome || "done"}`, found.state !== "done");
    } catch (error) {
      renew(preview, h("p", { class: "error" }, error.message));
      ready();
    }
  }

  reason.addEventListener("input", ready);
  for (const each of fields) each.addEventListener("input", changed);
  renew(dialog(),
    h("form", { method: "dialog", onsubmit: carryOut },
      h("h1", { id: "dialog-title" }, title), text ? h("p", { class: "soft" }, text) : null, fields,
      h("label", {}, "Reason", reason), preview,
      h("div", { class: "actions" }, h("button", { type: "button", onclick: close }, "Cancel"), dry, apply)));
  dialog().showModal();
  (fields[0]?.querySelector?.("input, select") ?? reason).focus();
  if (!fields.length) foresee();
}

function foresight(found) {
  const steps = found.steps.slice(0, 100).map((each) =>
    h("tr", {}, h("td", { class: "name" }, each.topic), h("td", {}, route(each.was_strategy, each.was_brokers), h("span", { class: "arrow" }, " → "), route(each.strategy, each.brokers)), h("td", { class: "small soft" }, each.reason)));
  const more = found.steps_count - steps.length;
  const notes = found.notes.length ? h("ul", { class: "small" }, found.notes.map((each) => h("li", {}, each))) : null;
  const nothing = !steps.length && !found.notes.length ? h("p", { class: "empty" }, "Nothing would change.") : null;
  return h("div", { class: "plan", "data-plan": found.steps_count },
    steps.length ? h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "topic"), h("th", {}, "from → to"), h("th", {}, "why"))), h("tbody", {}, steps)) : null,
    more > 0 ? h("p", { class: "small soft pager" }, `and ${more} more`) : null, notes, nothing);
}

const STRATEGIES = ["single", "all_subscribers", "all_publishers", "homed"];

export async function move(topic, at) {
  const { brokers } = await get("brokers");
  const strategy = h("select", { name: "strategy" }, STRATEGIES.map((each) => h("option", { value: each }, each.replaceAll("_", " "))));
  const boxes = brokers.filter((each) => each.state === "present").map((each) =>
    h("label", {}, h("input", { type: "checkbox", name: "broker", value: each.name, disabled: each.agent === "lost" }), `${each.name} (${each.site || "no site"})${at.includes(each.name) ? " · now" : ""}`));
  const list = h("div", { class: "checks", role: "group", "aria-label": "Brokers" }, boxes);
  ask({
    title: `Move ${topic}`, word: "Move it", text: `It is on ${at.join(", ")} now. Nothing is lost: clients follow by themselves.`,
    fields: [h("label", {}, "Strategy", strategy), list],
    order: () => [`${topicPath(topic)}/move`, { strategy: strategy.value, brokers: [...list.querySelectorAll("input:checked")].map((each) => each.value) }],
  });
}

export function setPromise(topic, slo) {
  const wanted = h("input", { name: "slo", value: slo, placeholder: "p95:40ms, or empty for none", autocomplete: "off" });
  ask({
    title: `Promise for ${topic}`, word: "Set it", text: "So many of a hundred messages arrive within a bound, from publish to receipt.",
    fields: [h("label", {}, "Promise", wanted)],
    order: () => [`${topicPath(topic)}/promise`, { slo: wanted.value.trim() }],
  });
}

export function drain(name) {
  ask({ title: `Drain ${name}`, word: "Drain it", danger: true, text: "Everything on it moves to other brokers; then it can be removed.", fields: [], order: () => [`brokers/${name}/drain`, {}] });
}

export function keep(name) {
  ask({ title: `Keep ${name}`, word: "Keep it", text: "The drain is cancelled; what has moved away stays there.", fields: [], order: () => [`brokers/${name}/drain`, { cancel: true }] });
}

export function remove(name) {
  ask({ title: `Remove ${name}`, word: "Remove it", danger: true, text: "It leaves the fleet; a rented server is ended.", fields: [], order: () => [`brokers/${name}/remove`, {}] });
}

export function add() {
  const name = h("input", { name: "name", autocomplete: "off", placeholder: "b4" });
  const url = h("input", { name: "url", autocomplete: "off", placeholder: "nats://host:4222; empty to rent one" });
  const site = h("input", { name: "site", autocomplete: "off", placeholder: "berlin" });
  ask({
    title: "Add a broker", word: "Add it", fields: [h("label", {}, "Name", name), h("label", {}, "Address", url), h("label", {}, "Site", site)],
    order: () => ["brokers", { name: name.value.trim(), url: url.value.trim(), site: site.value.trim() }],
  });
}

// A plan is made anew for every dry run; what is applied is exactly the one that was shown.
export function rebalance(policy) {
  const chosen = h("select", { name: "policy" }, ["", "epulsar", "dynamoth"].map((each) => h("option", { value: each }, each || `configured (${policy})`)));
  let made = null;
  let wanted = null;
  chosen.addEventListener("input", () => { made = null; });
  ask({
    title: "Rebalance", word: "Apply this plan", text: "A dry run makes a plan; applying carries out exactly that one.",
    fields: [h("label", {}, "Policy", chosen)],
    order: async () => {
      if (made === null || wanted !== chosen.value) {
        wanted = chosen.value;
        made = await post("rebalance/plan", { policy: wanted }, true);
      }
      return ["rebalance/apply", { plan: made.plan }];
    },
  });
}

export function stop() {
  ask({ title: "Stop the rebalance", word: "Stop it", danger: true, text: "What has begun ends in order; nothing more begins.", fields: [], order: () => ["rebalance/stop", {}] });
}

export function help() {
  const keys = [["1 – 6", "views"], ["/", "search topics"], ["↑ ↓", "rows of a table"], ["Enter", "open"], ["r", "plan a rebalance"], ["t", "light or dark"], ["Esc", "close"], ["?", "this"]];
  renew(dialog(),
    h("form", { method: "dialog" }, h("h1", { id: "dialog-title" }, "Keys"),
      h("dl", { class: "facts" }, keys.map(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)])),
      h("p", { class: "small soft" }, "All of this is also in the API: ", h("a", { href: "/openapi.json" }, "its document"), ", ", h("a", { href: "/metrics" }, "metrics"), "."),
      h("div", { class: "actions" }, h("button", { class: "primary" }, "Close"))));
  dialog().showModal();
}
