// Search as one types: the results are a part of the page, fetched again; the address follows, and "back" goes back.

import { paintTimes } from "./times.js";

const AFTER_MS = 150;
const GO_ON_MAX = 40; // so many parts are looked through by itself, then a person says whether to go on
const PAGE = 50;

export const form = document.querySelector("form[data-search]");
export const results = document.getElementById("results");
const status = document.getElementById("search-status");
let timer;
let asking;
let shown = address();

export function address() {
  const given = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value && !(name === "sort" && value === "id")) given.append(name, value);
  const text = given.toString();
  return form.getAttribute("action") + (text ? `?${text}` : "");
}

export async function fragment(of, part, signal) {
  const url = new URL(of, location.href);
  url.searchParams.set("part", part);
  const answer = await fetch(url, { headers: { Accept: "text/html" }, signal });
  if (answer.redirected && new URL(answer.url).pathname === "/login") location.assign("/login?to=" + encodeURIComponent(of));
  if (!answer.ok) throw new Error(`The service answered ${answer.status}.`);
  return new DOMParser().parseFromString(await answer.text(), "text/html").body;
}

export const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, " ");
const told = (what, from) => document.dispatchEvent(new CustomEvent(what, { detail: from }));

// `keep`: what stays selected; `focus`: a person went to another page and wants to be there.
export async function show(to, { push = false, focus = false } = {}) {
  asking?.abort();
  const mine = asking = new AbortController();
  results.setAttribute("aria-busy", "true");
  try {
    const found = await fragment(to, "results", mine.signal);
    if (mine.signal.aborted) return;
    const isOther = !push && to !== shown;
    shown = to;
    if (push) history.pushState(null, "", to); else history.replaceState(null, "", to);
    put(found);
    told("tocsin:found", { isOther });
    if (focus) { results.querySelector("#found").focus(); scrollTo({ top: 0 }); }
    await goOn(mine, GO_ON_MAX);
    status.textContent = results.querySelector("#found").textContent;
  } catch (wrong) {
    if (!mine.signal.aborted) status.textContent = `Not searched: ${wrong.message}`;
  } finally {
    if (asking === mine) { asking = undefined; results.removeAttribute("aria-busy"); }
  }
}

export function put(found) {
  results.replaceChildren(...found.childNodes);
  paintTimes(results);
}

const rowsIn = (root) => root.querySelectorAll("tbody tr");

// Little was found in much: the next part is looked through as well, and what is found in it comes below.
async function goOn(mine, most) {
  for (let part = 0; part < most; part++) {
    const line = results.querySelector("#found");
    const looked = Number(line?.dataset.looked || 0);
    if (!looked || rowsIn(results).length >= PAGE || mine.signal.aborted) return;
    const found = await fragment(line.dataset.more, "results", mine.signal);
    if (mine.signal.aborted) return;
    const next = found.querySelector("#found");
    results.querySelector("tbody").append(...rowsIn(found));
    const count = rowsIn(results).length;
    const all = looked + Number(next.dataset.looked);
    line.dataset.looked = Number(next.dataset.looked) ? all : 0;
    line.dataset.more = next.dataset.more;
    line.textContent = Number(line.dataset.looked)
      ? `Looked at ${grouped(all)} so far${line.dataset.held || ""}: ${count} ${count === 1 ? "match" : "matches"}.`
      : next.dataset.more ? `The first ${count} that match.` : count ? `${count}, and no more.` : "None matches.";
    results.querySelector("nav").replaceWith(found.querySelector("nav"));
    paintTimes(results);
    told("tocsin:found", { isOther: false });
  }
}

export function soon() {
  clearTimeout(timer);
  timer = setTimeout(() => show(address()), AFTER_MS);
}

if (form) {
  form.addEventListener("input", soon);
  form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(timer); show(address()); });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-page]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    if (link.hasAttribute("data-go-on") && results.querySelector("tbody")) {
      const mine = asking = new AbortController();
      goOn(mine, GO_ON_MAX).then(() => { status.textContent = results.querySelector("#found").textContent; });
      return;
    }
    show(link.getAttribute("href"), { push: true, focus: true });
  });
  addEventListener("popstate", () => {
    const given = new URLSearchParams(location.search);
    for (const field of form.elements) if (field.name) field.value = given.get(field.name) || (field.name === "sort" ? "id" : "");
    told("tocsin:returned");
    show(location.pathname + location.search);
  });
  // What was looked for before this page came may need more than one look.
  const mine = asking = new AbortController();
  goOn(mine, GO_ON_MAX).catch(() => undefined);
}
