// The state of the page is its address: #screen?name=value&…. A config.json travels in it too, compressed, up to 8 KB.

export const QUESTION = ["model", "on", "gpus", "batch", "sequence", "precision", "optimizer_precision", "software", "tokens",
  "price", "days", "set"];
export const LAYOUT = ["tp", "pp", "virtual_stages", "dp", "cp", "ep", "micro_batch", "sequence_parallel", "zero", "shard",
  "recompute", "recompute_layers", "schedule", "flash", "overlap_grad", "overlap_param", "overlap_tp"];
// What the screens show before anything is asked.
export const EXAMPLE = { model: "llama-3-8b", on: "dgx-h100", tokens: "1T", price: "2.5" };
const LONGEST = 8192;

export function readState() {
  const [screen, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
  const values = {};
  for (const [name, value] of new URLSearchParams(query)) values[name] = name in values ? `${values[name]}\n${value}` : value;
  return { screen: screen || "ask", values };
}

export function linkTo(screen, values) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined || value === null || value === "") continue;
    for (const line of String(value).split("\n")) query.append(name, line);
  }
  const text = query.toString();
  return `#${screen}${text ? `?${text}` : ""}`;
}

export const pick = (values, names) => Object.fromEntries(names.filter((name) => values[name] !== undefined).map((name) => [name,
  values[name]]));
export const hasLayout = (values) => values.tp !== undefined;

// The options of a question of the API, from the state.
export function optionsOf(values, names) {
  const options = pick(values, names.filter((name) => name !== "set"));
  if (values.set) options.overrides = values.set.split("\n");
  if (sent.id && values.config) options.model = sent.id;
  return options;
}

// Tokens and days find the fewest GPUs, where no number of GPUs is given.
export const jobOptions = (values) => optionsOf(values, QUESTION.filter((name) => !(values.days && !values.gpus ? ["price"]
  : ["tokens", "price", "days"]).includes(name)));
export const planOptions = (values) => optionsOf(values, [...QUESTION, ...LAYOUT].filter((name) => name !== "days"));

// The fields of a plan as an answer spells it, as state.
export function layoutOf(plan) {
  return Object.fromEntries(LAYOUT.filter((name) => name in plan).map((name) => [name, String(plan[name])]));
}

// The config that this page sent to the server: {key, id}.
export const sent = { key: "", id: "" };

async function through(stream, content) {
  const transformed = new Blob([content]).stream().pipeThrough(stream).getReader(), parts = [];
  let size = 0;
  for (;;) {
    const { done, value } = await transformed.read();
    if (done) break;
    size += value.length;
    if (size > 2 ** 20) { await transformed.cancel(); throw new Error("the config in this address is larger than 1 MB"); }
    parts.push(value);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

// A config as text for the address; "" if it is too long for it.
export async function packConfig(text) {
  const packed = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(text));
  const letters = btoa(String.fromCharCode(...packed.slice(0, LONGEST))).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/,
    "");
  return letters.length > LONGEST ? "" : letters;
}

export async function unpackConfig(letters) {
  const text = atob(letters.replaceAll("-", "+").replaceAll("_", "/"));
  const packed = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  return new TextDecoder("utf-8", { fatal: true }).decode(await through(new DecompressionStream("deflate-raw"), packed));
}
