// Each small square becomes a link to its launch, and tells its moment in the reader's zone.

import { written } from "./times.js";

const SVG = "http://www.w3.org/2000/svg";

export function paintSquares(root) {
  for (const group of root.querySelectorAll("svg.squares")) {
    const plain = [...group.children].filter((each) => each.localName === "use");
    for (const square of plain) {
      const { at, by, why } = square.dataset;
      const link = document.createElementNS(SVG, "a");
      const title = document.createElementNS(SVG, "title");
      const state = square.getAttribute("href").slice(3).replace("_", " ");
      title.textContent = `${state}${by ? ", by hand" : ""}, ${written(new Date(at * 1000))}${why ? `: ${why}` : ""}`;
      link.setAttribute("href", `/launches/${group.dataset.of}-${at}${by ? "-manual" : ""}`);
      if (square !== plain.at(-1)) link.setAttribute("tabindex", "-1");
      square.replaceWith(link);
      link.append(title, square);
    }
  }
}

document.addEventListener("keydown", (event) => {
  const square = event.target.closest?.(".squares a");
  const next = { ArrowLeft: square?.previousElementSibling, ArrowRight: square?.nextElementSibling }[event.key];
  if (!next || event.ctrlKey || event.metaKey || event.altKey) return;
  square.setAttribute("tabindex", "-1");
  next.removeAttribute("tabindex");
  next.focus();
  event.preventDefault();
});
