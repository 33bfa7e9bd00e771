// One schedule: arrow keys in its charts, what the pointer is on told in words, and the forms that answer in place.

import { paintTimes } from "./times.js";
import { say, send } from "./acts.js";

const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
document.querySelectorAll("[data-own-zone]").forEach((each) => { each.textContent = own; });

function made(tag, words = "", more = {}) {
  return Object.assign(document.createElement(tag), { textContent: words }, more);
}

function time(iso, zone) {
  const element = made("time");
  element.dateTime = iso;
  if (zone) element.dataset.zone = zone;
  return element;
}

// Charts. One stop of the Tab key each; arrow keys go from one mark to the next.

const marks = (chart) => [...chart.querySelectorAll("a")];

function prepare() {
  for (const chart of document.querySelectorAll("svg[data-rove]")) {
    const all = marks(chart);
    if (!all.some((each) => each.getAttribute("tabindex") === "0")) {
      all.forEach((each, place) => each.setAttribute("tabindex", place === all.length - 1 ? "0" : "-1"));
    }
  }
  for (const table of document.querySelectorAll("[data-zones]")) table.classList.toggle("same-zone", table.dataset.zones === own);
  for (const wide of document.querySelectorAll("[data-end]:not([data-placed])")) {
    wide.dataset.placed = "";
    wide.scrollLeft = wide.scrollWidth;
  }
}

document.addEventListener("keydown", (event) => {
  const chart = event.target.closest?.("svg[data-rove]");
  if (!chart) return;
  const all = marks(chart);
  const place = all.indexOf(event.target.closest("a"));
  const to = { ArrowRight: place + 1, ArrowDown: place + 1, ArrowLeft: place - 1, ArrowUp: place - 1, Home: 0, End: all.length - 1 }[event.key];
  if (to === undefined || !all[to]) return;
  event.preventDefault();
  all[place]?.setAttribute("tabindex", "-1");
  all[to].setAttribute("tabindex", "0");
  all[to].focus();
});

function tell(event) {
  const mark = event.target.closest?.("svg[data-rove] a, svg[data-rove] g");
  const words = mark?.querySelector("title")?.textContent;
  const line = mark?.closest("section")?.querySelector(".told");
  if (!words || !line) return;
  line.dataset.gist ??= line.textContent;
  line.textContent = words;
}

function untell(event) {
  const line = event.target.closest?.("section")?.querySelector(".told");
  if (line?.dataset.gist && event.target.closest("svg[data-rove]")) line.textContent = line.dataset.gist;
}

document.addEventListener("pointerover", tell);
document.addEventListener("focusin", tell);
document.addEventListener("pointerout", untell);
document.addEventListener("focusout", untell);

// Parts come late, or again.
new MutationObserver(prepare).observe(document.getElementById("main"), { childList: true, subtree: true });

// Dialogs, and where the focus is after something was done

let actedIn;
let back;
document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-opens]");
  if (opener) document.getElementById(opener.dataset.opens).showModal();
  if (event.target.closest("[data-closes]")) event.target.closest("dialog").close();
  if (event.target.closest("#main [data-act], [data-opens]")) actedIn = event.target.closest("[data-live]")?.id ?? actedIn;
});
// What was just done changes the buttons: a focus on one of them must not keep them as they were.
document.addEventListener("tocsin:changed", () => {
  if (document.activeElement?.closest("[data-live]")) document.activeElement.blur();
  back = actedIn;
});
document.addEventListener("tocsin:refreshed", () => {
  const isFree = document.activeElement === document.body && !document.querySelector("dialog[open]");
  if (back && isFree) document.querySelector(`#${back} button, #${back} a`)?.focus({ preventScroll: true });
  back = undefined;
});

// Why

const why = document.getElementById("why-form");
const answer = document.getElementById("why-answer");
why.addEventListener("submit", async (event) => {
  event.preventDefault();
  const at = why.elements.at.value;
  try {
    const found = await send("GET", why.dataset.to + (at ? `?at=${Math.floor(new Date(at) / 1000)}` : ""));
    const head = made("p");
    head.append(time(found.at), ": ", made("strong", found.answer));
    answer.replaceChildren(head);
    for (const launch of found.launches) {
      const line = made("p");
      line.append(made("a", launch.name, { href: `/launches/${encodeURI(launch.name)}` }));
      answer.append(line);
    }
    paintTimes(answer);
  } catch (wrong) {
    answer.replaceChildren(made("p", wrong.message, { className: "wrong" }));
  }
});

// Backfill: what would be, and then, with the number on the button, doing it

const form = document.getElementById("backfill-form");
if (form) backfill(form, document.getElementById("backfill-answer"), document.getElementById("backfill-launch"));

function backfill(form, shown, launch) {
  const LISTED = 200;
  const wish = (preview) => {
    const { from, until, unrecorded } = form.elements;
    const iso = (field) => new Date(field.value).toISOString();
    return { from: iso(from), ...(until.value ? { until: iso(until) } : {}), unrecorded: unrecorded.checked, preview };
  };
  const forget = () => { shown.replaceChildren(); launch.hidden = true; };
  form.addEventListener("input", forget);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const isPreview = event.submitter?.value !== "launch";
    try {
      const found = await send("POST", form.dataset.to, wish(isPreview));
      if (isPreview) { show(found); return; }
      form.closest("dialog").close();
      forget();
      say(`${found.launches} to be launched, the oldest first.`);
      document.dispatchEvent(new CustomEvent("tocsin:changed"));
    } catch (wrong) {
      shown.replaceChildren(made("p", wrong.message, { className: "wrong" }));
    }
  });

  function show(found) {
    const many = (count, one) => `${count} ${one}${count === 1 ? "" : "s"}`;
    const head = made("p");
    head.append(made("strong", `${many(found.launches, "occurrence")} would be launched`), `, ${found.left_out} left out.`);
    if (found.more) head.append(" There are more than one request covers: ask again behind the last one.");
    const table = made("table");
    table.innerHTML = "<thead><tr><th scope=col>Of</th><th scope=col>What becomes of it</th><th scope=col>Because</th></tr></thead>";
    const body = table.appendChild(made("tbody"));
    for (const item of found.items.slice(0, LISTED)) {
      const row = body.insertRow();
      row.insertCell().append(time(item.at));
      row.insertCell().append(made("span", item.launch ? "▶ to be launched" : "– left out", { className: `state s-${item.launch ? "succeeded" : "skipped"}` }));
      row.insertCell().append(item.why);
    }
    const wide = made("div", "", { className: "scroll tall", tabIndex: 0 });
    wide.setAttribute("role", "region");
    wide.setAttribute("aria-label", "Every occurrence");
    wide.append(table);
    shown.replaceChildren(head, ...(found.items.length ? [wide] : []));
    if (found.items.length > LISTED) shown.append(made("p", `The first ${LISTED} of ${found.items.length} are listed.`, { className: "hint" }));
    paintTimes(shown);
    launch.hidden = !found.launches;
    launch.textContent = `Launch ${many(found.launches, "occurrence")}`;
  }
}

prepare();
