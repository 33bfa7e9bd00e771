// The list of schedules: what is ticked, what is done to it, and rows that stay true while somebody looks at them.

import { paintTimes } from "./times.js";
import { ask, say, send, told } from "./acts.js";
import { paintSquares } from "./squares.js";
import { form, fragment, grouped, put, results, show, soon } from "./search.js";

const BATCH = 500;
const MATCHING_MAX = 100000;
const NAMED = 5;
const chosen = new Set();
const box = document.getElementById("selection");
const input = document.getElementById("q");
const many = (count) => `${grouped(count)} ${count === 1 ? "schedule" : "schedules"}`;
let isWorking = false;
let isStopped = false;

const rows = () => [...results.querySelectorAll("tbody tr")];
const tickOf = (row) => row.querySelector("input[type=checkbox]");

// The selects write into the search, and show what stands there

function setTerm(key, value) {
  const others = input.value.split(/\s+/).filter((term) => term && !term.startsWith(`${key}:`));
  input.value = [...others, ...(value ? [`${key}:${value}`] : [])].join(" ");
}

function showTerms() {
  for (const select of form.querySelectorAll("select[data-key]")) {
    const found = input.value.split(/\s+/).findLast((term) => term.startsWith(`${select.dataset.key}:`)) || "";
    select.value = found.slice(select.dataset.key.length + 1);
    if (select.selectedIndex < 0) select.value = "";
  }
}

form.addEventListener("input", (event) => {
  if (event.target.dataset.key) setTerm(event.target.dataset.key, event.target.value);
  else showTerms();
});
document.addEventListener("tocsin:returned", showTerms);
results.addEventListener("click", (event) => {
  const term = event.target.closest("[data-term]")?.dataset.term;
  const sort = event.target.closest("[data-sort]")?.dataset.sort;
  if (!term && !sort) return;
  if (sort) form.elements.sort.value = sort;
  const written = /\s/.test(term || "") ? term.replace(":", ':"') + '"' : term;
  if (term && !input.value.includes(written)) input.value = `${input.value.trim()} ${written}`.trim();
  soon();
});

// What is ticked

function showChosen() {
  if (!box) return;
  for (const row of rows()) {
    tickOf(row).checked = chosen.has(row.dataset.id);
    row.classList.toggle("is-chosen", chosen.has(row.dataset.id));
  }
  const all = results.querySelector("#select-page");
  const ticked = rows().filter((row) => chosen.has(row.dataset.id)).length;
  if (all) { all.checked = ticked > 0 && ticked === rows().length; all.indeterminate = ticked > 0 && ticked < rows().length; }
  box.hidden = !chosen.size && !isWorking;
  const words = `${grouped(chosen.size)} selected`;
  const line = document.getElementById("selected");
  if (line.textContent !== words) line.textContent = words;
  document.getElementById("select-matching").hidden = !results.querySelector("nav a[href*=after]") || chosen.size > rows().length;
}

let lastTicked;
results.addEventListener("click", (event) => {
  const tick = event.target.closest("tbody input[type=checkbox]");
  if (!tick) return;
  const all = rows();
  const here = all.indexOf(tick.closest("tr"));
  const from = event.shiftKey && lastTicked?.isConnected ? all.indexOf(lastTicked) : here;
  for (const row of all.slice(Math.min(from, here), Math.max(from, here) + 1)) {
    if (tick.checked) chosen.add(row.dataset.id); else chosen.delete(row.dataset.id);
  }
  lastTicked = tick.closest("tr");
  showChosen();
});
results.addEventListener("change", (event) => {
  if (event.target.id !== "select-page") return;
  for (const row of rows()) if (event.target.checked) chosen.add(row.dataset.id); else chosen.delete(row.dataset.id);
  showChosen();
});
document.getElementById("select-none")?.addEventListener("click", () => { chosen.clear(); showChosen(); input.focus(); });
document.addEventListener("tocsin:found", (event) => {
  if (event.detail.isOther) chosen.clear();
  showChosen();
});

document.getElementById("select-matching")?.addEventListener("click", () => working("Looking for all that match", async (progress) => {
  let after = "";
  do {
    const given = new URLSearchParams({ q: input.value, part: "ids", after });
    const found = await send("GET", `/schedules?${given}`);
    found.ids.forEach((id) => chosen.add(id));
    after = found.after;
    progress(chosen.size, 0);
    showChosen();
  } while (after && !isStopped && chosen.size < MATCHING_MAX);
  if (after && !isStopped) say(`More than ${grouped(MATCHING_MAX)} match: these are the first. For all of them there is 'tocsin bulk'.`, { bad: true });
}));

// What is done to them

const progressBar = document.getElementById("work-bar");

async function working(words, work) {
  if (isWorking) return;
  isWorking = true;
  isStopped = false;
  const line = document.getElementById("work");
  const buttons = box.querySelectorAll("button:not(#work-stop)");
  buttons.forEach((each) => { each.disabled = true; });
  progressBar.removeAttribute("value");
  document.getElementById("work-words").textContent = words;
  const later = setTimeout(() => { line.hidden = false; }, 300); // what is done at once needs no bar
  const progress = (done, of) => {
    if (of) { progressBar.max = of; progressBar.value = done; }
    document.getElementById("work-words").textContent = of ? `${words}: ${grouped(done)} of ${grouped(of)}` : `${words}: ${grouped(done)}`;
  };
  try {
    return await work(progress);
  } catch (wrong) {
    say(wrong.message, { bad: true });
  } finally {
    clearTimeout(later);
    isWorking = false;
    line.hidden = true;
    buttons.forEach((each) => { each.disabled = false; });
    showChosen();
  }
}

document.getElementById("work-stop")?.addEventListener("click", () => { isStopped = true; });

// The lines that the service answers with, one a schedule.
async function bulk(wish, ids, progress) {
  const lines = [];
  for (let begin = 0; begin < ids.length && !isStopped; begin += BATCH) {
    const found = await linesOf({ ...wish, selector: { ids: ids.slice(begin, begin + BATCH) } });
    if (!found.at(-1)?.done) throw new Error(`The answer was cut off: ${many(lines.length)} are done for certain, look at the rest.`);
    lines.push(...found.slice(0, -1));
    progress?.(Math.min(begin + BATCH, ids.length), ids.length);
  }
  return lines;
}

async function linesOf(wish) {
  const headers = { "Content-Type": "application/json", Accept: "application/x-ndjson" };
  const answer = await fetch("/v1/bulk", { method: "POST", headers, body: JSON.stringify(wish) }).catch(() => undefined);
  const text = await answer?.text().catch(() => undefined);
  if (text === undefined) throw new Error("The service does not answer. Some of it may have been done: look before you try again.");
  if (!answer.ok) throw new Error(told(JSON.parse(text)));
  return text.split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

const WORDS = {
  pause: { verb: "Pause", doing: "Pausing", done: "paused", more: "Nothing is launched until they are resumed; what passes meanwhile is not missed." },
  resume: { verb: "Resume", doing: "Resuming", done: "resumed", more: "They go on with their next instants after now." },
  run: { verb: "Run", doing: "Launching", done: "launched", more: "Each is launched once, now, beside its timeline. This cannot be undone." },
  delete: { verb: "Delete", doing: "Deleting", done: "deleted", more: "What they have launched goes on, and their history stays. This can be undone." },
  label: { verb: "Label", doing: "Labelling", done: "labelled", more: "Each gets a new version." },
};

function element(name, attributes = {}, ...content) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...content);
  return made;
}

function field(id, words, attributes = {}) {
  const made = element("input", { id, class: "fill", autocomplete: "off", maxlength: "200", ...attributes });
  made.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    document.getElementById("ask-yes").click();
  });
  return [element("label", { for: id }, words), made];
}

function told_of(ids, unchanged, words) {
  const list = element("ul", { class: "named" });
  ids.slice(0, NAMED).forEach((id) => list.append(element("li", {}, id)));
  if (ids.length > NAMED) list.append(element("li", { class: "soft" }, `and ${grouped(ids.length - NAMED)} more`));
  const said = element("div", {}, list, element("p", {}, words));
  if (unchanged) said.append(element("p", { class: "soft" }, `${many(unchanged)} of those selected ${unchanged === 1 ? "is" : "are"} that already.`));
  return said;
}

async function asked(action, ids) {
  const { verb, doing, more } = WORDS[action];
  let unchanged = 0;
  if (action === "pause" || action === "resume") {
    const lines = await working("Looking at them", (progress) => bulk({ action, preview: true }, ids, progress));
    if (!lines) return undefined;
    const left = lines.filter((line) => line.result.startsWith("would be"));
    unchanged = lines.filter((line) => line.result === "unchanged").length;
    ids = left.map((line) => line.id);
    if (!ids.length) { say(`Nothing to do: ${unchanged === 1 ? "it is" : "they are"} ${WORDS[action].done} already.`); return undefined; }
  }
  const content = told_of(ids, unchanged, more);
  const wish = { action };
  if (action === "pause") content.prepend(...field("bulk-note", "Why, for whoever finds them paused", { maxlength: "500" }));
  if (action === "label") {
    const gone = element("input", { type: "checkbox", id: "bulk-gone" });
    content.prepend(...field("bulk-key", "Label", { placeholder: "team" }), ...field("bulk-value", "Value", { placeholder: "finance" }),
      element("label", { class: "inline" }, gone, "remove it instead"));
    gone.addEventListener("change", () => { document.getElementById("bulk-value").disabled = gone.checked; });
  }
  const question = ask(`${verb} ${many(ids.length)}?`, content, `${verb} ${many(ids.length)}`);
  if (action === "pause" || action === "label") content.querySelector("input").focus();
  const yes = await question;
  if (!yes) return undefined;
  if (action === "pause") wish.note = content.querySelector("#bulk-note").value;
  if (action === "label") {
    const key = content.querySelector("#bulk-key").value.trim();
    wish.labels = { [key]: content.querySelector("#bulk-gone").checked ? null : content.querySelector("#bulk-value").value.trim() };
  }
  return { wish, ids, doing };
}

async function act(action) {
  const meant = await asked(action, [...chosen]);
  if (!meant) return;
  const lines = await working(meant.doing, (progress) => bulk(meant.wish, meant.ids, progress));
  if (!lines) return;
  const { done } = WORDS[action];
  const changed = lines.filter((line) => line.result === done);
  const refused = lines.filter((line) => line.error);
  if (action === "delete") changed.forEach((line) => chosen.delete(line.id));
  if (changed.length || !refused.length) say(`${many(changed.length)} ${done}${isStopped ? ", then stopped" : ""}.`, { undo: undoOf(action, changed) });
  if (refused.length) say(`${many(refused.length)} ${refused.length === 1 ? "was" : "were"} refused. ${refused[0].id}: ${told(refused[0].error)}`, { bad: true });
  await show(location.pathname + location.search);
}

function undoOf(action, lines) {
  if (action === "run" || !lines.length) return undefined;
  const ids = lines.map((line) => line.id);
  return () => working("Undoing", async (progress) => {
    if (action === "delete") await restore(ids, progress);
    else if (action === "label") await relabel(lines, progress);
    else await bulk({ action: action === "pause" ? "resume" : "pause" }, ids, progress);
    say("Undone.");
    await show(location.pathname + location.search);
  });
}

async function restore(ids, progress) {
  const left = [...ids];
  let done = 0;
  const one = async () => {
    for (let id = left.pop(); id !== undefined && !isStopped; id = left.pop()) {
      await send("POST", `/v1/schedules/${id}:restore`, {});
      progress(++done, ids.length);
    }
  };
  await Promise.all([one(), one(), one(), one()]);
}

// Each gets back what it had: those that had the same go together.
async function relabel(lines, progress) {
  const groups = new Map();
  for (const { id, was } of lines) groups.set(JSON.stringify(was), [...(groups.get(JSON.stringify(was)) || []), id]);
  for (const [was, ids] of groups) await bulk({ action: "label", labels: JSON.parse(was) }, ids, progress);
}

box?.addEventListener("click", (event) => {
  const action = event.target.closest("[data-bulk]")?.dataset.bulk;
  if (action) act(action);
});

// Rows that stay true: in place, so that nothing jumps away under a hand that selects

const was = new WeakMap();

function freshen(old, fresh) {
  [...old.cells].forEach((cell, place) => {
    const newer = fresh.cells[place];
    if (!newer || cell.classList.contains("tick") || cell.contains(document.activeElement)) return;
    const text = newer.innerHTML;
    if (was.get(cell) === text) return;
    was.set(cell, text);
    cell.replaceChildren(...newer.childNodes);
    paintTimes(cell);
    paintRow(cell);
  });
}

// A schedule of the reader's own zone need not tell its moment twice.
function hideTwins(root) {
  for (const other of root.querySelectorAll(".theirs")) {
    other.hidden = other.textContent.trim() === other.parentElement.querySelector(".mine").textContent.trim();
  }
}

async function stayTrue() {
  if (isWorking || results.hasAttribute("aria-busy") || document.querySelector("dialog[open]")) return;
  const isIdle = !chosen.size && !results.contains(document.activeElement);
  const isWhole = results.querySelector("#found")?.dataset.looked === "0";
  const now = location.pathname + location.search;
  const sids = rows().map((row) => row.dataset.sid);
  if (isIdle && isWhole) {
    const found = await fragment(now, "results");
    if (now !== location.pathname + location.search || results.hasAttribute("aria-busy")) return;
    const fresh = [...found.querySelectorAll("tbody tr")];
    if (fresh.map((row) => row.dataset.sid).join() !== sids.join()) { put(found); showAll(); return; }
    fresh.forEach((row, place) => freshen(rows()[place], row));
  } else if (sids.length) {
    const found = await fragment(`/schedules?sids=${sids.slice(0, 100).join()}`, "rows");
    const fresh = new Map([...found.querySelectorAll("tr")].map((row) => [row.dataset.sid, row]));
    for (const row of rows()) {
      if (fresh.has(row.dataset.sid)) freshen(row, fresh.get(row.dataset.sid));
      row.classList.toggle("is-gone", !fresh.has(row.dataset.sid));
    }
  }
}

function paintRow(root) { hideTwins(root); paintSquares(root); }

function showAll() { paintRow(results); showChosen(); }

document.addEventListener("tocsin:tick", () => stayTrue().catch(() => undefined));
document.addEventListener("tocsin:found", () => paintRow(results));

// The keyboard: j and k lead through the rows, x ticks one

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("textarea, select, dialog, input:not([type=checkbox])")) return;
  const here = rows().indexOf(event.target.closest("tbody tr"));
  if (event.key === "j" || event.key === "k") rows()[here + (event.key === "j" ? 1 : -1)]?.querySelector("a.name").focus();
  if (event.key === "x" && here >= 0 && box) tickOf(rows()[here]).click();
});

showTerms();
showAll();
