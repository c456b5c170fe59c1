// Learn: all-reduce moved chunk by chunk, pipeline schedules with sliders, worked questions; a formula next to each picture, its command below.

import { choose, field, figure, h, number, s, select, slider, table, terminal } from "../dom.js";
import { bytes, count, digits, percent, rate, seconds } from "../format.js";
import { hover, PALETTE } from "../charts.js";
import { ask } from "../api.js";
import { Region } from "../region.js";

const FORMULAS = {
  ring: ["T = 2 (n − 1) / n · S / B",
    "n ranks, S bytes, B bytes per second. Each rank sends 1/n of the data 2 (n − 1) times: the best a rank can do, but with as many steps as ranks."],
  "double tree": ["T ≈ 2 S / B + 2 log₂ n · α", "Two trees, each for half of the data. Few steps, so small messages like it."],
  hierarchical: ["T = T(inside) + T(between) + T(inside)",
    "Add up within a server, then between servers, then spread within a server."],
  partitioned: ["T = 2 (n − 1) / n · S / B, with n − 1 senders at once",
    "A parameter server on every rank: each owns a part, gets it from all, and sends the sum to all."],
  "parameter server": ["T = 2 n · S / B(server)",
    "All send to one server, and get the sum from it: its link carries everything."],
  "in-network": ["T = S / B", "Switches add up (SHARP): a rank sends its data once, and gets the sum once."],
};
const WORK = { forward: 0, backward: 1, input: 1, weight: 4 };

export async function show(root, page) {
  const values = { algorithm: "ring", n: "8", kind: "1f1b", p: "4", m: "8", v: "1", ...page.values };
  const rounds = new Region("An all-reduce", { parent: page.signal, keep: true });
  const schedule = new Region("A pipeline schedule", { parent: page.signal, keep: true });
  const worked = new Region("Worked questions", { parent: page.signal });
  const set = (changes, again) => { Object.assign(values, changes); page.update(changes); again(); };
  const drawRounds = () => rounds.run(async (signal) => {
    const answer = await ask("rounds", { algorithm: values.algorithm, ranks: +values.n }, signal);
    if (picker.options.length < 2) picker.append(...answer.algorithms.filter((name) => name !== values.algorithm).map((name) =>
      h("option", { value: name }, name)));
    return animation(answer, page.signal);
  });
  const drawSchedule = () => schedule.run(async (signal) => {
    const answer = await ask("schedule", { name: values.kind, pp: +values.p, micro_batches: +values.m,
      ...(+values.v > 1 ? { virtual_stages: +values.v } : {}) }, signal);
    return pipeline(answer, values);
  });
  const picker = select([[values.algorithm, values.algorithm]], values.algorithm, (algorithm) => set({ algorithm }, drawRounds));
  root.append(h("h1", {}, "Learn"), h("p", { class: "lead" },
    "The animations come from the tables that podsim costs."),
    h("h2", {}, "All-reduce, chunk by chunk"), h("div", { class: "split" },
      h("div", { class: "controls" }, field("Algorithm", picker),
      slider("Ranks", { min: 2, max: 16, value: +values.n, oninput: (n) => set({ n: String(n) }, drawRounds) })), rounds.element),
    h("h2", {}, "Pipeline schedules"), h("div", { class: "split" }, h("div", { class: "controls" },
      choose("Schedule", [["gpipe", "GPipe"], ["1f1b", "1F1B"], ["interleaved", "interleaved"], ["zb-h1", "ZB-H1"],
        ["zb-v", "ZB-V"], ["dualpipe", "DualPipe"]], values.kind, (kind) =>
        set({ kind, v: kind === "interleaved" ? "2" : "1" }, drawSchedule)),
      slider("Pipeline ranks p", { min: 2, max: 12, value: +values.p, oninput: (p) => set({ p: String(p) }, drawSchedule) }),
      slider("Micro-batches m", { min: 2, max: 48, value: +values.m, oninput: (m) => set({ m: String(m) }, drawSchedule) }),
      slider("Chunks per rank v", { min: 1, max: 4, value: +values.v, oninput: (v) => set({ v: String(v) }, drawSchedule) })),
        schedule.element),
    h("h2", {}, "Worked questions"), worked.element);
  await Promise.all([drawRounds(), drawSchedule(), worked.run(workedQuestions)]);
}

// Ranks on a circle, each with its chunks; a chunk fills as more ranks' data are in it.
function animation(answer, signal) {
  const { ranks, switches, chunks, rounds } = answer, nodes = ranks + switches, size = 460, middle = size / 2, far = middle - 62;
  const drawing = s("svg", { class: "ring", viewBox: `0 0 ${size} ${size}`, role: "img",
    "aria-label": `${answer.algorithm} all-reduce on ${ranks} ranks` });
  const at = (node) => (node < ranks ? [middle + far * Math.sin((2 * Math.PI * node) / ranks),
    middle - far * Math.cos((2 * Math.PI * node) / ranks)]
    : [middle + (switches > 1 ? 60 * Math.sin((2 * Math.PI * (node - ranks)) / switches) : 0),
      middle - (switches > 1 ? 60 * Math.cos((2 * Math.PI * (node - ranks)) / switches) : 0)]);
  const width = Math.min(7, 58 / chunks), arrows = s("g", {}), bars = [];
  for (let node = 0; node < nodes; node++) {
    const [x, y] = at(node);
    drawing.append(s("circle", { cx: x, cy: y, r: 36, class: node < ranks ? "rank" : "rank switch" }),
      s("text", { x, y: y - 17, "text-anchor": "middle", class: "tick" }, node < ranks ? String(node) : "switch"));
    bars.push(Array.from({ length: chunks }, (_, chunk) => drawing.appendChild(s("rect",
      { x: x - (width * chunks) / 2 + chunk * width, width: Math.max(width - 1, 0.8), y: y + 18, height: 0,
        fill: PALETTE[chunk % 6] }))));
  }
  drawing.append(arrows);
  // who is in which chunk: a set of ranks as bits
  const states = [Array.from({ length: nodes }, (_, node) => Array(chunks).fill(node < ranks ? 1 << node : 0))];
  for (const round of rounds) {
    const before = states.at(-1), after = before.map((row) => [...row]);
    for (const [source, to, first, many, adds] of round) for (let chunk = first; chunk < first + many; chunk++)
      after[to][chunk] = adds ? after[to][chunk] | before[source][chunk] : before[source][chunk];
    states.push(after);
  }
  const ones = (bits) => { let sum = 0; for (let rest = bits; rest; rest &= rest - 1) sum++; return sum; };
  const note = h("p", { class: "muted", "aria-live": "off" });
  let round = 0, playing = null;
  const draw = () => {
    for (let node = 0; node < nodes; node++) for (let chunk = 0; chunk < chunks; chunk++) {
      const high = (30 * ones(states[round][node][chunk])) / ranks, bar = bars[node][chunk];
      bar.setAttribute("height", high);
      bar.setAttribute("y", at(node)[1] + 22 - high);
    }
    arrows.replaceChildren(...(round ? rounds[round - 1] : []).map(([source, to, chunk]) => {
      const [[x, y], [a, b]] = [at(source), at(to)], length = Math.hypot(a - x, b - y) || 1,
        [dx, dy] = [((a - x) / length) * 38, ((b - y) / length) * 38];
      return s("line", { x1: x + dx, y1: y + dy, x2: a - dx, y2: b - dy, stroke: PALETTE[chunk % 6], class: "arrow" });
    }));
    note.textContent = round ? `Round ${round} of ${rounds.length}: ${rounds[round - 1].length} transfers.` : `${rounds.length} rounds. A bar is a chunk; it is full when all ranks are in it.`;
    seek.value = round;
  };
  const stop = () => { clearInterval(playing); playing = null; play.textContent = "Play"; };
  const seek = h("input", { type: "range", min: 0, max: rounds.length, step: 1, "aria-label": "Round",
    oninput: () => { stop(); round = +seek.value; draw(); } });
  const play = h("button", { class: "quiet", onclick: () => {
    if (playing) return stop();
    if (round === rounds.length) round = 0;
    play.textContent = "Pause";
    playing = setInterval(() => { round++; draw(); if (round >= rounds.length) stop(); }, 650);
  } }, "Play");
  signal.addEventListener("abort", stop);
  draw();
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) play.click();
  const [formula, words] = FORMULAS[answer.algorithm] || [null, ""];
  return [drawing, h("div", { class: "row" }, play, h("div", { class: "seek" }, seek)), note,
    formula ? h("p", { class: "formula" }, formula) : null, h("p", {}, words),
    h("p", {}, "Here: ", number(answer.rounds.length, count, "rounds"), " rounds, ",
      number(answer.transfers, count, "transfers"), " transfers; the busiest rank sends ",
        number(answer.sent, (value) => digits(value), "sent"), " times the data. Ranks that send to one at once: ",
          number(answer.fan_in, count, "fan_in"), "."),
    terminal(`podsim collective all-reduce --on dgx-h100:4 --sizes 1G:1G:2 --algo ${answer.algorithm.includes(" ") ? `"${answer.algorithm}"` : answer.algorithm}`)];
}

function pipeline(answer, values) {
  const { ranks, actions, step_time: whole } = answer, high = 24, left = 44, wide = innerWidth < 600 ? 420 : 760;
  const drawing = s("svg", { class: "plot", viewBox: `0 0 ${wide} ${ranks * high + 6}`, role: "img",
    "aria-label": `${answer.schedule} on ${ranks} ranks` });
  const x = (time) => left + ((wide - left) * time) / whole;
  for (let rank = 0; rank < ranks; rank++) drawing.append(s("text", { class: "tick", x: 0, y: rank * high + 16 },
    `rank ${rank}`));
  for (const action of actions) {
    const width = x(action.end) - x(action.start) - 0.8;
    drawing.append(hover(s("rect", { x: x(action.start), y: action.rank * high + 2, width: Math.max(width, 0.5),
      height: high - 4, rx: 1.5, fill: PALETTE[WORK[action.work]], "fill-opacity": 1 - 0.3 * (action.chunk % 3) }),
      `${action.work} of micro-batch ${action.micro_batch}, stage ${action.stage}\n${digits(action.start)} to ${digits(action.end)}`));
    if (width > 14) drawing.append(s("text", { class: "in", x: x(action.start) + width / 2, y: action.rank * high + 16,
      "text-anchor": "middle" }, String(action.micro_batch)));
  }
  const rows = answer.idle.map((idle, rank) => ({ rank, idle, held: answer.activations[rank] }));
  return [figure(`${answer.source}`, [drawing, h("ul", { class: "legend" },
    [["forward", 0], ["backward or input gradient", 1], ["weight gradient", 4]].map(([name, colour]) => h("li", {},
      h("i", { style: { background: PALETTE[colour] } }), name)))],
    [{ title: "rank", key: "rank", format: String }, { title: "idle", key: "idle", format: digits },
      { title: "activations held (micro-batches)", key: "held", format: digits }], rows),
  h("p", { class: "formula" }, `bubble = ${answer.published}`),
    h("p", {}, "Bubble ratio ", number(answer.bubble, percent, "bubble"), "; rank 0 holds the activations of ",
      number(answer.activations[0], (value) => digits(value), "activations.0"),
        " micro-batches. F is a forward pass, B a backward pass: here 1 and 2."),
  terminal(`podsim schedule ${values.kind} --pp ${values.p} --micro-batches ${values.m}${+values.v > 1 ? ` --virtual-stages ${values.v}` : ""}`)];
}

// Questions of a course, each answered by a formula and by podsim.
async function workedQuestions(signal) {
  const sweep = (on) => ask("collective", { collective: "all-reduce", on, sizes: "1G:1G:2" }, signal);
  const [one, four, pipe] = await Promise.all([sweep("dgx-a100-80gb"), sweep("dgx-a100-80gb:4"),
    ask("schedule", { name: "1f1b", pp: 8, micro_batches: 32 }, signal)]);
  const row = (answer) => answer.rows[0];
  const ideal = (answer, bandwidth) => (2 * (answer.ranks - 1) / answer.ranks) * row(answer).size / bandwidth;
  const rows = [
    { asks: "All-reduce of 1 GiB in one DGX A100 (8 GPUs, 300 GB/s each way)", formula: "2 · 7/8 · S / B",
      hand: ideal(one, 300e9), podsim: row(one).seconds, show: seconds },
    { asks: "The same on four of them (32 GPUs, 200 GB/s per node)", formula: "2 · 31/32 · S / B", hand: ideal(four, 200e9),
      podsim: row(four).seconds, show: seconds },
    { asks: "Bus bandwidth of the first", formula: "2 (n − 1)/n · S / T", hand: 300e9, podsim: row(one).bus_bandwidth,
      show: rate },
    { asks: "Bubble ratio of 1F1B with p = 8, m = 32", formula: "(p − 1) / m", hand: 7 / 32, podsim: pipe.bubble, show: percent },
    { asks: "Adam's states of 7 G parameters in mixed precision", formula: "(2 + 2 + 4 + 4 + 4) B · P", hand: 16 * 7e9,
      podsim: null, show: bytes },
  ];
  return table([{ title: "question", key: "asks" }, { title: "by hand", key: "formula" },
    { title: "", of: (each) => number(each.hand, each.show), class: "n" },
      { title: "podsim", of: (each) => number(each.podsim, each.show), class: "n" }], rows,
        { caption: "By hand: no latency. podsim: what NCCL would do." });
}
