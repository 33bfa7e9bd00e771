// What every page does: stays live, shows moments in the reader's zone, and asks before it acts.
// A page is only ever exchanged for parts of its own newer self; whatever changes something goes to the REST API.

import { paintTimes } from "./times.js";
import { act, say } from "./acts.js";

const PART_EVERY_MS = 2000;
const LOST_AFTER_MS = 4000;

const parts = () => document.querySelectorAll("[data-live][id]");

// Live parts

let asked = false;
let wanted = false;
let hadTick = false;

async function refresh() {
  wanted = true;
  if (asked || document.hidden) return;
  wanted = false;
  document.dispatchEvent(new CustomEvent("tocsin:tick")); // for a page that keeps its own parts true
  if (!parts().length) return;
  asked = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html", "Tocsin-Live": "1" } });
    if (answer.redirected && new URL(answer.url).pathname === "/login") location.assign(answer.url);
    if (answer.ok) exchange(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch {
    // The stream tells when the replica is gone; the next tick asks again.
  } finally {
    asked = false;
  }
}

function exchange(newer) {
  for (const old of parts()) {
    const fresh = newer.getElementById(old.id);
    const held = old.contains(document.activeElement) && old !== document.activeElement ? document.activeElement : null;
    const pressed = held?.matches("button[data-act]") ? held : null; // nothing is typed there: its successor has the focus
    const isBusy = old.hasAttribute("data-busy") || (held && !pressed);
    if (!fresh || isBusy || fresh.outerHTML === old.dataset.was) continue;
    const was = fresh.outerHTML;
    const open = new Set([...old.querySelectorAll("details[open][id]")].map((each) => each.id));
    old.replaceWith(fresh);
    fresh.dataset.was = was;
    if (pressed) (fresh.querySelector(`[data-to="${CSS.escape(pressed.dataset.to)}"]`) ?? fresh.querySelector("button[data-act]"))?.focus();
    open.forEach((id) => document.getElementById(id)?.setAttribute("open", ""));
    prepare(fresh);
  }
  document.dispatchEvent(new CustomEvent("tocsin:refreshed"));
}

async function load(element) {
  const address = element.dataset.lazy;
  try {
    const answer = await fetch(address, { headers: { Accept: "text/html" } });
    const text = await answer.text();
    if (!answer.ok) throw new Error(answer.statusText);
    const found = new DOMParser().parseFromString(text, "text/html").body;
    element.replaceChildren(...found.childNodes);
    element.removeAttribute("aria-busy");
    prepare(element);
  } catch (wrong) {
    element.replaceChildren(`This part could not be loaded: ${wrong.message}`);
  }
  const every = Number(element.dataset.every || 0);
  if (every) setTimeout(() => element.isConnected && load(element), every * 1000);
}

function prepare(root) {
  paintTimes(root);
  for (const lazy of root.querySelectorAll("[data-lazy]:not([data-loading])")) {
    lazy.setAttribute("data-loading", "");
    lazy.setAttribute("aria-busy", "true");
    load(lazy);
  }
}

// The stream of ticks

const state = document.getElementById("live-state");
const banner = document.getElementById("cut-off");
let lost;

function show(words, kind) {
  if (!state) return;
  if (state.textContent !== words) state.textContent = words;
  state.className = `live ${kind}`;
}

// A browser holds few connections to one host for all of its tabs: those that nobody looks at must not keep them.
let stream;

function rest() {
  stream?.close();
  clearTimeout(lost);
  lost = undefined;
}

function listen() {
  stream?.close();
  const own = stream = new EventSource("/live");
  own.onmessage = (message) => {
    const { leader, term } = JSON.parse(message.data);
    clearTimeout(lost);
    lost = undefined;
    banner.hidden = true;
    if (hadTick && leader && state.dataset.leader && leader !== state.dataset.leader) say(`${leader} leads now (term ${term}).`);
    if (leader) state.dataset.leader = leader;
    show(leader ? "live" : "no leader", leader ? "is-live" : "is-lost");
    hadTick = true;
    wanted = true;
  };
  own.onerror = () => {
    show("reconnecting", "is-lost");
    lost ??= setTimeout(() => { banner.hidden = false; }, LOST_AFTER_MS);
    if (own.readyState === EventSource.CLOSED) setTimeout(() => own === stream && !document.hidden && listen(), 2000);
  };
}

if (state) {
  for (const link of document.querySelectorAll("[data-elsewhere]")) link.href = new URL(location.pathname + location.search, link.href);
  if (!document.hidden) listen();
  setInterval(() => wanted && refresh(), PART_EVERY_MS);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { rest(); return; }
    listen();
    refresh();
  });
  addEventListener("pagehide", rest);
  addEventListener("pageshow", (event) => event.persisted && listen());
  document.addEventListener("tocsin:changed", refresh);
}

// Buttons and forms that do something

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-act]");
  if (button) act(button, button.dataset.body ? JSON.parse(button.dataset.body) : undefined);
});
document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-act]");
  if (!form) return;
  event.preventDefault();
  const body = {};
  for (const [name, value] of new FormData(form, event.submitter)) if (value !== "") body[name] = value;
  act(form, body);
});

// Charts are drawn by the service, and are to have the reader's hours.
document.cookie = `zone=${encodeURIComponent(Intl.DateTimeFormat().resolvedOptions().timeZone)}; path=/; max-age=31536000; SameSite=Lax`;

// Light or dark

const theme = localStorage.getItem("theme");
if (theme) document.documentElement.dataset.theme = theme;
document.getElementById("theme")?.addEventListener("click", () => {
  const isDark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
});

// "/" leads to the search, wherever there is one.
document.addEventListener("keydown", (event) => {
  const search = document.querySelector("input[type=search]");
  if (event.key !== "/" || !search || event.target.closest("input, textarea, select")) return;
  event.preventDefault();
  search.focus();
});

prepare(document.body);
