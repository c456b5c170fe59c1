// Designs: two to four clusters side by side, each with its own changes; scaling curves; export.

import { download, field, figure, h, number, slider, table } from "../dom.js";
import { bytes, count, money, percent, seconds } from "../format.js";
import { lines } from "../charts.js";
import { stream, ask } from "../api.js";
import { jobOptions, layoutOf, planOptions } from "../state.js";
import { Region } from "../region.js";
import { layoutWords } from "../job.js";

const FACTORS = [["network.bandwidth", "Network bandwidth"], ["nvlink.bandwidth", "NVLink bandwidth"],
  ["gpu.memory", "GPU memory"], ["gpu.memory_bandwidth", "Memory bandwidth"]];
const NAMES = "ABCD";

export async function show(root, page) {
  const values = { ...page.values };
  const designs = (values.designs || `${values.on || "dgx-h100:8"}\ndgx-a100-80gb:8`).split("\n").slice(0, 4).map(readDesign);
  const answers = new Region("The designs side by side", { parent: page.signal, keep: true });
  const scaling = new Region("Scaling", { parent: page.signal });
  const columns = h("div", { class: "columns" });
  root.append(h("h1", {}, "Designs"), h("p", { class: "lead" },
    "Two to four machines, each with its best plan for the same model. Move a slider to change a machine."),
    h("div", { class: "fields narrow" }, field("Model", h("input",
      { value: values.model, onchange: (event) => { values.model = event.target.value.trim(); values.config = "";
        page.update({ model: values.model, config: "" }); run(); } })),
      field("Tokens to train", h("input", { value: values.tokens || "", placeholder: "1T",
        onchange: (event) => { values.tokens = event.target.value.trim(); page.update({ tokens: values.tokens }); run(); } }))),
    columns, answers.element, h("h2", {}, "Scaling"), scaling.element);
  const save = () => page.update({ designs: designs.map(writeDesign).join("\n") });
  let timer;
  const changed = () => { save(); clearTimeout(timer); timer = setTimeout(run, 250); };
  function drawColumns() {
    columns.replaceChildren(...designs.map((design, place) => h("section", { "aria-label": `Design ${NAMES[place]}` },
      h("div", { class: "row" }, h("h2", {}, NAMES[place]),
      designs.length > 2 ? h("button", { class: "quiet", onclick: () => { designs.splice(place, 1); drawColumns(); changed();
        } }, "Remove") : null),
    field("Cluster", h("input", { value: design.on, onchange: (event) => { design.on = event.target.value.trim(); changed();
      } })),
    field("USD per GPU-hour", h("input", { value: design.price, inputmode: "decimal", placeholder: "2.50",
      onchange: (event) => { design.price = event.target.value.trim(); changed(); } })),
    h("details", { open: Object.keys(design.factors).length ? true : null }, h("summary", {}, "Change the machine"),
      FACTORS.map(([key, label]) => slider(label, { min: -2, max: 2, step: 0.5, value: Math.log2(design.factors[key] || 1),
        show: (power) => `× ${+(2 ** power).toPrecision(2)}`,
      oninput: (power) => { if (power) design.factors[key] = +(2 ** power).toPrecision(3); else delete design.factors[key];
        changed(); } })),
    slider("Taper of the uplinks", { min: 0.25, max: 1, step: 0.25, value: design.taper,
      show: (share) => (share === 1 ? "none" : `1 : ${1 / share}`),
        oninput: (share) => { design.taper = share; changed(); } })))),
    designs.length < 4 ? h("button", { class: "quiet add", onclick: () => { designs.push(readDesign("dgx-b200:8"));
      drawColumns(); changed(); } }, "Add a design") : "");
  }
  const run = async () => {
    await answers.run(async (signal, progress) => drawTable(await Promise.all(designs.map((design) => answerOf(design, values,
      signal, progress).catch((error) => { if (error.name === "AbortError") throw error; return { error }; }))), designs, values,
        page));
    scaling.run((signal, progress) => drawScaling(designs, values, signal, progress));
  };
  drawColumns();
  await run();
}

// A design as one line of the address: CLUSTER;price=2.5;gpu.memory=2
function readDesign(line) {
  const [on, ...rest] = line.split(";"), design = { on, price: "", taper: 1, factors: {} };
  for (const each of rest) {
    const [key, value] = each.split("=");
    if (key === "price") design.price = value;
    else if (key === "taper") design.taper = +value || 1;
    else if (FACTORS.some(([known]) => known === key) && +value > 0) design.factors[key] = +value;
  }
  return design;
}

const writeDesign = ({ on, price, taper, factors }) => [on, ...(price ? [`price=${price}`] : []),
  ...(taper < 1 ? [`taper=${taper}`] : []), ...Object.entries(factors).map(([key, value]) => `${key}=${value}`)].join(";");

// The options of a design: factors become values by what the machine has.
async function optionsOf(design, values, signal) {
  const { on: _, gpus: __, overrides: ___, software: ____, precision: _____, ...job } = jobOptions({ ...values, on: design.on });
  const options = { ...job, on: design.on };
  const factors = { ...design.factors };
  if (design.taper < 1) factors["network.bandwidth"] = (factors["network.bandwidth"] || 1) * design.taper;
  if (!Object.keys(factors).length) return options;
  const { levers } = await ask("machine", { on: design.on }, signal);
  options.overrides = Object.entries(factors).map(([key, factor]) => `${key}=${levers[key] * factor}`);
  return options;
}

const priceOf = (design, values) => design.price || (design.on === values.on ? values.price : "");

async function answerOf(design, values, signal, progress) {
  // the question's own cluster keeps its part
  const part = values.gpus && design.on === values.on ? { gpus: values.gpus } : {};
  const options = { ...await optionsOf(design, values, signal), ...part };
  const found = await stream("plan", { ...options, top: 1 }, signal, progress);
  const { plan } = found.ranked[0].prediction;
  const more = { ...(values.tokens ? { tokens: values.tokens } : {}), ...(priceOf(design, values) ? { price: priceOf(design, values) } : {}) };
  const exact = { ...options, ...planOptions(layoutOf(plan)), batch: plan.global_batch, sequence: String(plan.sequence),
    precision: plan.precision, software: plan.software, ...more };
  return { options, evaluated: found.evaluated, ...(await ask("predict", exact, signal)) };
}

const ROWS = [["GPUs", (answer) => answer.gpus, count, 0], ["step", (answer) => answer.step_time, seconds, -1],
  ["step, at least", (answer) => answer.band && answer.step_time * (1 + answer.band.low), seconds, 0],
  ["step, at most", (answer) => answer.band && answer.step_time * (1 + answer.band.high), seconds, 0],
  ["tokens per second", (answer) => answer.tokens_per_second, count, 1],
  ["training", (answer) => answer.training?.expected, seconds, -1],
  ["USD per GPU-hour", (answer) => answer.expense && answer.expense.offer.low * 3600, money, 0], ["money", (answer) => answer.expense?.low, money, -1],
    ["utilisation", (answer) => answer.mfu, percent, 1], ["memory", (answer) => answer.memory, bytes, 0]];

function drawTable(answers, designs, values, page) {
  const rows = ROWS.map(([name, of, format, better]) => {
    const known = answers.map((answer) => (answer.error ? null : of(answer) ?? null));
    const best = better && known.some((value) => value !== null) ? (better > 0 ? Math.max : Math.min)(...known.filter((value) =>
      value !== null)) : null;
    return { name, known, format, best };
  }).filter((row) => row.known.some((value) => value !== null));
  const head = designs.map((design, place) => ({ title: `${NAMES[place]} ${design.on}`,
    of: (row) => (row.text ? row.text[place] : h("span", { class: row.known[place] === row.best ? "best" : "" },
      number(row.known[place], row.format, `${NAMES[place]}.${row.name}`))), class: "n" }));
  const words = { name: "plan", text: answers.map((answer) => (answer.error ? h("span", { class: "bad wrap" },
    answer.error.lines?.[0] || answer.error.message) : h("a",
      { class: "wrap", href: page.link("answer", { ...layoutOf(answer.plan), on: answer.options.on,
        batch: answer.plan.global_batch, software: "", precision: "", gpus: answer.options.gpus || "",
          set: (answer.options.overrides || []).join("\n") }) }, layoutWords(answer.plan, true)))) };
  const data = designs.map((design, place) => ({ design: NAMES[place], on: design.on, ...design.factors, price: design.price,
    ...(answers[place].error ? { error: answers[place].error.message } : answers[place]) }));
  const csv = () => [["quantity", ...designs.map((design) => design.on)],
    ...rows.map((row) => [row.name, ...row.known.map((value) => value ?? "")])].map((line) =>
      line.map((cell) => `"${String(cell).replaceAll('"', '""').replace(/^[=@+-]/, "'$&")}"`).join(",")).join("\n");
  return [table([{ title: "", key: "name" }, ...head], [...rows, words],
    { caption: "The best plan of each; the best figure of a row is bold" }),
    h("div", { class: "row" }, h("button", { class: "quiet", onclick: () => download("designs.csv", csv(), "text/csv") },
      "Save as CSV"), h("button", { class: "quiet", onclick: () => download("designs.json", JSON.stringify(data, null, 2),
        "application/json") }, "Save as JSON")),
    h("p", { class: "hint" }, `The same in a terminal: podsim study FILE.toml, or podsim plan ${values.model} --on ${designs[0].on}`
      + `${answers[0].options?.gpus ? ` --gpus ${answers[0].options.gpus}` : ""} for each.`)];
}

async function drawScaling(designs, values, signal, progress) {
  const series = [];
  for (const design of designs) {
    const options = await optionsOf(design, values, signal), [node, many] = design.on.split(/:(?=\d+$)/), points = [];
    const most = +many || 1;
    for (let nodes = 1; nodes <= Math.max(most, 8) && nodes <= 512; nodes *= 2) {
      try {
        const answer = await stream("plan", { ...options, on: many || most === 1 ? `${node}:${nodes}` : design.on, top: 1 },
          signal, progress);
        const { tokens_per_second: speed, band } = answer.ranked[0].prediction;
        points.push([answer.gpus, speed, ...(band ? [speed / (1 + band.high), speed / (1 + band.low)] : [])]);
      } catch (error) { if (error.name === "AbortError" || !error.lines) throw error; }
      if (!many && most === 1 && nodes >= 8) break;
    }
    if (points.length) series.push({ name: design.on, points });
  }
  if (!series.length) return h("p", { class: "muted" }, "None of these fits the model.");
  const rows = series.flatMap(({ name, points }) => points.map(([gpus, rate]) => ({ name, gpus, rate, each: rate / gpus })));
  return figure("Tokens per second of the best plan at each GPU count. A straight line is perfect scaling; the tint is the error band of measured runs.",
    lines(series, { x: { title: "GPUs", show: count, log: true },
      y: { title: "tokens per second", show: (value) => (value >= 1e6 ? `${value / 1e6} M` : value >= 1e3 ? `${value / 1e3} k` : String(value)), log: true }, label: "Scaling curves" }),
    [{ title: "design", key: "name" }, { title: "GPUs", key: "gpus", format: count },
      { title: "tokens per second", key: "rate", format: count }, { title: "per GPU", key: "each", format: count }], rows);
}
