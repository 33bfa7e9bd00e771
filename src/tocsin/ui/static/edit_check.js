// What was typed is looked at by the service as it is written: mistakes at their fields, the text in words, and what it would do.

import { told } from "./acts.js";
import { bodyOf, byId, current, form, isDirty, isNew, json, keep, state } from "./edit_draft.js";
import { control } from "./edit_form.js";
import { paintTimes } from "./times.js";

const PAUSE_MS = 250;
const AGAIN_MS = 1000;

export const ownZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
export const parsed = (text) => new DOMParser().parseFromString(text, "text/html").body;

let asked = 0;
let pause;
let under;

export function later(ms = PAUSE_MS) {
  clearTimeout(pause);
  pause = setTimeout(check, ms);
}

export function ask(address, draft, signal) {
  const body = `{"schedule": ${bodyOf(draft)}, "of": ${JSON.stringify(form.dataset.of)}, "version": ${state.version}}`;
  return fetch(address, { method: "POST", headers: { Accept: "application/json", "Content-Type": "application/json" }, body, signal });
}

// No check that is under way or to come tells anything any more, until the next one is asked for.
export function cease() {
  clearTimeout(pause);
  asked += 1;
  under?.abort();
}

export async function check() {
  cease();
  const mine = asked;
  under = new AbortController();
  const draft = current();
  const sent = { ...draft, payload: draft.mistakes.some((each) => each.field === "payload") ? "" : draft.payload };
  if (draft.mistakes.some((each) => each.field === "json")) return tell(draft.mistakes);
  let answer;
  try {
    answer = await ask("/new/check", sent, under.signal);
    const text = await answer.text();
    if (mine !== asked) return undefined;
    if (answer.ok) return take(parsed(text), draft.mistakes);
    if (answer.status === 401) return loggedOut();
    byId("to-mend").textContent = `It could not be checked: ${told(JSON.parse(text))}`;
  } catch (wrong) {
    if (wrong.name === "AbortError" || mine !== asked) return undefined;
    byId("to-mend").textContent = "The service does not answer; what you typed is kept. Trying again…";
  }
  return later(2 * AGAIN_MS);
}

export function loggedOut() {
  const link = document.createElement("a");
  link.href = `/login?to=${encodeURIComponent(location.pathname + location.search)}`;
  link.textContent = "Log in";
  link.addEventListener("click", () => { keep(); state.isLeaving = true; });
  byId("to-mend").replaceChildren("Your login has ended; what you typed is kept. ", link);
}

// An answer: mistakes at their fields, the text in words, and what it would do.
export function take(found, own) {
  const theirs = [...found.querySelectorAll("[data-wrong]")].map((each) => ({ field: each.dataset.wrong, words: each.textContent.trim() }));
  const explained = found.querySelector("[data-explained]");
  if (byId("explained").innerHTML !== explained.innerHTML) byId("explained").replaceChildren(...explained.childNodes);
  const said = found.querySelector("[data-said]");
  paintTimes(said);
  nameZone(said);
  byId("said").replaceChildren(said);
  const ours = new Set(own.map((each) => each.field));
  tell([...own, ...theirs.filter((each) => !ours.has(each.field))]);
  if (said.hasAttribute("data-again")) later(AGAIN_MS);
  return theirs.length + own.length;
}

export function nameZone(root) {
  root.querySelectorAll("[data-own-zone]").forEach((each) => { each.textContent = ownZone; });
  const isSame = root.querySelector("time[data-zone]")?.dataset.zone === ownZone;
  root.querySelectorAll("[data-yours]").forEach((each) => { each.hidden = isSame; });
}

// Mistakes

export let mistakes = [];

// The input that a mistake is about, or what stands for it: labels.team is about labels.
export function placeOf(field) {
  if (state.asText) return json;
  for (let name = field; name; name = name.includes(".") ? name.slice(0, name.lastIndexOf(".")) : "") {
    if (name === "target" || name === "target.kind") return byId("kinds");
    const found = control(form, name);
    if (found) return found;
  }
  return undefined;
}

const inOrder = (one, other) => (one.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1);
const nameOf = (place) => (place.id === "kinds" ? "Target" : place.labels?.[0]?.firstChild.textContent.trim() || place.labels?.[0]?.textContent.trim() || "Id");

export function tell(found) {
  mistakes = found;
  const wrong = new Map();
  const left = new Set();
  for (const { field, words } of found) {
    const place = placeOf(field);
    const name = state.asText ? `${field === "json" ? "" : `${field}: `}` : "";
    const isShown = !place || state.asText || state.showsAll || state.touched.has(place.id);
    if (!isShown) left.add(place);
    else wrong.set(place, [...(wrong.get(place) ?? []), place ? name + words : `${field}: ${words}`]);
  }
  for (const room of form.querySelectorAll(".wrong[id^=wrong-]")) {
    const place = byId(room.id === "wrong-target" ? "kinds" : room.id.replace("wrong-", "field-"));
    const words = (wrong.get(place) ?? []).join(state.asText ? "\n" : " ");
    if (room.textContent !== words) room.textContent = words;
    room.hidden = !words;
    if (words) place.setAttribute("aria-invalid", "true");
    else place.removeAttribute("aria-invalid");
  }
  summary(wrong, left);
}

function summary(wrong, left) {
  const mend = byId("to-mend");
  const parts = [];
  const links = (places) => [...places].sort(inOrder).flatMap((place, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet";
    button.textContent = state.asText ? "the text" : nameOf(place);
    button.addEventListener("click", () => lead(place));
    return at ? [", ", button] : [button];
  });
  if (wrong.has(undefined)) parts.push(wrong.get(undefined).join(" "), " ");
  if (wrong.size > (wrong.has(undefined) ? 1 : 0)) parts.push("To mend: ", ...links([...wrong.keys()].filter(Boolean)), " ");
  if (left.size) parts.push("Still to fill in: ", ...links(left));
  if (!parts.length) parts.push(isDirty() ? (isNew ? "Ready to be created." : "Not saved yet.") : isNew ? "" : "Nothing has changed.");
  const text = parts.map((each) => each.textContent ?? each).join("");
  if (mend.textContent !== text) mend.replaceChildren(...parts);
}

export function lead(place) {
  const input = place.id === "kinds" ? place.querySelector("input:checked, input:not(:disabled)") : place;
  for (let fold = input.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  input.focus();
  input.scrollIntoView({ block: "center" });
}

export function leadToFirst() {
  const [place] = mistakes.map((each) => placeOf(each.field)).filter(Boolean).sort(inOrder);
  if (place) lead(place);
}
