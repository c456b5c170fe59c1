// Why: where the step goes, memory by stage against the board's limit, with toggles that answer at once.

import { choose, field, figure, h, number, select, slider, table } from "../dom.js";
import { bytes, percent, seconds, signed } from "../format.js";
import { bars, legend, PALETTE, stack } from "../charts.js";
import { Region } from "../region.js";
import { layoutOf } from "../state.js";
import { ensurePlan, layoutWords, predict } from "../job.js";

export const PARTS = { compute: "matrix arithmetic", memory: "memory-bound kernels", launch: "waiting for the host",
  tp: "tensor-parallel", cp: "context-parallel",
  ep: "expert-parallel", pp: "pipeline sends", dp: "data-parallel", bubble: "pipeline bubble", optimizer: "optimizer",
    host: "host work", correction: "correction" };
// The colours that the timeline gives to the same kinds.
const COLOUR = { compute: "#D55E10", memory: "#E6A010", launch: "#CC79A8", tp: "#009E73", cp: "#7CC8AD", ep: "#F2B59B", pp: "#56B4E9",
  dp: "#7A5A2E", bubble: "#D3D7DE", optimizer: "#6F5BD0", host: "#4D4D4E", correction: "#8C6BB1" };
const KINDS = ["weights", "gradients", "optimizer", "activations", "logits", "buffers", "floor"];

export async function show(root, page) {
  const values = { ...page.values };
  const first = new Region("The plan", { parent: page.signal });
  root.append(h("h1", {}, "Why"), first.element);
  const answer = new Region("Where the step goes", { parent: page.signal, keep: true });
  const ops = new Region("Slowest ops", { parent: page.signal, keep: true });
  await first.run(async (signal, progress) => {
    await ensurePlan(values, page, signal, progress);
    const { plan } = await predict(values, {}, signal);
    return h("div", { class: "split" }, controls(layoutOf(plan), change, () => page.go("answer", values)), h("div", {}, answer.element, ops.element));
  });
  if (page.signal.aborted || values.tp === undefined) return;
  let timer;
  function change(changes) {
    Object.assign(values, changes);
    page.update(changes, true);
    draw();
    clearTimeout(timer);
    timer = setTimeout(drawOps, 300);
  }
  const draw = () => answer.run(async (signal) => drawAnswer(await predict(values, {}, signal)));
  const drawOps = () => ops.run(async (signal) => topOps(await predict(values, { detail: "ops" }, signal)));
  await draw();
  await drawOps();
}

function controls(values, change, use) {
  const degrees = ["tp", "pp", "dp"], picks = {}, all = degrees.reduce((product, name) => product * values[name], 1);
  // The number of GPUs stays: replicas follow the other two degrees, stages follow the replicas.
  const turn = (name, value) => {
    const follows = name === "dp" ? "pp" : "dp", others = degrees.filter((each) => each !== name && each !== follows);
    const left = all / (value * picks[others[0]].value);
    if (left % 1) { picks[name].value = values[name]; return; }
    const now = { ...Object.fromEntries(degrees.map((each) => [each, picks[each].value])), [name]: value, [follows]: String(left) };
    Object.assign(values, now);
    for (const each of degrees) picks[each].value = now[each];
    change({ ...now, virtual_stages: "1", schedule: "1f1b", ...(now.tp === "1" ? { sequence_parallel: "false", overlap_tp: "false" } : {}) });
  };
  const counts = Array.from({ length: all }, (_, place) => place + 1).filter((value) => all % value === 0);
  const degree = (name) => field(name, picks[name] = select(counts.map((value) => [value, value]), values[name],
    (value) => turn(name, value)));
  return h("div", { class: "controls" }, h("div", { class: "degrees" }, degrees.map(degree)),
    choose("Recomputation", [["none", "none"], ["selective", "selective"], ["full", "full"]], values.recompute,
      (recompute) => change({ recompute, recompute_layers: "0" })),
    choose("ZeRO", ["0", "1", "2", "3"].map((level) => [level, level]), values.zero, (zero) => change({ zero })),
    slider("Micro-batch", { min: 0, max: 5, value: Math.log2(+values.micro_batch), show: (power) => String(2 ** power),
      oninput: (power) => change({ micro_batch: String(2 ** power) }) }),
    choose("Sequence parallelism", [["false", "off"], ["true", "on"]], values.sequence_parallel,
      (on) => change({ sequence_parallel: on })),
    choose("Fused attention", [["true", "on"], ["false", "off"]], values.flash, (flash) => change({ flash })),
    h("button", { onclick: use }, "Use this plan"));
}

export const partsOf = ({ parts }) => Object.entries(parts).filter(([, value]) => value > 0).map(([name, value]) =>
  [PARTS[name] || name, value, COLOUR[name], `parts.${name}`]);

function drawAnswer(answer) {
  const parts = partsOf(answer);
  const gains = Object.entries(answer.gains).sort(([, a], [, b]) => b - a);
  return [h("p", { class: "headline" }, number(answer.step_time, seconds, "step_time"), " a step, ",
    number(answer.mfu, percent, "mfu"), " utilisation, ",
    h("span", { class: answer.fits ? "good" : "bad" }, answer.fits ? "fits" : "does not fit"), "."),
      h("p", { class: "muted" }, `${layoutWords(answer.plan)}.`),
  h("h2", {}, "Where the step goes"),
  figure(`${answer.bottleneck}.`, [stack(parts, { show: seconds, label: "Parts of the step" }), legend(parts, seconds)],
    [{ title: "part", key: 0 }, { title: "time", key: 1, format: seconds }], parts),
  h("h2", {}, "Memory by stage"), memory(answer),
  h("h2", {}, "What 10 % more of each would gain"), bars(gains.map(([name, value]) => [name, value]),
    { show: signed, label: "Gain of throughput by 10 % more of each", key: "gains" })];
}

function memory({ stages, memory_limit: limit }) {
  const most = Math.max(limit * 1.04, ...stages.map(({ kinds }) => Object.values(kinds).reduce((sum, value) => sum + value, 0)));
  const rows = stages.map(({ first, count,
    kinds }) => ({ name: count > 1 ? `stages ${first} to ${first + count - 1}` : `stage ${first}`, kinds,
    total: Object.values(kinds).reduce((sum, value) => sum + value, 0) }));
  const parts = (kinds) => KINDS.map((kind, place) => [kind, kinds[kind] || 0, PALETTE[place]]);
  return figure(h("span", {}, "The red line is the memory of a GPU: ", number(limit, bytes, "memory_limit"), "."),
    [rows.map(({ name, kinds, total }) => h("div", { class: "stage" }, h("span", {}, name),
    stack(parts(kinds), { show: bytes, total: most, limit, height: 30, label: `Memory of ${name}` }),
    h("data", { value: total, class: total > limit ? "bad" : "" }, bytes(total)))), legend(parts(rows[0].kinds), bytes)],
  [{ title: "stage", key: "name" }, ...KINDS.map((kind) => ({ title: kind, of: (row) => row.kinds[kind] || 0, format: bytes })),
    { title: "all", key: "total", format: bytes }], rows);
}

function topOps({ ops }) {
  const rows = ops.map((op) => ({ ...op, all: (op.forward + op.backward) * op.copies })).sort((a, b) => b.all - a.all).slice(0,
    10);
  return [h("h2", {}, "Slowest ops"), table([{ title: "op", of: (op) => `${op.block} ${op.name}` },
    { title: "layers", key: "copies", format: String },
    { title: "forward", key: "forward", format: seconds }, { title: "backward", key: "backward", format: seconds },
      { title: "of roofline", key: "light", format: percent },
    { title: "bound", key: "bound" }, { title: "source", key: "source" }], rows,
      { caption: "One micro-batch on one rank; times per layer" })];
}
