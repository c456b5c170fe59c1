// The shell: which screen the address names, and the links between screens.

import { h } from "./dom.js";
import { EXAMPLE, linkTo, pick, readState, QUESTION, LAYOUT } from "./state.js";
import { Problems, ensureConfig } from "./api.js";
import { isAsked, isExample } from "./job.js";

const SCREENS = [["ask", "Ask"], ["answer", "Answer"], ["why", "Why"], ["alternatives", "Alternatives"], ["designs", "Designs"],
  ["fabric", "Fabric"], ["timeline", "Timeline"], ["fleet", "Fleet"], ["learn", "Learn"], ["trust", "Trust"]];
// Screens of a plan: they show the example until something is asked.
const EXAMPLED = ["ask", "answer", "why", "alternatives", "designs", "fabric", "timeline", "fleet"];
const SHARED = [...QUESTION, ...LAYOUT, "config"];

const main = document.getElementById("main"), nav = document.querySelector("nav");
let leave = new AbortController(), current = { screen: "", values: {} };

function drawNav() {
  const shared = pick(current.values, SHARED);
  nav.replaceChildren(...SCREENS.map(([name, title]) =>
    h("a", { href: linkTo(name, shared), "aria-current": name === current.screen ? "page" : null }, title)));
  document.querySelector(".mark").href = linkTo("ask", shared);
}

const page = {
  get values() { return current.values; },
  // Change the address without showing the screen again; what is pushed can be undone by Back.
  update(changes, push = false) {
    const values = { ...current.values, ...changes };
    for (const name of Object.keys(values)) if (values[name] === undefined || values[name] === null ||
      values[name] === "") delete values[name];
    current = { ...current, values };
    history[push ? "pushState" : "replaceState"](null, "", linkTo(current.screen, values));
    drawNav();
  },
  go(screen, values) { location.hash = linkTo(screen, values); },
  link: (screen, changes = {}) => linkTo(screen, { ...pick(current.values, SHARED), ...changes }),
};

async function show() {
  leave.abort();
  const mine = leave = new AbortController();
  current = readState();
  const known = SCREENS.find(([name]) => name === current.screen) || SCREENS[0];
  current.screen = known[0];
  if (EXAMPLED.includes(known[0]) && !isAsked(current.values)) current.values = { ...EXAMPLE, ...current.values };
  document.title = `${known[1]} · podsim`;
  drawNav();
  const root = h("div", { class: "screen", "data-screen": known[0] });
  try {
    const module = await import(`./screens/${known[0]}.js`);
    await ensureConfig(current.values, mine.signal);
    if (mine.signal.aborted) return;
    main.replaceChildren(root);
    if (EXAMPLED.includes(known[0]) && isExample(current.values)) main.prepend(h("p", { class: "muted" },
      known[0] === "fleet" ? "An example of each: a queue, a divided H100, and Llama 3 8B on 8 H100. "
        : "An example: Llama 3 8B on 8 H100. ", known[0] === "ask" ? "Type over it." : h("a", { href: "#ask" }, "Ask your own question.")));
    await module.show(root, { ...page, values: current.values, signal: mine.signal });
    root.dataset.ready = "yes";
  } catch (error) {
    if (mine.signal.aborted) return;
    const lines = error instanceof Problems ? error.lines : [String(error.message || error)];
    if (!(error instanceof Problems)) console.error(error);
    main.replaceChildren(h("div", { class: "state failed", role: "alert" }, h("h1", {}, "This page cannot be shown"),
      lines.map((line) => h("p", { class: "terminal" }, `podsim: ${line}`)),
        h("p", {}, h("a", { href: "#ask" }, "Begin again on Ask"))));
  }
}

addEventListener("hashchange", () => { show().then(() => main.focus({ preventScroll: true })); scrollTo(0, 0); });
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
show();
