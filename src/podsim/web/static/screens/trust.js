// Trust: predicted against measured, filtered; and where the present answer lies.

import { field, figure, h, number, s, select, table } from "../dom.js";
import { amount, count, doublings, percent, signed } from "../format.js";
import { frame, hideTip, showTip } from "../charts.js";
import { ask } from "../api.js";
import { hasLayout } from "../state.js";
import { Region } from "../region.js";
import { isAsked, predict } from "../job.js";

const FILTERS = [["architecture", "GPU"], ["software", "Software"], ["kind", "Parallelism"], ["role", "Role"]];

export async function show(root, page) {
  const values = { ...page.values };
  const region = new Region("Predicted against measured", { parent: page.signal, keep: true });
  const controls = h("div", { class: "fields narrow" });
  root.append(h("h1", {}, "Trust"), h("p", { class: "lead" },
    "Every measured training run that podsim knows, and what it predicts for it. Constants were fitted to some; the others only test them."), controls, region.element);
  let runs, present = null;
  const draw = () => region.run(async (signal) => {
    runs ||= (await ask("measured", {}, signal)).rows;
    if (isAsked(values) && hasLayout(values) && !present) present = await predict(values, {}, signal).catch(() => null);
    if (!controls.children.length) controls.append(...FILTERS.map(([name, label]) => field(label,
      select([["", "all"], ...[...new Set(runs.map((run) => run[name]))].sort().map((value) => [value, ROLES[value] || value])],
        values[`only_${name}`] || "", (value) => {
      values[`only_${name}`] = value;
      page.update({ [`only_${name}`]: value });
      draw();
    }))));
    const shown = runs.filter((run) => FILTERS.every(([name]) => !values[`only_${name}`] ||
      run[name] === values[`only_${name}`]));
    return shown.length ? drawRuns(shown, present) : h("div", { class: "state" }, h("p", {}, "No measured run is like this."));
  });
  await draw();
}

const ROLES = { test: "test", calibrate: "fitted" };
const nameOf = (run) => run.id.replace(/-[^-]*$/, "");
const middle = (runs) => runs.map((run) => Math.abs(run.error)).sort((a, b) => a - b)[Math.floor(runs.length / 2)];

function drawRuns(runs, present) {
  const axis = { low: 0, high: Math.min(1, Math.max(...runs.map((run) => Math.max(run.measured, run.predicted))) * 1.08),
    show: percent };
  const plot = frame({ x: { ...axis, title: "measured utilisation" }, y: { ...axis, title: "predicted utilisation" },
    label: "Predicted against measured utilisation", height: innerWidth < 600 ? 380 : 520, width: innerWidth < 600 ? 400 : 640 });
  plot.layer.append(s("line", { class: "diagonal", x1: plot.x(0), y1: plot.y(0), x2: plot.x(axis.high), y2: plot.y(axis.high) }));
  for (const run of runs) plot.layer.append(s("circle", { cx: plot.x(run.measured), cy: plot.y(run.predicted), r: 3,
    class: `run ${run.role}` }));
  const nearest = present?.nearest && runs.find((run) => run.id === present.nearest.id);
  if (nearest) plot.layer.append(s("circle", { cx: plot.x(nearest.measured), cy: plot.y(nearest.predicted), r: 7,
    class: "nearest" }));
  if (present) plot.layer.append(s("line", { class: "present", x1: plot.x(0), x2: plot.x(axis.high), y1: plot.y(present.mfu_6pd),
    y2: plot.y(present.mfu_6pd) }));
  plot.svg.addEventListener("pointermove", (event) => {
    const box = plot.svg.getBoundingClientRect(), scale = plot.width / box.width;
    const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    const [near, distance] = runs.reduce(([best, least], run) => { const away = Math.hypot(plot.x(run.measured) - x,
      plot.y(run.predicted) - y); return away < least ? [run, away] : [best, least]; }, [null, 12]);
    if (near && distance < 12) showTip(event,
      `${near.id} (${ROLES[near.role]})\n${amount(near.parameters)} parameters on ${near.gpus} ${near.architecture} GPUs\n${near.software}, tp ${near.tp}, pp ${near.pp}\nmeasured ${percent(near.measured)}, predicted ${percent(near.predicted)}`);
    else hideTip();
  });
  plot.svg.addEventListener("pointerleave", hideTip);
  const columns = [{ title: "run", key: "id" }, { title: "role", of: (run) => ROLES[run.role] }, { title: "GPUs", key: "gpus", format: count },
    { title: "family", key: "architecture" }, { title: "software", key: "software" }, { title: "parallelism", key: "kind" },
    { title: "parameters", key: "parameters", format: amount }, { title: "measured", key: "measured", format: percent },
      { title: "predicted", key: "predicted", format: percent }, { title: "time error", key: "error", format: signed }];
  const [test, fitted] = ["test", "calibrate"].map((role) => runs.filter((run) => run.role === role));
  const groups = [...new Set(runs.map(nameOf))].sort().map((name) => { const [own, seen] = [test, fitted].map((rows) =>
    rows.filter((run) => nameOf(run) === name));
    return { name, of: [...new Set([...own, ...seen].map((run) => `${run.software}, ${run.architecture}`))].join("; "), test: own.length, error: middle(own), fitted: seen.length, left: middle(seen),
      rows: [...own, ...seen].sort((a, b) => Math.abs(b.error) - Math.abs(a.error)) }; });
  const detail = h("div", {});
  const open = ({ name, rows }, from = 0) => { detail.replaceChildren(h("h2", {}, `The runs of ${name}, the largest error first`),
    table(columns, rows.slice(from, from + 25), { caption: `${from + 1} to ${Math.min(from + 25, rows.length)} of ${rows.length} runs` }),
    h("div", { class: "row" }, from ? h("button", { class: "quiet", onclick: () => open({ name, rows }, from - 25) }, "Previous") : null,
      from + 25 < rows.length ? h("button", { class: "quiet", onclick: () => open({ name, rows }, from + 25) }, "Next") : null)); detail.scrollIntoView(); };
  return [h("p", { class: "headline" }, test.length ? ["Half of ", number(test.length, count, "runs"), " test runs are predicted within ",
    number(middle(test), percent, "median"), "."] : "No test run is like this."),
    fitted.length ? h("p", {}, "Of ", number(fitted.length, count, "fitted"), " runs that constants were fitted to, half lie within ",
      number(middle(fitted), percent, "fitted.median"), ".") : null,
    present ? h("p", {}, "The line is the present answer, at ", number(present.mfu_6pd, percent, "mfu_6pd"),
      nearest ? ["; the ring is its nearest run, ", h("code", {}, nearest.id),
        `, ${doublings(present.nearest.distance)} away, predicted with an error of `,
          number(nearest.error, signed, "nearest.error")] : "", ".") : null,
    figure("Model FLOPs utilisation, 6 × parameters per token. On the diagonal a prediction is right; above it, too fast.", [plot.svg, h("ul", { class: "legend" }, h("li", {}, h("i", { class: "dot test" }), "test"), h("li", {}, h("i", { class: "dot calibrate" }), "fitted"))], null),
    h("h2", {}, "The tables"), table([{ title: "table", key: "name" }, { title: "software and GPUs", key: "of", class: "words" }, { title: "test runs", key: "test", format: count },
      { title: "half within", key: "error", format: percent }, { title: "fitted runs", key: "fitted", format: count },
      { title: "half within", key: "left", format: percent }], groups, { caption: "Choose a table to see its runs", sort: "name", onrow: (group) => open(group) }), detail];
}
