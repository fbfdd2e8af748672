// Elements from values. Text is always text: nothing that a topic is called becomes markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [name, text] of Object.entries(value)) node.style.setProperty(name, text);
    else if (key === "value") node.value = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// Puts new children in, and the focus and the opened details back to where they were: what is live must not
// disturb who types or reads.
export function renew(node, ...children) {
  const active = document.activeElement;
  const key = node.contains(active) ? active.dataset?.key ?? active.closest?.("[data-key]")?.dataset.key : null;
  const opened = new Set([...node.querySelectorAll("details[open][data-key]")].map((each) => each.dataset.key));
  const tops = new Map([...node.querySelectorAll("[data-scroll]")].map((each) => [each.dataset.scroll, each.scrollTop]));
  node.replaceChildren(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  for (const each of node.querySelectorAll("details[data-key]")) if (opened.has(each.dataset.key)) each.open = true;
  for (const each of node.querySelectorAll("[data-scroll]")) each.scrollTop = tops.get(each.dataset.scroll) ?? 0;
  if (key) node.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

// Figures

export const ms = (value) => (value === null || value === undefined ? "–" : `${value >= 100 ? value.toFixed(0) : value.toFixed(1)} ms`);
export const seconds = (value) => (value < 1 ? `${Math.round(value * 1000)} ms` : value < 120 ? `${value.toFixed(1)} s` : `${Math.round(value / 60)} min`);
export const percent = (value) => `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`;

export function count(value) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) >= 10000) return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value);
  return new Intl.NumberFormat("en", { maximumFractionDigits: Math.abs(value) < 10 ? 1 : 0 }).format(value);
}

export const many = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (value < 999.5 || unit === "GB") return `${Number(value.toPrecision(3))} ${unit}`;
    value /= 1000;
  }
}

export const clock = (at_s) => new Date(at_s * 1000).toLocaleTimeString("en-GB");

export function ago(at_s) {
  const past = Math.max(0, Date.now() / 1000 - at_s);
  if (past < 60) return `${Math.floor(past)} s ago`;
  if (past < 3600) return `${Math.floor(past / 60)} min ago`;
  return new Date(at_s * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

// Parts that several views have

const WORDS = { kept: "✓ kept", broken: "✕ broken", unknown: "? not measured", none: "no promise" };

export const promise = (state) => h("span", { class: `pill ${state}` }, WORDS[state]);
export const empty = (title, ...text) => h("div", { class: "empty" }, h("b", {}, title), ...text);
export const card = (title, body, ...end) =>
  h("section", { class: "card", "aria-label": title }, h("header", {}, h("h2", {}, title), h("div", { class: "end" }, end)), body);
export const topicLink = (name) => h("a", { href: `#/topics/${encodeURIComponent(name)}`, "data-key": `topic ${name}` }, name);
export const route = (strategy, brokers) => `${brokers.join(", ")}${strategy === "single" ? "" : ` (${strategy.replaceAll("_", " ")})`}`;

// A bar that is full at `most`; with `mark`, where the bound is.
export function meter(value, most, state, mark) {
  const width = `${Math.min(100, (100 * value) / most)}%`;
  return h(
    "div",
    { class: `meter ${state}`, role: "meter", "aria-valuenow": value.toFixed(2), "aria-valuemin": 0, "aria-valuemax": most.toFixed(2) },
    h("i", { style: { width } }),
    mark ? h("u", { style: { left: `${(100 * mark) / most}%` } }) : null,
  );
}

export function toast(text, bad) {
  const node = h("div", { class: bad ? "toast bad" : "toast" }, text);
  document.getElementById("toasts").append(node);
  setTimeout(() => node.remove(), bad ? 9000 : 5000);
}
