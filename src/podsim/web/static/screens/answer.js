// Answer: the plan, seconds with their band, days, money, and how far it is from what was measured.

import { copyButton, figure, h, number, terminal } from "../dom.js";
import { amount, bytes, count, doublings, energy, mass, money, percent, seconds, signed } from "../format.js";
import { ask } from "../api.js";
import { planOptions } from "../state.js";
import { legend, PALETTE, stack } from "../charts.js";
import { Region } from "../region.js";
import { partsOf } from "./why.js";
import { commandOf, ensurePlan, layoutWords, predict, pythonOf } from "../job.js";

const FILES = [["megatron", "Megatron"], ["torchtitan", "torchtitan"], ["slurm", "Slurm"]];

export async function show(root, page) {
  const region = new Region("The answer", { parent: page.signal });
  root.append(h("h1", { class: "hidden" }, "Answer"), region.element);
  const values = { ...page.values };
  await region.run(async (signal, progress) => {
    await ensurePlan(values, page, signal, progress);
    const answer = await predict(values, {}, signal);
    return draw(answer, values, page);
  });
}

function draw(answer, values, page) {
  const { plan, training, expense, band } = answer;
  const warnings = answer.warnings.filter((line) => !answer.faster_than || !line.includes(answer.faster_than.id));
  const parts = partsOf(answer), kinds = Object.entries(answer.memory_kinds).map(([kind, value], place) => [kind, value, PALETTE[place]]);
  return [h("p", { class: "headline" }, !answer.fits ? "This plan does not fit." : [
    training ? [number(training.expected, seconds), expense ? [", ", number(expense.low, money)] : "", " on "] : [
      "A step takes ", number(answer.step_time, seconds), " on "], number(answer.gpus, count, "gpus"), " GPUs."]),
    h("p", { class: "lead" }, `${answer.model} on ${answer.cluster}: ${layoutWords(plan)}.`), outside(answer),
    answer.notes?.length ? h("p", { class: "muted" }, `Taken by default: ${answer.notes.join("; ")}.`) : null,
    h("dl", { class: "facts" },
      training ? fact("Training", number(training.expected, seconds, "training.expected"),
        [`${amount(training.tokens)} tokens with failures; `, number(training.seconds, seconds, "training.seconds"), " without"])
        : fact("Training", "–", "give the tokens on Ask"),
      expense ? fact(expense.tokens ? "Money" : "Money a step",
        [number(expense.low, money, "expense.low"), expense.high > expense.low ? [" to ",
          number(expense.high, money, "expense.high")] : ""],
        [expense.offer.source === "the user" ? `${expense.offer.name} per GPU-hour; ` : `${expense.offer.name}; `,
          number(expense.energy, energy, "expense.energy"), ", ", number(expense.carbon, mass, "expense.carbon"),
          " CO₂"]) : fact("Money", "–", "give a price on Ask"),
      fact("Step time", number(answer.step_time, seconds, "step_time"),
        band ? [number(answer.step_time * (1 + band.low), seconds), " to ", number(answer.step_time * (1 + band.high), seconds),
          ", error band of measured runs"] : null),
      fact("Memory per GPU", h("span", { class: answer.fits ? "good" : "bad" }, answer.fits ? "fits" : "does not fit"),
        [stack(kinds, { show: bytes, label: "Memory per GPU", limit: answer.memory_limit,
          total: Math.max(answer.memory, answer.memory_limit) * 1.02 }),
          number(answer.memory, bytes, "memory"), " of ", number(answer.memory_limit, bytes, "memory_limit")]),
      fact("Utilisation", number(answer.mfu, percent, "mfu"), "model FLOPs, attention counted"),
      fact("Rate", number(answer.tokens_per_second, (value) => `${amount(value)}/s`, "tokens_per_second"),
        "tokens, the whole job")),
    h("h2", {}, "Where the step goes"), figure(`${answer.bottleneck}.`, [stack(parts, { show: seconds, label: "Parts of the step" }),
      legend(parts, seconds)]),
    h("p", {}, h("a", { href: page.link("why") }, "Why, and what changes it"), " · ",
      h("a", { href: page.link("alternatives") }, "All other plans")),
    warnings.length ? [h("h2", {}, "Warnings"), h("ul", { class: "notes" },
      warnings.map((line) => h("li", {}, line)))] : null,
    h("h2", {}, "Take it with you"), takeaway(values, answer), nearest(answer),
    h("h2", {}, "Assumptions"), h("ul", { class: "notes muted" }, answer.assumptions.map((line) => h("li", {}, line)))];
}

const fact = (title, value, small) => h("div", {}, h("dt", {}, title), h("dd", {}, value),
  small ? h("dd", { class: "small" }, small) : null);

// A mark where no measured run stands behind the answer.
function outside({ faster_than: run, band }) {
  if (!run && band?.rows) return null;
  return h("div", { class: "mark-out" }, h("p", {}, h("strong", { class: "bad" }, "Outside what was measured. "),
    run ? [`Faster than any of ${count(run.rows)} measured runs (${run.basis}); the best of them, `, h("code", {}, run.id), `, used ${percent(run.utilisation)} of the peak.`]
      : band?.basis || "No measured run resembles this plan."));
}

function nearest({ nearest: run }) {
  if (!run) return null;
  return [h("h2", {}, "Nearest measured run"), h("p", {}, h("code", {}, run.id),
    `: ${amount(run.parameters)} parameters on ${count(run.gpus)} ${run.architecture} GPUs with ${run.framework}, tp ${run.tp}, pp ${run.pp}; `,
    number(run.distance, doublings, "nearest.distance"), " away. podsim is off by ",
      number(run.error, signed, "nearest.error"), " on it. ", h("a", { href: "#trust" }, "All measured runs"))];
}

function takeaway(values, answer) {
  const options = planOptions(values);
  const command = values.config || !answer.command ? commandOf("predict", options, values.config)
    : [answer.command, ...["tokens", "price"].filter((name) => values[name]).map((name) => `--${name} ${values[name]}`)].join(" ");
  const { tokens, price, ...job } = options;
  const file = (tool) => async () => {
    try {
      const { software, ...rest } = job;
      return (await ask("launch", { ...rest, tool })).text;
    } catch (error) { return error.lines ? error.lines.map((line) => `# podsim: ${line}`).join("\n") : String(error); }
  };
  return [terminal(command), h("div", { class: "row" }, copyButton("Copy the command", command),
    copyButton("Python", pythonOf("predict", options, values.config)),
    FILES.map(([tool, title]) => copyButton(title, file(tool))))];
}
