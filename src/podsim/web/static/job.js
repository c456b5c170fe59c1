// What several screens share: the plan that the state names, found first if it names none.

import { ask, stream } from "./api.js";
import { EXAMPLE, hasLayout, jobOptions, layoutOf, planOptions } from "./state.js";

export const isAsked = (values) => Boolean(values.model && values.on);

export const isExample = (values) => Object.entries(EXAMPLE).every(([name, value]) => values[name] === value);

// The best plan goes into the address, unless it names one.
export async function ensurePlan(values, page, signal, progress) {
  if (hasLayout(values)) return;
  const options = { ...jobOptions(values), top: 5 };
  const found = await stream("plan", options, signal, progress);
  const { plan } = found.ranked[0].prediction;
  const taken = { ...layoutOf(plan), batch: String(plan.global_batch), sequence: String(plan.sequence),
    precision: plan.precision, software: plan.software,
    ...(values.days ? { gpus: String(found.gpus), days: "" } : {}) };
  Object.assign(values, taken);
  page.update(taken);
}

export const predict = (values, more, signal) => ask("predict", { ...planOptions(values), ...more }, signal);

// The plan in words, or with short names as options have them: only what differs from a plain plan.
export function layoutWords(plan, short) {
  const degrees = [["tp", "tensor-parallel"], ["pp", "pipeline stages"], ["cp", "context-parallel"], ["ep", "expert-parallel"],
    ["dp", "replicas"]]
    .filter(([name]) => plan[name] > 1).map(([name, word]) => (short ? `${name} ${plan[name]}` : `${plan[name]} ${word}`));
  const words = [degrees.join(short ? " " : ", ") || "one GPU", short ? `micro-batch ${plan.micro_batch}` : `micro-batches of ${plan.micro_batch}`];
  if (plan.zero) words.push(`ZeRO ${plan.zero}`);
  if (plan.recompute !== "none") words.push(`${plan.recompute} ${short ? "recompute" : "recomputation"}${plan.recompute_layers ? ` of ${plan.recompute_layers} layers` : ""}`);
  if (plan.sequence_parallel) words.push(short ? "SP" : "sequence parallelism");
  if (plan.pp > 1) words.push(plan.virtual_stages > 1 ? `${plan.schedule}, ${plan.virtual_stages} chunks` : plan.schedule);
  return words.join(", ");
}

// Options as a command and as Python.
const quote = (text) => (/^[\w.:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

export function commandOf(verb, options, config) {
  const { model, overrides = [], ...rest } = options;
  const words = ["podsim", verb, quote(config ? "config.json" : model)];
  for (const [name, value] of Object.entries(rest)) {
    const flag = `--${name.replaceAll("_", "-")}`;
    if (value === "true") words.push(flag);
    else if (value === "false") words.push(`--no-${name.replaceAll("_", "-")}`);
    else words.push(flag, quote(String(value)));
  }
  for (const change of overrides) words.push("--set", quote(change));
  return words.join(" ");
}

export function pythonOf(verb, options, config) {
  const { model, overrides, ...rest } = options;
  const value = (text) => (text === "true" ? "True" : text === "false" ? "False" : /^-?\d+$/.test(text) ? text : JSON.stringify(text));
  const words = [JSON.stringify(config ? "config.json" : model),
    ...Object.entries(rest).map(([name, text]) => `${name}=${value(String(text))}`)];
  if (overrides) words.push(`overrides={${overrides.map((text) => text.split(/=(.*)/s).slice(0, 2).map((part) => JSON.stringify(part)).join(": ")).join(", ")}}`);
  return `import podsim\n\nprediction = podsim.${verb}(${words.join(", ")})\nprint(prediction.step_time)\n`;
}
