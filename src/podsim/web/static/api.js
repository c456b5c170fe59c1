// Questions to the server: at once, or as a stream of events that can be stopped.

import { sent, unpackConfig } from "./state.js";

export class Problems extends Error {
  constructor(lines, status, instead = {}) {
    super(lines.join("\n"));
    this.lines = lines;
    Object.assign(this, { status, instead });
  }
}

const LOST = ["the server does not answer: is `podsim web` still running?"];

async function post(path, body, signal, accept = "application/json") {
  try {
    return await fetch(path, { method: "POST", body, signal, headers: { accept, "content-type": "application/json" } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problems(LOST, 0);
  }
}

async function problemsOf(response) {
  try {
    const { problems, status, instead } = await response.json();
    return new Problems(problems, status, instead);
  } catch {
    return new Problems([`the server answers ${response.status}`], response.status);
  }
}

const kept = new Map();

// The answer to a quick question; the last ones are kept.
export async function ask(name, options = {}, signal) {
  const body = JSON.stringify(options), key = `${name} ${body}`;
  if (kept.has(key)) return kept.get(key);
  const response = await post(`/api/${name}`, body, signal);
  if (!response.ok) throw await problemsOf(response);
  return keep(key, await response.json());
}

function keep(key, answer) {
  if (kept.size > 60) kept.delete(kept.keys().next().value);
  kept.set(key, answer);
  return answer;
}

// The answer to a long question; `progress` gets (done, total).
export async function stream(name, options, signal, progress) {
  const body = JSON.stringify(options), key = `${name} ${body}`;
  if (kept.has(key)) return kept.get(key);
  const response = await post(`/api/${name}`, body, signal, "text/event-stream");
  if (!response.ok) throw await problemsOf(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Problems(LOST, 0);
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const [, kind, data] = event.match(/^event: (\w+)\ndata: (.*)$/s) || [];
      if (kind === "progress") progress?.(JSON.parse(data));
      if (kind === "problems") { const { problems, status, instead } = JSON.parse(data); throw new Problems(problems, status, instead); }
      if (kind === "answer") return keep(key, JSON.parse(data));
    }
  }
}

export async function sendFile(content, name, kind, signal) {
  const response = await post(`/api/files?${new URLSearchParams({ name, kind })}`, content, signal);
  if (!response.ok) throw await problemsOf(response);
  return response.json();
}

// Send the config of the address, if it is not on the server yet.
export async function ensureConfig(values, signal) {
  if (!values.config || sent.key === values.config) return;
  if (values.config === "file") throw new Problems(["this address names a config.json that was too large for it: choose the file again on Ask"], 2);
  let text;
  try { text = await unpackConfig(values.config);
    } catch { throw new Problems(["the config in this address cannot be read: choose the file again on Ask"], 2); }
  const { file } = await sendFile(text, `${values.model || "config"}.json`, "config", signal);
  Object.assign(sent, { key: values.config, id: file });
}

export async function description(signal) {
  const response = await fetch("/api", { signal });
  if (!response.ok) throw await problemsOf(response);
  return response.json();
}
