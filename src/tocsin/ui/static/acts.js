// What a person does: asked once, sent to the REST API as JSON, its refusal told in full, and undone where that is possible.

const notices = () => document.getElementById("notices");

export function say(words, { bad = false, undo, forMs = bad ? 20000 : 6000 } = {}) {
  const notice = document.createElement("div");
  notice.className = bad ? "notice is-bad" : "notice";
  notice.append(words);
  if (undo) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Undo";
    button.addEventListener("click", () => { notice.remove(); undo(); });
    notice.append(" ", button);
  }
  notices().append(notice);
  setTimeout(() => notice.remove(), undo ? 20000 : forMs);
}

export function told(problem) {
  const field = problem.field ? `${problem.field}: ` : "";
  const allowed = problem.allowed ? ` Allowed: ${problem.allowed}.` : "";
  const hint = problem.hint ? ` ${problem.hint}.` : "";
  return `${field}${problem.detail || "it was refused"}.${allowed}${hint}`;
}

// The answer, or an Error whose message can be shown. `problem` of the error is what the service said.
export async function send(method, address, body) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = method === "PATCH" ? "application/merge-patch+json" : "application/json";
  let answer;
  try {
    answer = await fetch(address, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Error("The service does not answer. Nothing may have been done: look before you try again.");
  }
  const text = await answer.text();
  const found = text && answer.headers.get("content-type")?.includes("json") ? JSON.parse(text) : text;
  if (answer.ok) return found;
  throw Object.assign(new Error(told(found || {})), { problem: found, status: answer.status });
}

export function ask(words, more = "", yes = "Yes") {
  const dialog = document.getElementById("ask");
  document.getElementById("ask-title").textContent = words;
  document.getElementById("ask-more").replaceChildren(more);
  document.getElementById("ask-yes").textContent = yes;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

// A button or form with data-act (the method), data-to (the address), and perhaps data-ask, data-more, data-yes, data-done, data-undo, data-then.
// data-goes="launch": then to the launch that came of it.
export async function act(element, body) {
  const { act: method, to, ask: question, more, yes, done, undo, then, goes } = element.dataset;
  if (question && !(await ask(question, more, yes || element.textContent.trim()))) return;
  const buttons = element.tagName === "FORM" ? element.querySelectorAll("button") : [element];
  buttons.forEach((each) => { each.disabled = true; });
  try {
    const answer = await send(method, to, body);
    if (goes === "launch" && answer?.name) { sessionStorage.setItem("said", done || ""); location.assign(`/launches/${answer.name}`); return; }
    if (then && then !== "reload") { sessionStorage.setItem("said", done || ""); location.assign(then); return; }
    say(done || "Done.", { undo: undo ? () => undone(undo) : undefined });
    if (element.tagName === "FORM") element.closest("dialog")?.close();
    document.dispatchEvent(new CustomEvent("tocsin:changed"));
  } catch (wrong) {
    say(wrong.message, { bad: true });
  } finally {
    buttons.forEach((each) => { each.disabled = false; });
  }
}

async function undone(text) {
  const [method, address, ...rest] = text.split(" ");
  try {
    await send(method, address, rest.length ? JSON.parse(rest.join(" ")) : method === "POST" ? {} : undefined);
    say("Undone.");
    document.dispatchEvent(new CustomEvent("tocsin:changed"));
  } catch (wrong) {
    say(wrong.message, { bad: true });
  }
}

const said = sessionStorage.getItem("said");
if (said) { sessionStorage.removeItem("said"); say(said); }
