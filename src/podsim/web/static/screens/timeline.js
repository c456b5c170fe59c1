// Timeline: a simulated step to zoom into and search, its critical path, a real profile against it.

import { choose, download, field, h, number, table } from "../dom.js";
import { count, percent, seconds, signed } from "../format.js";
import { ask, sendFile, Problems } from "../api.js";
import { planOptions } from "../state.js";
import { Region } from "../region.js";
import { ensurePlan } from "../job.js";

export async function show(root, page) {
  const values = { ...page.values };
  const region = new Region("The step", { parent: page.signal });
  const measured = new Region("A real profile", { parent: page.signal });
  root.append(h("h1", {}, "Timeline"), h("p", { class: "lead" }, "One training step, simulated on every class of identical ranks."),
    region.element, h("h2", {}, "Compare with a real profile"), measured.element);
  const options = (more) => { const { tokens, price, ...rest } = planOptions(values);
    return { ...rest, kernels: values.kernels === "true", ...more }; };
  const run = () => region.run(async (signal, progress) => {
    await ensurePlan(values, page, signal, progress);
    const answer = await ask("timeline", options(), signal);
    return draw(answer, values, page, run, options);
  });
  const file = h("input", { type: "file", id: "profile", accept: ".json,.gz", onchange: () => file.files[0] &&
    measured.run(async (signal) => {
    if (file.files[0].size > 50 * 2 ** 20) throw new Problems([`${file.files[0].name}: larger than 50 MB`], 2);
    const { file: against } = await sendFile(file.files[0], file.files[0].name, "trace", signal);
    const { compared } = await ask("timeline", options({ against }), signal);
    return [h("p", {}, `${file.files[0].name}, compared with the step above.`),
      table([{ title: "kind", key: "kind" }, { title: "measured", key: "measured", format: seconds },
        { title: "simulated", key: "simulated", format: seconds }], compared.rows,
          { caption: "Seconds of a step in which at least one op of the kind ran" })];
  }) });
  measured.empty(h("p", {}, h("label", { for: "profile" }, "A PyTorch profile of a step (Kineto JSON, up to 50 MB): "), file));
  await run();
}

function draw(answer, values, page, again, options) {
  const { described, packed } = answer.spans;
  const find = h("input", { id: "find", type: "search", placeholder: "attention", autocomplete: "off" });
  const chart = h("div", { class: "gantt" }, h("div", { id: "kinds", class: "kinds" }),
    h("div", { id: "chart" }, h("canvas", { id: "spans", tabindex: "0",
      "aria-label": "Gantt chart of the step; the table of the critical path follows", role: "img" }),
        h("div", { id: "tip", class: "gantt-tip", hidden: true })),
    h("script", { type: "application/json", id: "described" }, JSON.stringify(described)),
      h("script", { type: "application/json", id: "packed" }, packed));
  queueMicrotask(() => requestAnimationFrame(() => chart.append(h("script",
    { type: "module", src: `/static/gantt.js?${Date.now()}` }))));
  const total = answer.critical.reduce((sum, op) => sum + op.seconds, 0);
  return [h("p", { class: "headline" }, "The step takes ", number(answer.step_time, seconds, "step_time"),
    "; the closed form says ", number(answer.closed_form, seconds, "closed_form"), "."),
    h("div", { class: "row" }, choose("Kernels", [["false", "together"], ["true", "one by one"]],
      String(values.kernels === "true"), (kernels) => { values.kernels = kernels; page.update({ kernels }); again(); }),
      field("Show only ops named", find), h("button", { class: "quiet", onclick: async (event) => {
        const button = event.currentTarget;
        button.disabled = true;
        try {
          const { trace } = await ask("timeline", options({ perfetto: true }));
          download("step.pftrace", Uint8Array.from(atob(trace), (letter) => letter.charCodeAt(0)), "application/octet-stream");
        } finally { button.disabled = false; }
      } }, "Save for Perfetto")),
    h("p", { class: "hint" }, "Wheel or W and S zoom, drag or A and D move, 0 shows all. Click a kind to see it alone. Perfetto (ui.perfetto.dev) opens the saved file."), chart,
    h("h2", {}, "The critical path"), table([{ title: "op",
      of: (op) => h("button", { class: "link", onclick: () => { find.value = op.name; find.dispatchEvent(new Event("input"));
        } }, op.name) }, { title: "kind", key: "kind" }, { title: "where", key: "where" },
      { title: "ops", key: "count", format: count }, { title: "time", key: "seconds", format: seconds },
        { title: "share", of: (op) => op.seconds / total, format: percent }], answer.critical.slice(0, 25),
          { caption: "Speeding these up shortens the step" }),
    answer.warnings.length ? h("ul", { class: "notes" }, answer.warnings.map((line) => h("li", {}, line))) : null,
    h("p", { class: "muted" }, `Difference to the closed form: ${signed(answer.step_time / answer.closed_form - 1)}.`)];
}
