// Which view is shown, how it stays up to date, keys and colours.

import * as actions from "./actions.js";
import { follow, get } from "./api.js";
import { h, renew, toast } from "./dom.js";
import * as topics from "./topics.js";
import * as views from "./views.js";

const TABS = [["overview", "Overview"], ["topics", "Topics"], ["brokers", "Brokers"], ["decisions", "Decisions"], ["channels", "Channels"], ["processors", "Processors"]];
const VIEWS = { overview: views.overview, topics: topics.view, brokers: views.fleet, decisions: views.decisions, channels: views.channels, processors: views.processors };

let shown = null;
let busy = false;
let again = false;

function go() {
  const [name, ...rest] = location.hash.replace(/^#\//, "").split("/");
  const topic = name === "topics" && rest.length ? decodeURIComponent(rest.join("/")) : null;
  shown = topic === null ? (VIEWS[name] ?? views.overview)() : topics.detail(topic);
  document.title = `${topic ?? TABS.find(([key]) => key === name)?.[1] ?? "Overview"} · nearcast`;
  document.getElementById("view").replaceChildren(shown.page);
  tabs();
  refresh();
}

let broken = 0;

function tabs() {
  const name = location.hash.replace(/^#\//, "").split("/")[0] || "overview";
  renew(document.getElementById("tabs"), TABS.map(([key, text]) =>
    h("a", { href: `#/${key}`, "aria-current": key === name ? "page" : null, "data-key": `tab ${key}` }, text, key === "topics" && broken ? h("span", { class: "count", title: "promises broken" }, broken) : null)));
}

// One at a time; what comes meanwhile is done after it.
async function refresh() {
  if (busy) { again = true; return; }
  busy = true;
  const view = shown;
  try {
    await Promise.all([view.refresh(), state()]);
  } catch (error) {
    stale(error.message);
  } finally {
    busy = false;
    if (again || view !== shown) { again = false; refresh(); }
  }
}

async function state() {
  const status = await get("status");
  if (status.promises.broken !== broken) { broken = status.promises.broken; tabs(); }
  const live = document.getElementById("live");
  if (status.trouble) { stale(status.trouble); return; }
  live.className = "live";
  live.title = `${status.leader} leads (term ${status.term}); this page is served by ${status.served_by}`;
  live.replaceChildren(h("span", {}, `live · term ${status.term} · ${status.automatic ? `${status.policy} plans by itself` : "plans when asked"}`));
}

function stale(text) {
  const live = document.getElementById("live");
  live.className = "live stale";
  live.title = text;
  live.replaceChildren(h("span", {}, text.length > 60 ? `${text.slice(0, 60)}…` : text));
}

// Colours: as the system has them, unless somebody chose.

const system = matchMedia("(prefers-color-scheme: dark)");
const theme = () => localStorage.getItem("theme") ?? (system.matches ? "dark" : "light");

function paint() {
  document.documentElement.dataset.theme = theme();
  document.getElementById("theme").textContent = theme() === "dark" ? "☀" : "☾";
}

function switchTheme() {
  localStorage.setItem("theme", theme() === "dark" ? "light" : "dark");
  paint();
}

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  if (document.getElementById("dialog").open) return;
  const tab = TABS[Number(event.key) - 1];
  if (tab) location.hash = `#/${tab[0]}`;
  else if (event.key === "/") { event.preventDefault(); location.hash = "#/topics"; setTimeout(() => document.getElementById("search")?.focus(), 50); }
  else if (event.key === "?") actions.help();
  else if (event.key === "t") switchTheme();
  else if (event.key === "r") get("status").then((status) => actions.rebalance(status.policy), (error) => toast(error.message, true));
}

paint();
system.addEventListener("change", paint);
document.getElementById("theme").addEventListener("click", switchTheme);
document.getElementById("help").addEventListener("click", actions.help);
document.addEventListener("keydown", key);
addEventListener("hashchange", () => { go(); document.getElementById("view").focus({ preventScroll: true }); scrollTo(0, 0); });
go();
follow(refresh, () => stale("the coordinator does not answer; trying again"));
