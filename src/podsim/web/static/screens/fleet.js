// Fleet: a queue under several policies, more nodes, MIG layouts by drag, and the goodput of a long run.

import { choose, field, figure, h, number, say, select, table } from "../dom.js";
import { bytes, count, digits, percent, seconds } from "../format.js";
import { bars } from "../charts.js";
import { ask, description, sendFile, stream, Problems } from "../api.js";
import { pick, planOptions } from "../state.js";
import { Region } from "../region.js";

const POLICIES = ["fifo", "easy", "conservative", "sjf", "srtf", "las", "tiresias", "themis"];

export async function show(root, page) {
  const values = { jobs: "arrivals:2000", machine: "64x8", policies: "fifo,easy,sjf", gpu: "h100", ...page.values };
  const part = values.part || "queue";
  const body = h("div", {});
  root.append(h("h1", {}, "Fleet"), choose("Look at", [["queue", "Queue"], ["mig", "MIG"], ["goodput", "Goodput"]], part,
    (chosen) => { page.update({ part: chosen }, true); body.replaceChildren(); PARTS[chosen](body, values, page); }), body);
  await PARTS[part](body, values, page);
}

async function queue(root, values, page) {
  const region = new Region("The queue", { parent: page.signal });
  let sentFile = "";
  const input = (name, label, hint) => field(label, h("input",
    { value: values[name], onchange: (event) => { values[name] = event.target.value.trim(); sentFile = "";
      page.update({ [name]: values[name] }); } }), hint);
  const file = h("input", { type: "file", id: "jobs-file", accept: ".txt,.csv,.json,.sacct", onchange: async () => {
    try {
      if (file.files[0].size > 50 * 2 ** 20) throw new Problems([`${file.files[0].name}: larger than 50 MB`], 2);
      ({ file: sentFile } = await sendFile(file.files[0], file.files[0].name, "trace", page.signal));
      note.textContent = ` ${file.files[0].name} is taken.`;
    } catch (error) { note.textContent = ` ${error.message}`; }
  } });
  const note = h("span", { role: "status" });
  const run = () => region.run(async (signal, progress) => {
    const policy = values.policies.split(",").map((name) => name.trim()).filter(Boolean);
    const asked = { trace: sentFile || values.jobs, on: values.machine, policy };
    const answer = await stream("queue", asked, signal, progress);
    return drawQueue(answer, values, asked, page);
  });
  root.append(h("p", { class: "lead" },
    "How long do jobs wait under each policy, and would more nodes help?"),
    h("div", { class: "fields" }, input("jobs", "Jobs", "philly-1 to philly-4, kalos, arrivals:NUMBER"),
      input("machine", "Machine", "NODESxGPUS, or a cluster"), input("policies", "Policies", POLICIES.join(", "))),
    h("p", { class: "drop" }, h("label", { for: "jobs-file" }, "Or a file of sacct -P: "), file, note),
      h("div", { class: "row" }, h("button", { onclick: run }, "Simulate the queue")), region.element);
  await run();
}

function drawQueue(answer, values, asked, page) {
  const rows = answer.runs;
  const columns = [{ title: "policy", key: "policy" }, ...[["wait_mean", "mean wait"], ["wait_p99", "p99 wait"],
    ["jct_mean", "mean completion"], ["jct_p99", "p99 completion"],
      ["makespan", "all done after"]].map(([key, title]) => ({ title, key, format: seconds })),
    { title: "utilisation", key: "utilisation", format: percent }, { title: "preemptions", key: "preemptions", format: count }];
  const more = new Region("More nodes", { parent: page.signal });
  const grow = /^(\d+)x(\d+)$/.exec(asked.on);
  const time = columns[1];
  more.empty(grow ? h("button", { class: "quiet", onclick: () => more.run(async (signal, progress) => {
    const found = [];
    for (const add of [0, 1, 2, 4, 8, 16]) {
      const larger = await stream("queue", { ...asked, trace: sameJobs(asked.trace, answer, +grow[1] / (+grow[1] + add)),
        policy: [rows[0].policy], on: `${+grow[1] + add}x${grow[2]}` }, signal, progress);
      found.push({ add, ...larger.runs[0] });
    }
    return figure(`${time.title} under ${rows[0].policy}, by nodes added`,
      bars(found.map((row) => [`+${row.add} nodes`, row[time.key]]), { show: seconds, label: "Time by nodes added" }),
        [{ title: "nodes added", key: "add", format: String }, { title: time.title, key: time.key, format: seconds }], found);
  }) }, "What would 1 to 16 more nodes change?") : h("p", { class: "muted" },
    "Write the machine as NODESxGPUS to see what more nodes change."));
  return [h("p", { class: "headline" }, number(answer.jobs, count, "jobs"), ` jobs on ${answer.machine}.`),
    figure("Mean wait under each policy", bars(rows.map((row) => [row.policy, row[time.key]]),
      { show: seconds, label: time.title, key: time.key })),
        table([{ title: "policy", key: "policy" }, { title: "rule", key: "says" }, ...columns.slice(1)], rows,
          { caption: answer.source }),
    h("h2", {}, "More nodes"), more.element];
}

// A model of arrivals scales its jobs with the machine; the same jobs on a larger one are a smaller load.
function sameJobs(trace, { jobs }, share) {
  const [, words] = /^arrivals:(.*)$/.exec(trace) || [];
  if (words === undefined) return trace;
  const load = +(/load=([\d.]+)/.exec(words)?.[1] || 0.8);
  return `arrivals:jobs=${jobs},load=${(load * share).toPrecision(4)}`;
}

// MIG: profiles are dragged (or chosen by key) onto the slices of a GPU; only legal layouts can be made.
async function mig(root, values, page) {
  const region = new Region("MIG layouts", { parent: page.signal, keep: true });
  const picker = select(["a30", "a100-40gb", "a100-80gb", "h100", "h200"].map((name) => [name, name]), values.gpu,
    (gpu) => { values.gpu = gpu; values.instances = ""; page.update({ gpu, instances: "" }); draw(); });
  root.append(h("p", { class: "lead" },
    "Drag instances onto the GPU, or press their buttons. Only valid layouts are offered."),
      h("div", { class: "fields narrow" }, field("GPU", picker)), region.element);
  const draw = () => region.run(async (signal) => drawMig(await ask("mig", { gpu: values.gpu, partial: true }, signal), values,
    page, draw));
  await draw();
}

function drawMig(answer, values, page, again) {
  const { slicing, rows } = answer, slices = slicing.memory_slices;
  const layouts = rows.map(({ layout }) => layout.instances.map((each) => `${each.profile}@${each.start}`).sort());
  const current = (values.instances || "").split(",").filter(Boolean).sort();
  const isLegal = (wanted) => !wanted.length || layouts.some((keys) => keys.length === wanted.length &&
    wanted.every((key, place) => keys[place] === key));
  const offered = slicing.profiles.filter((profile) => layouts.some((keys) =>
    keys.some((key) => key.startsWith(`${profile.name}@`))));
  const sized = (key) => { const [name, start] = key.split("@");
    return { ...slicing.profiles.find((profile) => profile.name === name), start: +start, key }; };
  const put = (keys) => { values.instances = keys.sort().join(","); page.update({ instances: values.instances }); again(); };
  const startsFor = (profile) => profile.starts.filter((start) => isLegal([...current, `${profile.name}@${start}`].sort()));
  const add = (profile, start) => {
    const starts = startsFor(profile);
    const chosen = start === undefined ? starts[0] : starts.find((each) => each === start) ??
      starts.filter((each) => each <= start && start < each + profile.size)[0];
    if (chosen === undefined) return say(`${profile.name} does not fit there`);
    put([...current, `${profile.name}@${chosen}`]);
  };
  const board = h("div", { class: "slices", role: "list", "aria-label": `The ${slices} memory slices of ${answer.gpu}` });
  board.style.setProperty("--slices", slices);
  for (let slice = 0; slice < slices; slice++) {
    const cell = h("div", { class: "slice", ondragover: (event) => event.preventDefault(),
      ondrop: (event) => { event.preventDefault(); const profile = slicing.profiles.find(({ name }) =>
        name === event.dataTransfer.getData("text/plain")); if (profile) add(profile, slice); } }, String(slice));
    cell.style.gridColumn = slice + 1;
    board.append(cell);
  }
  for (const instance of current.map(sized)) {
    const block = h("button", { class: "instance", role: "listitem", title: "Remove",
      "aria-label": `${instance.name} at ${instance.start}: remove`,
        onclick: () => put(current.filter((key) => key !== instance.key)) }, instance.name);
    block.style.gridColumn = `${instance.start + 1} / span ${instance.size}`;
    board.append(block);
  }
  const full = current.map(sized);
  return [board, h("div", { class: "row", role: "group", "aria-label": "Instances" },
    offered.map((profile) => h("button", { class: "quiet", draggable: "true", disabled: startsFor(profile).length ? null : true,
    ondragstart: (event) => event.dataTransfer.setData("text/plain", profile.name), onclick: () => add(profile) },
      profile.name)), current.length ? h("button", { class: "quiet", onclick: () => put([]) }, "Clear") : null),
  current.length ? table([{ title: "instance", key: "name" }, { title: "at", key: "start", format: String },
    { title: "SMs", key: "sms", format: String }, { title: "memory", key: "memory", format: bytes },
      { title: "copy engines", key: "copy_engines", format: String }], full, { caption: "The layout" }) : h("p",
        { class: "muted" }, "The GPU is not divided yet."),
  current.length ? h("pre", { tabindex: "0" }, `podsim mig show ${values.gpu} ${current.map((key) => key).join(",")}`) : null,
  h("p", { class: "muted" }, number(answer.total, count, "total"), " valid layouts; ",
    number(answer.maximal, count, "maximal"), " of them are full.")];
}

async function goodput(root, values, page) {
  const region = new Region("The long run", { parent: page.signal });
  root.append(region.element);
  await region.run(async (signal) => {
    const { questions } = await description(signal);
    const known = questions.goodput.options.map((option) => option.name);
    const answer = await ask("goodput", pick(planOptions({ tokens: "1T", ...values }), known), signal);
    const parts = Object.entries(answer.losses).filter(([, value]) => value > 0);
    return [h("p", { class: "headline" }, "The run takes ", number(answer.expected, seconds, "expected"), "; ",
      number(answer.efficiency, percent, "efficiency"), " of it is training."),
      h("p", { class: "muted" }, "Of ", number(answer.runs, count, "runs"), " simulated runs, nine of ten take ",
        number(answer.seconds.low, seconds, "seconds.low"), " to ", number(answer.seconds.high, seconds, "seconds.high"), "."),
      h("dl", { class: "facts" }, [["Between failures", answer.mtbf, seconds], ["Restart", answer.restart, seconds],
        ["Between checkpoints", answer.interval, seconds], ["Steps", answer.steps, count], ["Step time", answer.step_time, seconds],
          ["Spare nodes", answer.spares, (value) => digits(value)]]
        .map(([title, value, format]) => h("div", {}, h("dt", {}, title), h("dd", {}, number(value, format, title))))),
      parts.length ? figure("Where the time goes", bars(parts, { show: seconds, label: "Parts of the run" }),
        [{ title: "part", key: 0 }, { title: "time", key: 1, format: seconds }], parts) : null];
  });
}

const PARTS = { queue, mig, goodput };
