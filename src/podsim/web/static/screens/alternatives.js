// Alternatives: every plan as a picture that the server has counted, the best layouts as a table, two of them compared.

import { field, figure, h, number, s, say, select, table } from "../dom.js";
import { bytes, count, digits, percent, seconds, signed } from "../format.js";
import { frame, hover } from "../charts.js";
import { stream } from "../api.js";
import { jobOptions, layoutOf } from "../state.js";
import { Region } from "../region.js";
import { PARTS } from "./why.js";
import { layoutWords, predict } from "../job.js";

const AXES = { step_time: ["step time", seconds], memory: ["memory per GPU", bytes],
  tokens_per_second: ["tokens per second", (value) => count(value)],
  tp: ["tensor-parallel degree"], pp: ["pipeline stages"], dp: ["replicas"], cp: ["context-parallel degree"],
    ep: ["expert-parallel degree"],
  micro_batch: ["micro-batch"], virtual_stages: ["chunks per stage"], zero: ["ZeRO"], recompute_layers: ["recomputed layers"] };
const FIELDS = ["tp", "pp", "dp", "cp", "ep", "micro_batch", "virtual_stages", "schedule", "zero", "shard", "recompute",
  "recompute_layers", "sequence_parallel", "flash", "overlap_grad", "overlap_param", "overlap_tp"];

export async function show(root, page) {
  const values = { x: "step_time", y: "memory", ...page.values };
  const chosen = [];
  const picture = new Region("All plans", { parent: page.signal, keep: true });
  const ranking = new Region("The best layouts", { parent: page.signal });
  const compared = h("section", { "aria-label": "Two plans compared", "aria-live": "polite" });
  const axis = (name) => field(name === "x" ? "Horizontal axis" : "Vertical axis",
    select(Object.entries(AXES).map(([key, [title]]) => [key, title]), values[name], (value) => {
    values[name] = value;
    page.update({ [name]: value, low: "", high: "" }, true);
    delete values.low; delete values.high;
    map();
  }));
  const choose = (plan, label) => {
    if (chosen.length === 2) chosen.length = 0;
    chosen.push({ plan, label });
    drawChosen(chosen, compared, values, page);
  };
  root.append(h("h1", {}, "Alternatives"), h("p", { class: "lead" },
    "Each cell holds all plans with these values; the darker, the more. Choose a cell or a row, then another, to compare two plans."),
    h("div", { class: "fields narrow" }, axis("x"), axis("y")), picture.element, compared, ranking.element);

  const map = () => picture.run(async (signal, progress) => {
    const options = { ...jobOptions(values), x: values.x, y: values.y,
      ...(values.low ? { low: +values.low, high: +values.high } : {}) };
    const answer = await stream("map", options, signal, progress);
    return drawMap(answer, choose, values, page, map);
  });
  await Promise.all([map(), ranking.run(async (signal, progress) => {
    const answer = await stream("plan", { ...jobOptions(values), top: 20 }, signal, progress);
    return drawRanking(answer, choose, page);
  })]);
}

function drawMap(answer, choose, values, page, again) {
  const show = (name) => AXES[name]?.[1] || String;
  const axis = (name, edges) => {
    const steps = edges.length < 26 && !["step_time", "memory", "tokens_per_second"].includes(name);
    return { title: AXES[name]?.[0] || name, show: show(name), low: steps ? 0 : edges[0],
      high: steps ? edges.length - 1 : edges.at(-1), log: !steps && edges[0] > 0, steps };
  };
  const summary = h("p", {}, number(answer.evaluated, count, "evaluated"), " plans on ", number(answer.gpus, count, "gpus"),
    " GPUs, of which ", number(answer.fitting, count, "fitting"), " fit. ",
    values.low ? h("button", { class: "quiet", onclick: () => { delete values.low; delete values.high;
      page.update({ low: "", high: "" }); again(); } }, "Show all") : "");
  if (!answer.cells.length) return [summary, h("p", { class: "muted" },
    "None of them fits: fewer sequences, more GPUs or GPUs with more memory would help.")];
  const [x, y] = [axis("x" in values ? answer.x : "", answer.x_edges), axis(answer.y, answer.y_edges)];
  const shown = (it, edges) => (it.steps ? { ...it, show: (value) => (Number.isInteger(value) &&
    value < edges.length - 1 ? digits(edges[value]) : "") } : it);
  const plot = frame({ x: shown(x, answer.x_edges), y: shown(y, answer.y_edges), label: `Plans by ${x.title} and ${y.title}`,
    height: 420 });
  const at = (it, edges, cell) => (it.steps ? [cell, cell + 1] : [edges[cell], edges[cell + 1]]);
  const most = Math.log(Math.max(...answer.cells.map(([, , number]) => number)) + 1);
  const cells = h("div", {});
  answer.cells.forEach(([column, row, many, best], place) => {
    const [left, right] = at(x, answer.x_edges, column).map(plot.x), [low, high] = at(y, answer.y_edges, row).map(plot.y);
    const text = `${count(many)} plans\nthe fastest: ${seconds(best)}\n${layoutWords(answer.best[place], true)}`;
    const cell = hover(s("rect", { x: left, y: high, width: Math.max(right - left - 0.6, 1), height: Math.max(low - high - 0.6, 1),
      class: "cell", "fill-opacity": 0.18 + 0.82 * (Math.log(many + 1) / most) }), text);
    cell.addEventListener("click", () => choose(answer.best[place], "of the picture"));
    plot.layer.append(cell);
  });
  const pareto = answer.x !== answer.y && ["step_time", "memory"].includes(answer.x) &&
    ["step_time", "memory"].includes(answer.y);
  if (pareto) for (const point of answer.front) {
    const text = `nothing beats it in both\n${seconds(point.step_time)}, ${bytes(point.memory)}\n${layoutWords(point.plan, true)}`;
    const mark = hover(s("circle", { cx: plot.x(point.x), cy: plot.y(point.y), r: 4, class: "front" }), text);
    mark.addEventListener("click", () => choose(point.plan, "of the front"));
    plot.layer.append(mark);
  }
  cells.append(plot.svg, answer.x === "step_time" && !values.low ? h("div", { class: "row" },
    h("button", { class: "quiet", onclick: () => {
    const fastest = answer.cells.reduce((best, cell) => Math.min(best, cell[3]), Infinity);
    Object.assign(values, { low: String(fastest * 0.999), high: String(fastest * 1.25) });
    page.update({ low: values.low, high: values.high });
    again();
  } }, "Only the fastest quarter")) : "");
  const columns = [{ title: x.title, key: "x", format: show(answer.x) }, { title: y.title, key: "y", format: show(answer.y) },
    { title: "step", key: "step_time", format: seconds }, { title: "memory", key: "memory", format: bytes },
      { title: "plan", of: (row) => layoutWords(row.plan, true), class: "words" }];
  return [summary, figure(pareto ? "Orange: nothing beats these in both time and memory." : "The time of a cell is that of its fastest plan.", cells, columns, answer.front)];
}

function drawRanking(answer, choose, page) {
  const rows = answer.ranked.map(({ rank, prediction, reason, is_tight: tight }) => ({ rank, reason, ...prediction,
    words: `${layoutWords(prediction.plan, true)}${tight ? ", tight" : ""}` }));
  return [h("h2", {}, "The best layouts"), table([{ title: "rank", key: "rank", format: String },
    { title: "step", key: "step_time", format: seconds }, { title: "memory", key: "memory", format: bytes },
    { title: "utilisation", key: "mfu", format: percent }, { title: "plan", key: "words", class: "words" },
    { title: "", of: (row) => h("a", { href: page.link("answer", { ...layoutOf(row.plan), batch: row.plan.global_batch }),
      "aria-label": `Use this plan, rank ${row.rank}` }, "Use this plan") }],
  rows, { sort: "rank", caption: "One plan per layout; choose two to compare. A tight plan is last: its memory may not suffice.",
    onrow: (row) => choose(row.plan, `rank ${row.rank}`) })];
}

async function drawChosen(chosen, element, values, page) {
  if (chosen.length < 2) {
    element.replaceChildren(h("p", { class: "muted" },
      `Chosen: ${chosen[0].label}, ${layoutWords(chosen[0].plan)}. Choose another to compare.`));
    return say("one plan is chosen");
  }
  const full = async ({ plan }) => predict({ ...values, ...layoutOf(plan) }, {}, page.signal);
  try {
    const [one, other] = await Promise.all(chosen.map(full));
    const rows = [["step", seconds, one.step_time, other.step_time], ["memory", bytes, one.memory, other.memory],
      ["utilisation", percent, one.mfu, other.mfu],
      ...Object.keys(one.parts).filter((name) => one.parts[name] ||
        other.parts[name]).map((name) => [PARTS[name] || name, seconds, one.parts[name] || 0, other.parts[name] || 0]),
      ...FIELDS.filter((name) => String(one.plan[name]) !== String(other.plan[name])).map((name) => [name, null, one.plan[name],
        other.plan[name]])]
      .map(([name, format, a, b]) => ({ name, a: format ? number(a, format) : String(a),
        b: format ? number(b, format) : String(b), more: format && a ? signed(b / a - 1) : "" }));
    element.replaceChildren(h("h2", {}, "Two plans"), table([{ title: "", key: "name" },
      { title: chosen[0].label, key: "a", class: "n" }, { title: chosen[1].label, key: "b", class: "n" },
        { title: "change", key: "more", class: "n" }], rows, { caption: "Equal fields are left out" }));
    say("two plans are compared");
  } catch (error) {
    if (error.name !== "AbortError") element.replaceChildren(h("p", { class: "terminal bad", role: "alert" },
      (error.lines || [error.message]).map((line) => `podsim: ${line}`).join("\n")));
  }
}
