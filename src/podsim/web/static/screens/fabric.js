// Fabric: the drawing of a server, a pod or a machine to zoom into, and the load of each link in a simulated step.

import { field, figure, h, number, table } from "../dom.js";
import { bytes, count, percent, rate, seconds } from "../format.js";
import { bars } from "../charts.js";
import { ask } from "../api.js";
import { hasLayout, planOptions } from "../state.js";
import { Region } from "../region.js";
import { ensurePlan } from "../job.js";

const EXAMPLES = [["dgx-h100", "DGX H100"], ["superpod-a100", "SuperPOD A100"], ["selene", "Selene"],
  ["superpod-gb200", "SuperPOD GB200"], ["tpu-v4", "TPU v4"]];

export async function show(root, page) {
  const values = { ...page.values };
  const drawing = new Region("The fabric", { parent: page.signal, keep: true });
  const loads = new Region("The load of each link", { parent: page.signal });
  let use = null;
  const name = h("input", { value: values.fabric || values.on || "dgx-h100", onchange: () => look(name.value.trim()) });
  const look = (on) => { name.value = on; values.fabric = on; page.update({ fabric: on }); return draw(); };
  root.append(h("h1", {}, "Fabric"), h("p", { class: "lead" },
    "One server with its parts, then each network with its layers. Wheel or + and − zoom, drag moves, 0 shows all."),
    h("div", { class: "fields narrow" }, field("Cluster or fabric", name)),
      h("div", { class: "row" }, EXAMPLES.map(([on, title]) => h("button", { class: "quiet", onclick: () => look(on) }, title))),
    drawing.element, h("h2", {}, "Load of each link in a step"), loads.element);
  const draw = () => drawing.run(async (signal) => {
    const answer = await ask("fabric", { on: name.value.trim() }, signal);
    return [zoomed(answer.svg, answer.title), h("details", {}, h("summary", {}, "Data as a table"),
      table([{ title: "network", key: "net" }, { title: "layer", key: "kind" }, { title: "boxes", key: "boxes", format: count },
        { title: "switch", key: "switch" },
      { title: "cables upwards", key: "cables", format: count }, { title: "of", key: "bandwidth", format: rate }],
        answer.nets.flatMap((net) => net.layers.map((layer) => ({ net: net.title, ...layer,
          boxes: layer.groups.reduce((sum, each) => sum + each, 0) }))), { caption: answer.title }))];
  });
  await Promise.all([draw(), loads.run(async (signal, progress) => {
    if (!hasLayout(values)) await ensurePlan(values, page, signal, progress);
    const { tokens, price, ...options } = planOptions(values);
    const answer = await ask("timeline", { ...options, kernels: false }, signal);
    use = answer.links.reduce((most, link) => Math.max(most, link.utilisation), 0);
    return drawLoads(answer);
  })]);
  if (use && name.value === values.on) shade(drawing.element, use);
}

// Adapters and their ports, the darker the busier the busiest of them is.
function shade(element, use) {
  for (const box of element.querySelectorAll(".nic")) box.style.setProperty("--load", `${Math.round(100 * use)}%`);
  element.append(h("p", { class: "hint" }, "Load of an adapter in the step: 0 % ", h("i", { class: "scale" }), ` 100 %; here ${percent(use)}.`));
}

function zoomed(text, label) {
  const picture = new DOMParser().parseFromString(text.replace(/<style>.*?<\/style>/s, ""), "image/svg+xml").documentElement;
  picture.querySelector("rect[fill='#fff']")?.remove();
  const node = document.importNode(picture, true);
  const [, , width, height] = node.getAttribute("viewBox").split(" ").map(Number);
  let view = { x: 0, y: 0, scale: 1 }, drag = null;
  const place = () => node.setAttribute("viewBox", `${view.x} ${view.y} ${width / view.scale} ${height / view.scale}`);
  const zoom = (factor, px = 0.5, py = 0.5) => {
    const scale = Math.min(40, Math.max(1, view.scale * factor));
    view.x += (width / view.scale - width / scale) * px;
    view.y += (height / view.scale - height / scale) * py;
    view.scale = scale;
    if (scale === 1) view = { x: 0, y: 0, scale };
    place();
  };
  for (const name of ["width", "height"]) node.removeAttribute(name);
  node.setAttribute("aria-label", label);
  const box = h("div", { class: "drawing", tabindex: "0", role: "group", "aria-label": `${label}: a drawing to zoom` }, node);
  box.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && event.deltaY > 0 && view.scale === 1) return;
    event.preventDefault();
    const area = node.getBoundingClientRect();
    zoom(1.0015 ** -event.deltaY, (event.clientX - area.left) / area.width, (event.clientY - area.top) / area.height);
  }, { passive: false });
  box.addEventListener("pointerdown", (event) => { drag = event; box.setPointerCapture(event.pointerId); });
  box.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const scale = width / view.scale / node.getBoundingClientRect().width;
    view.x -= (event.clientX - drag.clientX) * scale;
    view.y -= (event.clientY - drag.clientY) * scale;
    drag = event;
    place();
  });
  for (const end of ["pointerup", "pointercancel"]) box.addEventListener(end, () => { drag = null; });
  box.addEventListener("keydown", (event) => {
    const step = width / view.scale / 10;
    const moves = { "+": () => zoom(1.3), "=": () => zoom(1.3), "-": () => zoom(1 / 1.3),
      0: () => { view = { x: 0, y: 0, scale: 1 }; place(); },
      ArrowLeft: () => { view.x -= step; place(); }, ArrowRight: () => { view.x += step; place(); },
        ArrowUp: () => { view.y -= step; place(); }, ArrowDown: () => { view.y += step; place(); } };
    if (moves[event.key]) { event.preventDefault(); moves[event.key](); }
  });
  return [box, h("div", { class: "row" }, [["Nearer", 1.5], ["Farther", 1 / 1.5]].map(([title, factor]) =>
    h("button", { class: "quiet", onclick: () => zoom(factor) }, title)))];
}

function drawLoads({ links, model, cluster, step_time: step }) {
  if (!links.length) return h("p", { class: "muted" }, `Nothing leaves a server of ${cluster} under the best plan of ${model}: no adapter carries anything.`);
  const columns = [{ title: "links", key: "name" }, { title: "copies", key: "copies", format: String },
    { title: "capacity", key: "capacity", format: rate }, { title: "bytes", key: "bytes", format: bytes },
    { title: "busy", key: "busy", format: seconds }, { title: "utilisation", key: "utilisation", format: percent }];
  return [h("p", {}, `A step of ${model} on ${cluster} takes `, number(step, seconds, "step_time"),
    ". It uses this share of each link's capacity."),
    figure("Utilisation of the adapters", bars(links.map((link) => [link.name, link.utilisation, bytes(link.bytes)]),
      { show: percent, label: "Utilisation of each link", most: 1, key: "utilisation" }), columns, links)];
}
