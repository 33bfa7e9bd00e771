// What is being written: where it stands, whether it differs from what is stored, and how it is kept until it is saved.

import { canonical, collect, definitionOf, fill, showKind, textOf } from "./edit_form.js";

export const byId = (id) => document.getElementById(id);
export const form = byId("edit");
export const json = byId("field-json");
export const isNew = !form.dataset.of;
const kept = `draft:${form.dataset.who}:${location.pathname}${location.search}`;

const given = JSON.parse(form.dataset.fields);
if (isNew) delete given.id;

export const state = {
  version: Number(form.dataset.version),
  base: { fields: given, payload: form.dataset.payload },
  untouched: "",
  rest: {},
  asText: false,
  isLeaving: false,
  showsAll: !isNew,
  touched: new Set(),
};

// What is there now

export function current() {
  if (!state.asText) return collect(form, state.rest);
  try {
    return definitionOf(json.value);
  } catch (wrong) {
    return { fields: {}, payload: "", mistakes: [{ field: "json", words: `This is not JSON: ${wrong.message}.` }] };
  }
}

export function isDirty() {
  const now = current();
  return now.mistakes.length > 0 || canonical(now) !== state.untouched;
}

export const bodyOf = (draft) => (state.asText ? json.value : textOf(draft));

export function show(definition) {
  state.rest = fill(form, definition);
  if (state.asText) json.value = textOf(definition);
  summarize();
}

export function summarize() {
  for (const details of form.querySelectorAll("details[id]")) {
    const now = details.querySelector(":scope > summary .now");
    if (!now) continue;
    const set = [...details.querySelectorAll("input[name], select[name], textarea[name]")].filter((each) => (
      each.type === "checkbox" ? String(each.checked) !== each.dataset.default : each.value !== (each.dataset.default ?? "")
    ));
    const words = set.map((each) => `${each.name.replace("target.", "")} ${each.tagName === "TEXTAREA" ? "" : each.value}`.trim());
    now.textContent = words.length ? words.join(", ") : "";
  }
}

// Keeping what was typed

export const snapshot = () => ({
  version: state.version, base: state.base, rest: state.rest, asText: state.asText, text: json.value,
  values: Object.fromEntries([...form.querySelectorAll("input[name], select[name], textarea[name]")].map((each) => (
    [each.id, each.type === "radio" || each.type === "checkbox" ? each.checked : each.value]))),
});

export function keep() {
  if (state.isLeaving) return;
  if (isDirty()) sessionStorage.setItem(kept, JSON.stringify(snapshot()));
  else forget();
}

export function restore(was) {
  state.version = was.version;
  state.base = was.base;
  state.rest = was.rest;
  state.untouched = canonical(normal(state.base));
  for (const [id, value] of Object.entries(was.values)) {
    const input = byId(id);
    if (!input) continue;
    if (typeof value === "boolean") input.checked = value;
    else input.value = value;
  }
  showKind(form);
  json.value = was.text;
  turn(was.asText);
  summarize();
}

// As the form would say it: defaults that were written out make no difference.
export function normal(definition) {
  return { fields: { id: "", cron: "", ...definition.fields }, payload: definition.payload };
}

export const forget = () => sessionStorage.removeItem(kept);
export const remembered = () => JSON.parse(sessionStorage.getItem(kept) ?? "null");

// Form or text

export function turn(toText) {
  state.asText = toText;
  byId("as-json").hidden = !toText;
  form.querySelectorAll("[data-of-form]").forEach((each) => { each.hidden = toText; });
  byId("tab-form").setAttribute("aria-pressed", String(!toText));
  byId("tab-json").setAttribute("aria-pressed", String(toText));
}

state.untouched = canonical(normal(state.base));
