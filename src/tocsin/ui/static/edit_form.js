// Between the form and the definition that it stands for: what is in the one can be put into the other and back, and nothing is lost.
// A definition is { fields, payload }: the payload stays text, because a browser would not keep all of its numbers.

const NUMBERS = new Set(["retry.limit", "retry.jitter", "target.limits.memory_mb", "target.limits.cpu_seconds",
  "target.limits.processes"]);
const POLICIES = ["on_doubt", "missed", "catch_up_spread", "deadline", "overlap", "retry.limit", "retry.backoff", "retry.max_backoff",
  "retry.jitter", "timeout", "jitter", "start", "end"];
const OF_KIND = {
  exec: ["target.env", "target.cwd", "target.user", "target.limits.memory_mb", "target.limits.cpu_seconds",
    "target.limits.processes"],
  http: ["target.url", "target.method", "target.headers", "target.body", "target.success", "target.timeout", "target.secret", "target.old_secret", "target.idempotent"],
  kafka: ["target.topic", "target.key", "target.headers"],
  nats: ["target.subject", "target.headers"],
  null: [],
};
const NEEDED = new Set(["target.shell", "target.argv", "target.url", "target.topic", "target.subject"]);
const DEFAULTS = {
  timezone: "UTC", description: "", enabled: true, on_doubt: "skip", missed: "last", overlap: "allow", labels: {}, payload: null,
  "target.method": "POST", "target.timeout": "30s", "target.idempotent": false, "target.success": ["2xx"], "target.headers": {}, "target.env": {},
  "target.limits": {}, "retry.limit": 0, "retry.backoff": "1s", "retry.max_backoff": "5m", "retry.jitter": 0.1,
};
const PAIRS = { labels: ["=", "team=finance"], env: ["=", "NAME=value"], headers: [":", "Name: value"] };

export class Mistake extends Error {}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

// Lines and what they stand for

function read(control) {
  const kind = control.dataset.as;
  if (control.type === "checkbox") return control.checked;
  const text = control.value;
  if (control.name === "target.success") return text.split(",").map((each) => each.trim()).filter(Boolean);
  if (kind) return kind === "list" ? listOf(text) : pairsOf(text, kind);
  if (control.tagName === "TEXTAREA") return text;
  const word = control.name === "target.key" ? text : text.trim();
  if (NUMBERS.has(control.name) && /^-?[0-9]+(\.[0-9]+)?$/.test(word)) return Number(word);
  return word;
}

function listOf(text) {
  const found = parsed(text);
  if (Array.isArray(found)) return found;
  return text.replace(/\n+$/, "").split("\n").filter((line, at, all) => all.length > 1 || line !== "");
}

function pairsOf(text, kind) {
  const found = parsed(text);
  if (isObject(found)) return found;
  const [sign, sample] = PAIRS[kind];
  const pairs = {};
  for (const line of text.split("\n")) {
    if (!line.trim()) continue;
    const at = line.indexOf(sign);
    if (at < 1) throw new Mistake(`${JSON.stringify(line)} has no ${JSON.stringify(sign)}. Allowed: one a line, such as ${sample}.`);
    const value = line.slice(at + 1);
    pairs[line.slice(0, at).trim()] = kind === "env" ? value : value.trim();
  }
  return pairs;
}

function parsed(text) {
  try { return JSON.parse(text); } catch { return undefined; }
}

function write(control, value) {
  const kind = control.dataset.as;
  if (control.type === "checkbox") control.checked = value === undefined ? control.dataset.default === "true" : value === true;
  else if (value === undefined || value === null) control.value = control.dataset.default ?? "";
  else if (control.name === "target.success" && Array.isArray(value)) control.value = value.join(", ");
  else if (kind && typeof value === "object") control.value = linesOf(control, value, kind);
  else control.value = typeof value === "string" ? value : JSON.stringify(value);
}

// As lines, unless they would not be read as the same again.
function linesOf(control, value, kind) {
  const glue = kind === "headers" ? ": " : "=";
  const lines = Array.isArray(value) ? value : Object.entries(value).map(([name, each]) => `${name}${glue}${each}`);
  control.value = lines.join("\n");
  let again;
  try { again = read(control); } catch { again = undefined; }
  return JSON.stringify(again) === JSON.stringify(value) ? lines.join("\n") : JSON.stringify(value, null, 2);
}

// The whole form

export function control(form, name) {
  const all = [...form.querySelectorAll(`[name="${CSS.escape(name)}"]`)];
  return all.find((each) => !each.closest("[data-kind][hidden], [data-by][hidden]"));
}

export const kindOf = (form) => form.querySelector("[name='target.kind']:checked")?.value ?? "";

export function showKind(form) {
  const kind = kindOf(form);
  const by = form.querySelector("[name='exec.by']:checked").value;
  for (const each of form.querySelectorAll("[data-kind]")) each.hidden = each.dataset.kind !== kind;
  for (const each of form.querySelectorAll("[data-by]")) each.hidden = each.dataset.by !== by;
}

export function collect(form, rest = {}) {
  const fields = { ...rest };
  const mistakes = [];
  const kind = kindOf(form);
  const take = (name) => {
    const found = control(form, name);
    let value;
    try { value = read(found); } catch (wrong) {
      if (!(wrong instanceof Mistake)) throw wrong;
      mistakes.push({ field: name, words: wrong.message });
      return;
    }
    const isDefault = value === "" || same(value, DEFAULTS[name]) || (found.dataset.as && !Object.keys(value).length);
    if (!isDefault || NEEDED.has(name) || (name === "retry.limit" && value === 0)) put(fields, name, value);
  };
  for (const name of ["id", "description", "cron", "timezone"]) take(name);
  fields.cron ??= "";
  fields.id ??= "";
  if (kind) {
    put(fields, "target.kind", kind);
    const by = form.querySelector("[name='exec.by']:checked").value;
    for (const name of [...(kind === "exec" ? [`target.${by}`] : []), ...OF_KIND[kind]]) take(name);
    if (same(fields.target.success, [])) delete fields.target.success;
  }
  for (const name of ["labels", "enabled", ...POLICIES]) take(name);
  const payload = form.querySelector("[name=payload]").value.trim();
  if (payload) {
    try { JSON.parse(payload); } catch (wrong) { mistakes.push({ field: "payload", words: `This is not JSON: ${wrong.message}. A text needs its quotes.` }); }
  }
  return { fields, payload, mistakes };
}

// Returns what the form has no place for: it is kept beside it.
export function fill(form, { fields, payload }) {
  const target = isObject(fields.target) ? fields.target : {};
  for (const radio of form.querySelectorAll("[name='target.kind']")) radio.checked = radio.value === target.kind;
  form.querySelector(target.argv === undefined || target.argv === null ? "#by-shell" : "#by-argv").checked = true;
  showKind(form);
  const shown = isObject(fields.retry) ? { ...fields, retry: { limit: 0, ...fields.retry } } : fields;
  for (const each of form.querySelectorAll("input[name], select[name], textarea[name]")) {
    if (each.type === "radio" || each.name === "payload") continue;
    write(each, each.closest("[data-kind][hidden], [data-by][hidden]") ? undefined : at(shown, each.name));
  }
  form.querySelector("[name=payload]").value = payload;
  const known = new Set(["id", "cron", "description", "timezone", "target", "labels", "enabled", "payload", ...POLICIES.map((name) => name.split(".")[0])]);
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !known.has(name)));
}

// As one text, and back

export function textOf({ fields, payload }) {
  const text = JSON.stringify(fields, null, 2);
  if (!payload) return text;
  const inside = payload.replaceAll("\n", "\n  ");
  return text === "{}" ? `{\n  "payload": ${inside}\n}` : `${text.slice(0, -2)},\n  "payload": ${inside}\n}`;
}

export function definitionOf(text) {
  const { payload: _, ...fields } = JSON.parse(text);
  const raw = member(text, "payload").replaceAll("\n  ", "\n").trim();
  return { fields, payload: raw === "null" ? "" : raw, mistakes: [] };
}

// The text of one member of an object, as it was written. The whole is known to be JSON.
function member(text, name) {
  let depth = 0, key = "", from = -1, found = "";
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at];
    if (letter === '"') {
      const end = /"(?:[^"\\]|\\.)*"/y;
      end.lastIndex = at;
      const string = end.exec(text)[0];
      at += string.length - 1;
      if (depth === 1 && from < 0) key = JSON.parse(string);
    } else if (letter === ":" && depth === 1 && from < 0) from = at + 1;
    else if ((letter === "," && depth === 1) || (letter === "}" && depth === 1)) {
      if (key === name && from >= 0) found = text.slice(from, at);
      from = -1;
      if (letter === "}") depth -= 1;
    } else if (letter === "{" || letter === "[") depth += 1;
    else if (letter === "}" || letter === "]") depth -= 1;
  }
  return found;
}

// Comparing

export function same(one, other) { return JSON.stringify(sorted(one)) === JSON.stringify(sorted(other)); }

export function canonical({ fields, payload }) { return JSON.stringify([sorted(pruned(fields)), payload.trim()]); }

function sorted(value) {
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));
}

function pruned(fields, path = "") {
  const kept = {};
  for (const [name, value] of Object.entries(fields)) {
    const here = path + name;
    const inside = ["target", "retry", "target.limits"].includes(here) && isObject(value) ? pruned(value, `${here}.`) : value;
    if (value !== null && !(here in DEFAULTS && same(inside, DEFAULTS[here]))) kept[name] = inside;
  }
  return kept;
}

// Mine onto theirs: what I left as it was is theirs, what I changed is mine.
export function merged(base, mine, theirs) {
  const inside = (was, is, now) => {
    const made = {};
    for (const key of new Set([...Object.keys(now), ...Object.keys(is)])) {
      const isMine = !same(was[key], is[key]);
      const areOne = [was[key], is[key], now[key]].every(isObject) && was[key].kind === is[key].kind && is[key].kind === now[key].kind;
      const value = areOne ? inside(was[key], is[key], now[key]) : isMine ? is[key] : now[key];
      if (value !== undefined) made[key] = value;
    }
    return made;
  };
  return {
    fields: inside(base.fields, mine.fields, theirs.fields),
    payload: base.payload.trim() === mine.payload.trim() ? theirs.payload : mine.payload,
  };
}

function put(fields, path, value) {
  const names = path.split(".");
  const last = names.pop();
  let inside = fields;
  for (const name of names) inside = inside[name] ??= {};
  inside[last] = value;
}

function at(fields, path) {
  return path.split(".").reduce((inside, name) => (isObject(inside) ? inside[name] : undefined), fields);
}
