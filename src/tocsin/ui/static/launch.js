// A launch: what it prints is read on while it runs, and shown as text whatever it holds.

const EVERY_MS = 1000;
const SHOWN_MAX = 400000;
const card = document.getElementById("output");
const pre = document.getElementById("printed");
const words = document.getElementById("output-words");
const toEnd = document.getElementById("to-end");
const launch = () => document.getElementById("launch");

// Text of a terminal, harmless: colours and the like are taken out, other signs that are not letters are made visible.

const SEQUENCES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-OQ-WYZ\\`-~])/g;
const BEGUN = /(?:\r|\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]{0,2000}\x1b?|[PX^_][^\x1b]{0,2000}\x1b?|[ -/]*)?)$/;
let held = "";

function harmless(text, isLast) {
  let all = held + text;
  held = isLast ? "" : (all.match(BEGUN) || [""])[0];
  all = all.slice(0, all.length - held.length);
  return all
    .replace(SEQUENCES, "")
    .replace(/\r\n?/g, "\n")
    .replace(/[\x00-\x08\x0b-\x1f]/g, (sign) => String.fromCharCode(0x2400 + sign.charCodeAt(0)))
    .replace(/[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (sign) => `<U+${sign.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);
}

// What is shown

let position = 0;
let attempt = 0;
let shown = 0;
let follows = true;

function gap(text) {
  const note = document.createElement("em");
  note.className = "gap";
  note.textContent = text;
  pre.append(note);
}

function append(text) {
  if (!text) return;
  pre.append(text);
  shown += text.length;
  while (shown > SHOWN_MAX && pre.childNodes.length > 1) {
    shown -= pre.firstChild.nodeType === Node.TEXT_NODE ? pre.firstChild.length : 0;
    pre.firstChild.remove();
  }
}

function next(number) {
  attempt = number;
  position = shown = 0;
  held = "";
  pre.replaceChildren();
}

function show(piece) {
  if (piece.attempt !== attempt) next(piece.attempt);
  append(harmless(piece.head, piece.over && !piece.dropped));
  if (piece.dropped) {
    gap(`\n[${piece.dropped.toLocaleString("en").replaceAll(",", " ")} bytes were not kept]\n`);
    append(harmless(piece.tail, piece.over));
  }
  position = piece.position;
  pre.parentElement.hidden = !pre.childNodes.length;
  if (words.textContent !== piece.words) words.textContent = piece.words;
  if (follows) pre.scrollTop = pre.scrollHeight;
}

// Reading on

let timer;
let reads = false;

async function read() {
  clearTimeout(timer);
  timer = undefined;
  if (reads) return;
  reads = true;
  let over = false;
  try {
    const chosen = card.dataset.attempt;
    const query = new URLSearchParams({ after: position, ...(chosen ? { attempt: chosen } : attempt ? { attempt } : {}) });
    const answer = await fetch(`${card.dataset.from}?${query}`, { headers: { Accept: "application/json" } });
    if (answer.ok) {
      const piece = await answer.json();
      show(piece);
      over = piece.over;
      if (over && !chosen && piece.latest > piece.attempt) {
        next(piece.latest);
        over = false;
      }
    }
  } catch {
    // The replica does not answer: the head of the page tells so, and here it is asked again.
  } finally {
    reads = false;
    if (!over) timer = setTimeout(read, document.hidden ? 5 * EVERY_MS : EVERY_MS);
  }
}

if (card?.dataset.from) {
  read();
  document.addEventListener("tocsin:refreshed", () => {
    const { open, attempt: latest } = launch().dataset;
    const isWanted = open === "yes" || (!card.dataset.attempt && Number(latest) > attempt);
    if (!timer && isWanted) read();
  });
  pre.addEventListener("scroll", () => {
    follows = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 24;
    toEnd.hidden = follows;
  });
  toEnd.addEventListener("click", () => {
    follows = true;
    pre.scrollTop = pre.scrollHeight;
    pre.focus();
  });
}

// The title of the tab tells how it stands, also when nobody looks at the page.

document.addEventListener("tocsin:refreshed", () => {
  const { state, schedule } = launch().dataset;
  document.title = `${state.replace("_", " ")}: ${schedule} · Tocsin`;
});

// Dialogs, and forms that must not be exchanged for a newer self while somebody fills them in

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-opens]");
  if (opener) document.getElementById(opener.dataset.opens).showModal();
  if (event.target.closest("[data-closes]")) event.target.closest("dialog").close();
});
document.addEventListener("input", (event) => event.target.closest("form")?.closest("[data-live]")?.setAttribute("data-busy", ""));
document.addEventListener("tocsin:changed", () => {
  for (const busy of document.querySelectorAll("[data-busy]")) busy.removeAttribute("data-busy");
  if (document.activeElement?.closest("[data-live]")) document.getElementById("main").focus();
});
