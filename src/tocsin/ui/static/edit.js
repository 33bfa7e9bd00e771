// Create and edit: a form, or the same as JSON. Here is what a person does to it; the rest is in the modules beside.

import { check, lead, nameZone, ownZone, later, placeOf, mistakes, tell } from "./edit_check.js";
import { byId, current, forget, form, isDirty, isNew, json, keep, normal, remembered, restore, show, state, summarize, turn } from "./edit_draft.js";
import { canonical, collect, control, fill, showKind, textOf } from "./edit_form.js";
import { loadNewest, merge, noticed, review, save } from "./edit_save.js";

function toText() {
  if (state.asText) return;
  const draft = collect(form, state.rest);
  if (draft.mistakes.length) {
    state.showsAll = true;
    tell(draft.mistakes);
    lead(placeOf(draft.mistakes[0].field));
    return;
  }
  json.value = textOf(draft);
  turn(true);
  json.focus();
  check();
}

function toForm() {
  if (!state.asText) return;
  const draft = current();
  if (draft.mistakes.length) { tell(draft.mistakes); json.focus(); return; }
  state.rest = fill(form, draft);
  if (canonical(collect(form, state.rest)) !== canonical(normal(draft))) {
    tell([...mistakes, { field: "json", words: "The form cannot show all of this as it is: mend it here first." }]);
    json.focus();
    return;
  }
  turn(false);
  summarize();
  check();
}

addEventListener("beforeunload", (event) => {
  if (state.isLeaving || !isDirty()) return;
  keep();
  event.preventDefault();
});

// Starting

form.addEventListener("input", (event) => {
  state.touched.add(event.target.name === "target.kind" ? "kinds" : event.target.id);
  if (event.target.type === "radio") showKind(form);
  summarize();
  keep();
  later();
});
form.addEventListener("submit", review);
form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) review(event);
});
form.addEventListener("click", (event) => {
  const button = event.target.closest("[data-cron], [data-jitter]");
  if (!button) return;
  const name = button.dataset.cron ? "cron" : "jitter";
  const value = button.dataset.cron || button.dataset.jitter;
  if (state.asText) json.value = textOf({ ...current(), fields: { ...current().fields, [name]: value } });
  const input = state.asText ? json : control(form, name);
  if (!state.asText) input.value = value;
  lead(input);
  input.dispatchEvent(new Event("input", { bubbles: true }));
});
byId("tab-form").addEventListener("click", toForm);
byId("tab-json").addEventListener("click", toText);
byId("back").addEventListener("click", () => byId("reviewed").close());
byId("save").addEventListener("click", save);
byId("merge").addEventListener("click", merge);
byId("load-newest").addEventListener("click", loadNewest);
byId("see-meanwhile").addEventListener("click", () => review());
byId("take-own-zone").addEventListener("click", () => {
  const zone = control(form, "timezone");
  zone.value = ownZone;
  zone.focus();
  zone.dispatchEvent(new Event("input", { bubbles: true }));
});
byId("discard").addEventListener("click", () => { forget(); state.isLeaving = true; location.reload(); });
document.addEventListener("tocsin:refreshed", noticed);

for (const zone of new Set(["UTC", ownZone, ...Intl.supportedValuesOf("timeZone")])) byId("zones").append(new Option(zone, zone));
nameZone(document.body);
byId("own-zone").hidden = ownZone === "UTC" || !isNew;
show(state.base);
if (canonical(current()) !== state.untouched) {
  json.value = textOf(state.base);
  turn(true);
}
const was = remembered();
if (was) {
  restore(was);
  byId("restored").hidden = false;
  state.showsAll = true;
}
check();
