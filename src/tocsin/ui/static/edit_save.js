// Shown before it is saved, and never written over what somebody else did meanwhile.

import { say, told } from "./acts.js";
import { ask, cease, check, lead, leadToFirst, loggedOut, parsed, placeOf, take, tell } from "./edit_check.js";
import { bodyOf, byId, current, forget, form, isNew, keep, normal, restore, show, snapshot, state } from "./edit_draft.js";
import { canonical, merged } from "./edit_form.js";
import { paintTimes } from "./times.js";

const AGAIN_MS = 1000;
const PATIENCE_MS = 30000;
const RETRIED = new Set([429, 502, 503, 504]);
const PARTS_OF_CRON = new Set(["second", "minute", "hour", "day", "month", "weekday"]);
const dialog = byId("reviewed");

export async function review(event) {
  event?.preventDefault();
  state.showsAll = true;
  const draft = current();
  if (draft.mistakes.length) { await check(); leadToFirst(); return; }
  byId("review").disabled = true;
  try {
    const answer = await ask("/new/diff", draft);
    const text = await answer.text();
    if (answer.status === 401) loggedOut();
    else if (!answer.ok) say(told(JSON.parse(text)), { bad: true });
    else shown(parsed(text));
  } catch {
    say("The service does not answer; what you typed is kept. Try again in a moment.", { bad: true });
  } finally {
    byId("review").disabled = false;
  }
}

// The difference, or the mistakes that stand before it.
function shown(answer) {
  const found = answer.querySelector("[data-diff]");
  if (found) { open(found); return; }
  dialog.close();
  take(answer, []);
  leadToFirst();
}

function open(found) {
  paintTimes(found);
  byId("reviewed-body").replaceChildren(found);
  byId("saving").hidden = true;
  const { diff, since, version: newest } = found.dataset;
  const isStale = since !== undefined && Number(newest) > 0;
  byId("save").hidden = diff === "unchanged" || isStale;
  byId("save").textContent = diff === "new" ? "Create it" : "Save it";
  byId("save").disabled = false;
  byId("merge").hidden = !isStale;
  byId("load-newest").hidden = !isStale;
  if (since !== undefined && !isStale) state.version = 0;
  if (!dialog.open) dialog.showModal();
  (isStale ? byId("merge") : diff === "unchanged" ? byId("back") : byId("save")).focus();
}

export async function save() {
  const draft = current();
  byId("save").disabled = true;
  byId("back").disabled = true;
  try {
    const answer = await written(draft);
    if (!answer) return;
    const text = await answer.text();
    if (answer.ok) { done(JSON.parse(text)); return; }
    await refused(answer.status, JSON.parse(text), draft);
  } finally {
    byId("save").disabled = false;
    byId("back").disabled = false;
  }
}

// A service that is looking for a leader has done nothing, and the same definition again changes nothing: it can be sent until it is taken.
async function written(draft) {
  const headers = { Accept: "application/json", "Content-Type": "application/json" };
  if (!isNew) headers[state.version ? "If-Match" : "If-None-Match"] = state.version ? `"${state.version}"` : "*";
  const until = Date.now() + PATIENCE_MS;
  for (;;) {
    let answer;
    try { answer = await fetch(form.dataset.to, { method: isNew ? "POST" : "PUT", headers, body: bodyOf(draft) }); } catch { answer = undefined; }
    if (answer && !RETRIED.has(answer.status)) return answer;
    if (!dialog.open) return undefined;
    const why = answer ? told(JSON.parse(await answer.text())) : "The service does not answer.";
    if (Date.now() > until) { saving(`${why} What you typed is kept: save it again in a moment.`); return undefined; }
    saving(`${why} What you typed is kept. Trying again…`);
    await new Promise((resolve) => { setTimeout(resolve, AGAIN_MS); });
  }
}

function saving(words) {
  byId("saving").textContent = words;
  byId("saving").hidden = false;
}

async function refused(status, problem, draft) {
  if (status === 412) {
    const answer = await ask("/new/diff", draft);
    const text = await answer.text();
    if (!answer.ok) { saving(told(JSON.parse(text))); return; }
    const found = parsed(text);
    // An answer that was lost may have been a yes.
    if (found.querySelector("[data-diff=unchanged]")) done({ id: form.dataset.of });
    else shown(found);
    return;
  }
  if (status === 401) { dialog.close(); loggedOut(); return; }
  const field = problem.field || (status === 409 ? "id" : "");
  const name = PARTS_OF_CRON.has(field) ? "cron" : field;
  const place = name && placeOf(name);
  if (!place) { saving(told(problem)); return; }
  dialog.close();
  cease(); // a check knows nothing of this refusal, and would take it away
  state.touched.add(place.id);
  tell([{ field: name, words: told({ ...problem, field: name === field ? "" : field }) }]);
  lead(place);
}

function done(view) {
  state.isLeaving = true;
  forget();
  const saved = isNew ? `${view.id} is created.` : view.version ? `Saved as version ${view.version}.` : "Saved.";
  sessionStorage.setItem("said", [saved, ...(view.warnings ?? [])].join(" "));
  location.assign(`/schedules/${view.id.split("/").map(encodeURIComponent).join("/")}`);
}

// Somebody else was faster

function newest() {
  const { fields, payload, version: number } = byId("reviewed-body").querySelector("[data-diff]").dataset;
  return { definition: { fields: JSON.parse(fields), payload }, number: Number(number) };
}

function standOn(found, definition) {
  state.base = found.definition;
  state.untouched = canonical(normal(state.base));
  state.version = found.number;
  byId("meanwhile").hidden = true;
  show(definition);
  keep();
}

export function merge() {
  const found = newest();
  const { fields, payload } = current();
  standOn(found, merged(normal(state.base), { fields, payload }, found.definition));
  say(`Your changes stand on version ${found.number} now.`);
  check();
  review();
}

export function loadNewest() {
  const found = newest();
  const was = snapshot();
  standOn(found, found.definition);
  dialog.close();
  say(`This is version ${found.number}. What you had typed is not in it.`, { undo: () => { restore(was); keep(); check(); } });
  check();
}

export function noticed() {
  const stored = byId("stored");
  if (stored) byId("meanwhile").hidden = Number(stored.dataset.version) === state.version;
}
