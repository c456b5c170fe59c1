"use strict";
const described = JSON.parse(document.getElementById("described").textContent);
const canvas = document.getElementById("spans"), chart = document.getElementById("chart"), tip = document.getElementById("tip");
const pen = canvas.getContext("2d");
const AXIS = 26, BAR = 22, PAD = 3;
let LEFT = 280, LABEL = 0, ROW = BAR, PANEL = 56; // a narrow page has its labels above the bars
const data = {};
const rows = described.rows, kinds = described.kinds;
let low = 0, high = 1, least = 0, most = 1; // what is shown, and all there is, s
let needle = null, scroll = 0, only = null, pointer = null, drag = null, queued = false;

async function unpack() {
  const text = atob(document.getElementById("packed").textContent);
  const bytes = Uint8Array.from(text, (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  for (const [name, [type, at, length]] of Object.entries(described.arrays))
    data[name] = new globalThis[type](buffer, at, length);
}

function quantity(value, unit, digits = 5) {
  if (!value) return `0 ${unit}`;
  const big = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "u"], [1e-9, "n"]];
  const found = big.find(([size]) => Math.abs(value) >= size * 0.9999995) || big[big.length - 1];
  const long = unit === "s" && [[86400, "d"], [3600, "h"], [60, "min"]].find(([size]) => Math.abs(value) >= 3 * size);
  if (long) return `${+(value / long[0]).toPrecision(digits)} ${long[1]}`;
  if (unit === "1" || unit === "") return String(+value.toPrecision(6));
  return `${+(value / found[0]).toPrecision(digits)} ${found[1]}${unit}`;
}

const width = () => canvas.clientWidth, height = () => canvas.clientHeight;
const xOf = (time) => LEFT + ((time - low) / (high - low)) * (width() - LEFT);
const timeOf = (x) => low + ((x - LEFT) / (width() - LEFT)) * (high - low);
const margin = () => (LEFT ? 10 : 2);
const panels = () => described.counters.length * PANEL;
const tall = () => rows.length * ROW + panels();
const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// first span of a row that ends after a time; spans of a row follow each other
function search(row, time) {
  let a = data.first[row], b = data.first[row + 1];
  while (a < b) {
    const mid = (a + b) >> 1;
    if (data.end[mid] <= time) a = mid + 1; else b = mid;
  }
  return a;
}

const mix = kinds.map((kind) => [1, 3, 5].map((at) => parseInt(kind.colour.slice(at, at + 2), 16)));

// spans narrower than two pixels: a strip of one pixel's height, its colours mixed by cover and its alpha all of the cover
const strip = document.createElement("canvas"), brush = strip.getContext("2d");
let red = new Float32Array(0), green = red, blue = red, sum = red;

function paintStrip(wide, top) {
  if (strip.width !== wide) { strip.width = wide; strip.height = 1; }
  const image = brush.createImageData(wide, 1), pixels = image.data;
  for (let at = 0; at < wide; at++) {
    const all = sum[at];
    if (all <= 0) continue;
    pixels[4 * at] = red[at] / all; pixels[4 * at + 1] = green[at] / all; pixels[4 * at + 2] = blue[at] / all;
    pixels[4 * at + 3] = 255 * Math.min(1, all);
  }
  brush.putImageData(image, 0, 0);
  pen.drawImage(strip, 0, 0, wide, 1, LEFT, top + PAD, wide, BAR - 2 * PAD);
}

function drawRow(row, top, tint) {
  const end = data.first[row + 1], wide = Math.ceil(width() - LEFT), scale = (width() - LEFT) / (high - low);
  pen.fillStyle = tint;
  pen.fillRect(LEFT, top + 1, wide, BAR - 2);
  if (sum.length !== wide) [red, green, blue, sum] = [0, 0, 0, 0].map(() => new Float32Array(wide));
  for (const one of [red, green, blue, sum]) one.fill(0);
  const broad = [];
  let any = false;
  for (let span = search(row, low); span < end && data.start[span] < high; span++) {
    const kind = data.kind[span];
    if ((only !== null && kind !== only) || (needle && !needle[data.name[span]])) continue;
    const from = Math.max(0, (data.start[span] - low) * scale), to = Math.min(wide, (data.end[span] - low) * scale);
    if (to - from >= 2) { broad.push(span, from, to); continue; }
    const paint = mix[kind];
    for (let at = Math.floor(from); at < to && at < wide; at++) {
      const share = Math.min(to, at + 1) - Math.max(from, at);
      red[at] += share * paint[0]; green[at] += share * paint[1]; blue[at] += share * paint[2]; sum[at] += share;
      any = true;
    }
  }
  if (any) paintStrip(wide, top);
  for (let k = 0; k < broad.length; k += 3) {
    const kind = data.kind[broad[k]], from = broad[k + 1], room = broad[k + 2] - from;
    pen.fillStyle = kinds[kind].colour;
    pen.fillRect(LEFT + from, top + PAD, room - (room > 5 ? 1 : 0), BAR - 2 * PAD);
    if (room > 14) write(broad[k], kind, LEFT + from, top, room);
  }
}

function write(span, kind, left, top, room) {
  const [red, green, blue] = mix[kind];
  const text = described.names[data.name[span]];
  const micro = data["argument micro_batch"] || data["argument micro-batch"];
  const said = micro && micro[span] >= 0 ? `${micro[span]} ${text}` : text;
  const fits = Math.floor((room - 6) / 6.2);
  const short = micro && micro[span] >= 0 && said.length > fits ? String(micro[span]) : said;
  if (short.length > fits && (fits < 4 || short !== said)) return;
  pen.fillStyle = 0.299 * red + 0.587 * green + 0.114 * blue < 153 ? "#fff" : "#1f2328";
  pen.fillText(short.slice(0, fits), left + 3, top + BAR / 2 + 4);
}

function drawAxis() {
  const room = Math.max(2, Math.floor((width() - LEFT) / 110)), base = [86400, 3600, 60].find((s) => high - low >= 3 * s) || 1;
  const raw = (high - low) / room / base, power = 10 ** Math.floor(Math.log10(raw));
  const step = base * [1, 2, 5, 10].map((k) => k * power).find((s) => s >= raw * 0.999999);
  pen.clearRect(0, 0, width(), AXIS);
  pen.fillStyle = pen.strokeStyle = colourOf("--muted");
  const digits = Math.max(5, Math.ceil(Math.log10(high / step)) + 2);
  for (let k = Math.ceil(low / step); k * step <= high; k++) {
    const x = xOf(k * step);
    pen.fillRect(x, AXIS - 5, 1, 5);
    const text = quantity(+(k * step).toPrecision(12), "s", Math.min(digits, 15));
    pen.fillText(text, Math.min(x + 3, width() - pen.measureText(text).width), AXIS - 10);
  }
}

function drawCounter(place, top) {
  const time = data[`counter ${place} time`], value = data[`counter ${place} value`], one = described.counters[place];
  let peak = 0;
  for (const v of value) if (v > peak) peak = v;
  const floor = top + PANEL - 6, scale = 40 / (peak || 1);
  pen.fillStyle = colourOf("--ink");
  pen.fillText(one.name.slice(0, 30), margin(), top + 18);
  pen.fillStyle = colourOf("--muted");
  pen.fillText(`${one.process.slice(0, 26)}, to ${quantity(peak, one.unit)}`.slice(0, 44), margin(), top + 34);
  pen.fillRect(LEFT, floor, width() - LEFT, 1);
  pen.strokeStyle = colourOf("--accent");
  pen.beginPath();
  let a = 0, b = time.length;
  while (a < b) { const mid = (a + b) >> 1; if (time[mid] <= low) a = mid + 1; else b = mid; }
  let column = -1, column_low = 0, column_high = 0;
  for (let k = Math.max(0, a - 1); k < time.length && time[k] < high; k++) {
    const x = Math.max(LEFT, xOf(time[k])), next = k + 1 < time.length ? Math.min(width(), xOf(time[k + 1])) : width();
    const y = floor - value[k] * scale, at = Math.floor(x);
    if (next - x < 1 && at === column) { // several changes in a pixel: their whole range
      column_low = Math.min(column_low, y); column_high = Math.max(column_high, y);
      pen.moveTo(x, column_low); pen.lineTo(x, column_high); pen.moveTo(next, y);
      continue;
    }
    if (k === Math.max(0, a - 1)) pen.moveTo(x, y); else pen.lineTo(x, y);
    pen.lineTo(next, y);
    column = at; column_low = column_high = y;
  }
  pen.stroke();
}

function draw() {
  queued = false;
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width() * ratio) || canvas.height !== Math.round(height() * ratio)) {
    canvas.width = Math.round(width() * ratio); canvas.height = Math.round(height() * ratio);
  }
  [LEFT, LABEL, PANEL] = width() < 560 ? [0, 18, 92] : [280, 0, 56];
  ROW = BAR + LABEL;
  chart.style.setProperty("--tall", `${tall() + AXIS + 6}px`);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width(), height());
  pen.font = "11px system-ui, sans-serif";
  scroll = Math.max(0, Math.min(scroll, tall() + AXIS - height()));
  const tint = colourOf("--tint"), ink = colourOf("--ink"), muted = colourOf("--muted");
  for (let row = Math.floor(scroll / ROW); row < rows.length; row++) {
    const top = AXIS + row * ROW - scroll;
    if (top > height()) break;
    drawRow(row, top + LABEL, tint);
    const first = row === 0 || rows[row].process !== rows[row - 1].process;
    pen.clearRect(0, top, LEFT, ROW);
    const base = top + (LABEL ? 13 : BAR / 2 + 4);
    if (first && row) { pen.fillStyle = colourOf("--line"); pen.fillRect(0, top, width(), 1); }
    if (first || (scroll > 0 && row === Math.ceil(scroll / ROW))) {
      pen.fillStyle = ink;
      pen.font = "600 11px system-ui, sans-serif";
      pen.fillText(rows[row].process.slice(0, 26), margin(), base);
      pen.font = "11px system-ui, sans-serif";
    }
    pen.fillStyle = muted;
    pen.textAlign = "right";
    pen.fillText(rows[row].name.slice(0, 20), (LEFT || width()) - 8, base);
    pen.textAlign = "left";
  }
  for (let place = 0; place * PANEL < panels(); place++) {
    const top = AXIS + rows.length * ROW + place * PANEL - scroll;
    if (top > -PANEL && top < height()) drawCounter(place, top);
  }
  drawAxis();
}

function redraw() { if (!queued) { queued = true; requestAnimationFrame(draw); } }

function zoom(factor, x) {
  const at = timeOf(Math.max(LEFT, x)), span = Math.max((most - least) * 1e-9, Math.min(most - least, (high - low) * factor));
  const share = (at - low) / (high - low);
  low = Math.max(least, Math.min(at - share * span, most - span));
  high = low + span;
  redraw();
}

function move(seconds) {
  const span = high - low;
  low = Math.max(least, Math.min(low + seconds, most - span));
  high = low + span;
  redraw();
}

function told(span, row) {
  const lines = [
    described.names[data.name[span]],
    `${kinds[data.kind[span]].name} · ${rows[row].process}, ${rows[row].name}`,
    `${quantity(data.end[span] - data.start[span], "s")} from ${quantity(data.start[span], "s")}`,
  ];
  for (const key of Object.keys(data)) {
    if (!key.startsWith("argument ")) continue;
    const name = key.slice(9), value = data[key][span];
    if (described.words[name]) { if (described.words[name][value]) lines.push(`${name}: ${described.words[name][value]}`); }
    else if (!Number.isNaN(value) && value !== -1) lines.push(`${name}: ${name === "bytes" ? quantity(value, "B") : value}`);
  }
  return lines;
}

function hover(event) {
  const x = event.offsetX, y = event.offsetY, row = Math.floor((y - AXIS + scroll) / ROW);
  tip.hidden = true;
  if (x < LEFT || y < AXIS || row < 0 || row >= rows.length) return;
  const pixel = (high - low) / (width() - LEFT), from = timeOf(x) - pixel / 2, to = from + pixel;
  const found = [];
  let count = 0;
  for (let span = search(row, from); span < data.first[row + 1] && data.start[span] < to; span++) {
    if ((only !== null && data.kind[span] !== only) || (needle && !needle[data.name[span]])) continue;
    if (!found.length) found.push(...told(span, row));
    if (++count > 9999) break;
  }
  if (!count) return;
  if (count > 1) found.push(`and ${(count - 1).toLocaleString("en")} more in this pixel`);
  tip.textContent = found.join("\n");
  tip.hidden = false;
  tip.style.left = `${Math.min(x + 14, width() - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(y + 14, height() - tip.offsetHeight - 8)}px`;
}

function listen() {
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (event.shiftKey) { scroll += event.deltaY || event.deltaX; redraw(); }
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move((event.deltaX / (width() - LEFT)) * (high - low));
    else zoom(1.0015 ** event.deltaY, event.offsetX);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, y: event.clientY };
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("moving");
  });
  canvas.addEventListener("pointermove", (event) => {
    pointer = event;
    if (!drag) return hover(event);
    tip.hidden = true;
    scroll += drag.y - event.clientY;
    move(((drag.x - event.clientX) / (width() - LEFT)) * (high - low));
    drag = { x: event.clientX, y: event.clientY };
  });
  canvas.addEventListener("pointerup", () => { drag = null; canvas.classList.remove("moving"); });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("dblclick", () => { low = least; high = most; redraw(); });
  const find = document.getElementById("find"); // a page that has this field searches with it
  if (find) find.addEventListener("input", () => {
    const text = find.value.trim().toLowerCase();
    needle = text ? described.names.map((name) => name.toLowerCase().includes(text)) : null;
    redraw();
  });
  document.addEventListener("keydown", (event) => {
    if (!canvas.isConnected || (find && document.activeElement !== canvas)) return;
    const x = pointer ? pointer.offsetX : (width() + LEFT) / 2, span = high - low;
    const does = {
      w: () => zoom(0.8, x), s: () => zoom(1.25, x), a: () => move(-span / 6), d: () => move(span / 6),
      ArrowLeft: () => move(-span / 6), ArrowRight: () => move(span / 6), "0": () => { low = least; high = most; redraw(); },
      ArrowUp: () => { scroll -= 3 * ROW; redraw(); }, ArrowDown: () => { scroll += 3 * ROW; redraw(); },
    }[event.key];
    if (does && !event.ctrlKey && !event.metaKey) { event.preventDefault(); does(); }
  });
  new ResizeObserver(redraw).observe(chart);
}

function legend() {
  const box = document.getElementById("kinds"), all = described.busy.reduce((sum, s) => sum + s, 0);
  const order = kinds.map((_, place) => place).filter((place) => described.busy[place] > 0);
  order.sort((a, b) => described.busy[b] - described.busy[a]);
  for (const place of order) {
    const button = document.createElement("button"), mark = document.createElement("i");
    mark.style.background = kinds[place].colour;
    button.append(mark, `${kinds[place].name} ${((100 * described.busy[place]) / all).toFixed(1)} %`);
    button.title = `${quantity(described.busy[place], "s")} on all lanes`;
    button.addEventListener("click", () => {
      only = only === place ? null : place;
      for (const [at, other] of [...box.children].entries()) other.classList.toggle("off", only !== null && order[at] !== only);
      redraw();
    });
    box.append(button);
  }
}

unpack().then(() => {
  most = 0;
  least = Infinity;
  for (let row = 0; row < rows.length; row++) {
    if (data.first[row] === data.first[row + 1]) continue;
    least = Math.min(least, data.start[data.first[row]]);
    most = Math.max(most, data.end[data.first[row + 1] - 1]);
  }
  if (!(most > least)) most = least + 1e-9;
  low = least;
  high = most;
  legend();
  listen();
  draw();
  document.body.dataset.ready = "yes";
});
