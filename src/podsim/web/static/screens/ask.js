// Ask: a model, a cluster, tokens, money; what is taken by default as chips.

import { field, h } from "../dom.js";
import { amount, bytes, count } from "../format.js";
import { ask, description, sendFile, Problems } from "../api.js";
import { jobOptions, packConfig, pick, sent, EXAMPLE, LAYOUT } from "../state.js";
import { Region } from "../region.js";

const LABELS = { gpus: "GPUs", sequence: "sequence", batch: "batch", precision: "precision", software: "software",
  optimizer_precision: "optimizer" };
const EXAMPLES = [
  ["Llama 3 8B on 8 H100", EXAMPLE],
  ["GPT-3 175B on a SuperPOD A100", { model: "gpt3-175b", on: "superpod-a100:2su", tokens: "300G", price: "1.5" }],
  ["Mixtral 8x7B on 64 B200", { model: "mixtral-8x7b", on: "dgx-b200:8", tokens: "1T", price: "4" }],
];

export async function show(root, page) {
  const values = { ...page.values };
  const defaults = new Region("What is taken by default", { parent: page.signal, keep: true });
  let timer;
  function change(changes) {
    Object.assign(values, changes);
    page.update({ ...Object.fromEntries(LAYOUT.map((name) => [name, ""])), ...changes });
    clearTimeout(timer);
    timer = setTimeout(refresh, 200);
  }

  const input = (name, attributes) => h("input", { ...attributes, name, value: values[name] || "", autocomplete: "off",
    spellcheck: "false",
    oninput: (event) => change(name === "model" ? { model: event.target.value.trim(),
      config: "" } : { [name]: event.target.value.trim() }) });
  const model = input("model", { list: "models", placeholder: "llama-3-8b", required: true });
  const cluster = input("on", { list: "clusters", placeholder: "dgx-h100:8", required: true });
  const lists = h("div", { hidden: true });
  const drop = dropArea(async (file) => {
    const text = await file.text();
    const { file: id, name } = await sendFile(text, file.name, "config", page.signal);
    const letters = (await packConfig(text)) || "file";
    Object.assign(sent, { key: letters, id });
    model.value = name.replace(/\.json$/, "");
    change({ model: model.value, config: letters });
  });
  const form = h("form", { onsubmit: (event) => {
    event.preventDefault();
    if (!form.reportValidity()) return;
    page.go("answer", pick(values, ["config", "model", "on", "gpus", "batch", "sequence", "precision", "optimizer_precision",
      "software", "tokens", "price", "days", "set"].filter((name) => values[name])));
  } },
  h("div", { class: "fields tight" },
    field("Model", model, "a catalog name"), field("Cluster or GPU", cluster, "h100, dgx-h100:8, selene"),
    field("Tokens to train", input("tokens", { placeholder: "1T" }), "for days and cost"),
    field("USD per GPU-hour", input("price", { placeholder: "2.50", inputmode: "decimal" }), "or a named price")),
  h("div", { class: "fields tight" }, slid("GPUs", input("gpus", { placeholder: "all", inputmode: "numeric" }), 14),
    slid("Sequences per step", input("batch", { placeholder: "by default", inputmode: "numeric" }), 14),
    slid("Maximum days (finds the fewest GPUs)", input("days", { placeholder: "any", inputmode: "decimal" }), 9)),
  drop, h("div", { class: "row" }, h("button", { type: "submit" }, "Find the best plan")));

  root.append(h("h1", {}, "What will it take to train?"),
    h("p", { class: "lead" }, "Name a model and a machine. podsim searches every legal plan and shows the step time, the cost and the error band."),
    form, lists,
    h("div", { class: "row" }, h("span", { class: "muted" }, "Or begin with"), EXAMPLES.map(([title, example]) =>
      h("button", { class: "quiet", onclick: () => page.go("ask", example) }, title))),
    defaults.element);

  async function refresh() {
    if (!values.model || !values.on) return defaults.empty(h("p", {},
      "Choose a model and a cluster to see the defaults."));
    await defaults.run(async (signal) => {
      const answer = await ask("defaults", jobOptions(values), signal);
      return [h("h2", {}, "Defaults"), summary(answer), chips(answer.values, values, change),
        await moreOptions(values, change)];
    });
  }
  await refresh();
  ask("names", {}, page.signal).then(({ models, clusters }) => lists.append(
    h("datalist", { id: "models" }, models.map((row) => h("option", { value: row.name },
      `${amount(row.parameters)} parameters`))),
    h("datalist", { id: "clusters" }, clusters.map((row) => h("option", { value: row.name },
      `${count(row.gpus)} × ${row.gpu}`))))).catch(() => {});
}

// A field with a slider over powers of two.
function slid(label, box, most) {
  const row = field(label, box);
  row.append(h("input", { type: "range", min: 0, max: most, value: Math.log2(box.value || 8), "aria-label": `${label}, by doubling`,
    oninput: (event) => { box.value = 2 ** event.target.value; box.dispatchEvent(new Event("input")); } }));
  return row;
}

const summary = ({ model, cluster }) => h("p", {}, h("strong", {}, model.name), ` has ${amount(model.parameters)} parameters`,
  model.active_parameters < model.parameters * 0.99 ? ` (${amount(model.active_parameters)} active)` : "",
    ` in ${model.layers} layers. `,
  h("strong", {}, cluster.name), ` has ${count(cluster.gpus)} × ${cluster.gpu} of ${bytes(cluster.memory)}.`);

// Each chip opens a field; an empty one takes the default again.
function chips(rows, values, change) {
  return h("div", { class: "chips" }, rows.map(({ name, value, given, origin }) => {
    const chip = h("button", { class: given ? "chip given" : "chip", type: "button", title: origin, onclick: () => {
      const box = h("input", { "aria-label": LABELS[name], value: values[name] || "", placeholder: String(value),
        onkeydown: (event) => {
        if (event.key === "Enter") { event.preventDefault(); change({ [name]: box.value.trim() }); }
        if (event.key === "Escape") box.replaceWith(chip);
      }, onblur: () => { if (box.value.trim() !== (values[name] || "")) change({ [name]: box.value.trim() });
        else box.replaceWith(chip); } });
      box.style.width = "9rem";
      chip.replaceWith(box);
      box.focus();
    } }, h("span", { class: "name" }, `${LABELS[name]} `), String(value), h("span", { class: "name" }, ` · ${short(origin)}`));
    return chip;
  }));
}

// What a default comes from; its source stands in the title.
const short = (text) => text.split(/ \(|: /)[0];

// Rarer options, as the API describes them.
async function moreOptions(values, change) {
  const { questions } = await description();
  const option = questions.plan.options.find(({ name }) => name === "overrides");
  return h("details", {}, h("summary", {}, "Override catalog values"), field(option.flag, h("textarea", { rows: 2, spellcheck: "false", value: values.set || "",
      placeholder: "network.bandwidth=100Gb/s",
      onchange: (event) => change({ set: event.target.value.trim() }) }), `${option.help} One per line.`));
}

function dropArea(take) {
  const note = h("span", { role: "status" });
  const read = async (file) => {
    try {
      note.textContent = "";
      if (file.size > 2 ** 20) throw new Problems([`${file.name}: larger than 1 MB`], 2);
      await take(file);
      note.textContent = ` ${file.name} is taken.`;
    } catch (error) {
      note.textContent = ` ${error.message}`;
    }
  };
  const input = h("input", { type: "file", id: "config-file", accept: ".json,application/json", onchange: () => input.files[0] &&
    read(input.files[0]) });
  const area = h("p", { class: "drop", ondragover: (event) => { event.preventDefault(); area.classList.add("over"); },
    ondragleave: () => area.classList.remove("over"),
    ondrop: (event) => { event.preventDefault(); area.classList.remove("over");
      if (event.dataTransfer.files[0]) read(event.dataTransfer.files[0]); } },
  h("label", { for: "config-file" }, "Or drop a config.json here: "), input, note);
  return area;
}
