// Charts as SVG in the page's colours. Each has its numbers in a table next to it (dom.figure).

import { h, s } from "./dom.js";

// The colours of all charts of podsim: Okabe and Ito's palette, which colour-blind readers can tell apart, and a violet.
export const PALETTE = ["var(--blue)", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6F5BD0"];

const tipBox = () => document.getElementById("chart-tip") ||
  document.body.appendChild(h("div", { id: "chart-tip", class: "tip", hidden: true }));

export function hover(element, text) {
  element.append(s("title", {}, text));
  element.addEventListener("pointermove", (event) => showTip(event, text));
  element.addEventListener("pointerleave", hideTip);
  return element;
}

export function showTip(event, text) {
  const box = tipBox();
  box.textContent = text;
  box.hidden = false;
  box.style.left = `${Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8)}px`;
  box.style.top = `${Math.min(event.clientY + 14, innerHeight - box.offsetHeight - 8)}px`;
}

export function hideTip() { tipBox().hidden = true; }

// One bar of parts; parts are [label, value, colour].
export function stack(parts, { show, total, height = 44, limit, label }) {
  const whole = total || parts.reduce((sum, [, value]) => sum + value, 0) || 1;
  const drawing = s("svg", { class: "stack", viewBox: `0 0 1000 ${height}`, preserveAspectRatio: "none", role: "img",
    "aria-label": label });
  let left = 0;
  for (const [name, value, colour] of parts) {
    if (value <= 0) continue;
    const width = (1000 * value) / whole;
    drawing.append(hover(s("rect", { x: left, y: 0, width: Math.max(width - 1.5, 0.5), height, fill: colour }),
      `${name}: ${show(value)} (${(100 * value / whole).toFixed(1)} %)`));
    left += width;
  }
  if (limit) {
    const x = (1000 * limit) / whole;
    drawing.append(hover(s("rect", { x: x - 1, y: 0, width: 3, height, class: "limit" }), `limit: ${show(limit)}`));
  }
  return drawing;
}

export function legend(parts, show) {
  return h("ul", { class: "legend" }, parts.filter(([, value]) => value > 0).map(([name, value, colour, key]) =>
    h("li", {}, h("i", { style: { background: colour } }), h("span", {}, name),
      h("data", { value, "data-name": key }, show(value)))));
}

const nice = (span, count) => {
  const raw = span / count, power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= raw * 0.999);
};

export function ticks(low, high, count = 5, log = false) {
  if (log && high >= 8 * low) {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
      for (const step of Math.log10(high / low) < 2 ? [1, 2, 5] : [1]) {
        const value = step * 10 ** power;
        if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
      }
    return found;
  }
  const step = nice(high - low || 1, count), found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-9;
    value += step) found.push(+value.toPrecision(12));
  return found;
}

// A frame with axes: gives {svg, layer, x(value), y(value)}.
export function frame({ x, y, width = innerWidth < 600 ? 400 : 760, height = 380, label }) {
  const left = 74, right = 16, top = 12, bottom = 46;
  const scale = (axis, from, to) => {
    const f = axis.log ? Math.log : (value) => value, [low, high] = [f(axis.low), f(axis.high)];
    return (value) => from + ((f(value) - low) / (high - low || 1)) * (to - from);
  };
  const px = scale(x, left, width - right), py = scale(y, height - bottom, top);
  const drawing = s("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const value of ticks(x.low, x.high, width < 500 ? 3 : 6, x.log)) drawing.append(
    s("line", { class: "grid", x1: px(value), x2: px(value), y1: top, y2: height - bottom }),
    s("text", { class: "tick", x: px(value), y: height - bottom + 16, "text-anchor": "middle" }, x.show(value)));
  for (const value of ticks(y.low, y.high, 5, y.log)) drawing.append(
    s("line", { class: "grid", x1: left, x2: width - right, y1: py(value), y2: py(value) }),
    s("text", { class: "tick", x: left - 8, y: py(value) + 4, "text-anchor": "end" }, y.show(value)));
  drawing.append(s("text", { class: "axis", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, x.title),
    s("text", { class: "axis", transform: `translate(14 ${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle" },
      y.title));
  const layer = s("g", {});
  drawing.append(layer);
  return { svg: drawing, layer, x: px, y: py, width, height };
}

// The range of values with a little room; a log range stays above 0.
export function range(values, { log = false, zero = false } = {}) {
  const known = values.filter((value) => Number.isFinite(value) && (!log || value > 0));
  if (!known.length) return { low: log ? 1 : 0, high: log ? 10 : 1, log };
  let low = known.reduce((a, b) => Math.min(a, b)), high = known.reduce((a, b) => Math.max(a, b));
  if (log) return { low: low / 1.08, high: high * 1.08, log };
  if (zero) low = Math.min(0, low);
  const room = (high - low || Math.abs(high) || 1) * 0.05;
  return { low: low - (zero && low === 0 ? 0 : room), high: high + room, log };
}

const DASHES = ["", "6 4", "2 3", "8 3 2 3"];

// Lines: series are {name, points: [[x, y], …]}; a point may be [x, y, low, high], and the band is tinted.
export function lines(series, { x, y, label, marks = true, height }) {
  const all = series.flatMap((each) => each.points);
  const plot = frame({ x: { ...x, ...range(all.map((point) => point[0]), x) },
    y: { ...y, ...range(all.flatMap((point) => point.slice(1)), y) }, label, height });
  series.forEach((each, place) => {
    const colour = PALETTE[place % PALETTE.length];
    const side = (at) => each.points.map((point) => `${plot.x(point[0])} ${plot.y(point[at])}`);
    if (each.points[0]?.length > 2) plot.layer.append(s("polygon", { points: [...side(2), ...side(3).reverse()].join(" "), fill: colour,
      "fill-opacity": 0.15 }));
    const path = each.points.map(([a, b], at) => `${at ? "L" : "M"}${plot.x(a).toFixed(1)} ${plot.y(b).toFixed(1)}`).join("");
    plot.layer.append(s("path", { d: path, class: "line", stroke: colour, "stroke-dasharray": DASHES[place % DASHES.length] }));
    if (marks) for (const [a, b] of each.points)
      plot.layer.append(hover(s("circle", { cx: plot.x(a), cy: plot.y(b), r: 4, fill: colour, class: "point" }),
        `${each.name}\n${x.title}: ${x.show(a)}\n${y.title}: ${y.show(b)}`));
  });
  return h("div", {}, plot.svg, series.length > 1 ? h("ul", { class: "legend" }, series.map((each, place) =>
    h("li", {}, h("i", { style: { background: PALETTE[place % PALETTE.length] } }), h("span", {}, each.name)))) : null);
}

// Horizontal bars: rows are [label, value].
export function bars(rows, { show, label, most, key }) {
  const high = most || Math.max(...rows.map(([, value]) => Math.abs(value)), 1e-12);
  return h("ul", { class: "bars", "aria-label": label }, rows.map(([name, value, detail]) => h("li", {},
    h("span", { class: "name" }, name),
    h("span", { class: "track" }, h("span", { class: "fill",
      style: { width: `${Math.max(0, Math.min(100, (100 * Math.abs(value)) / high))}%` } })),
    h("data", { value, "data-name": key ? `${key}.${name}` : null, title: detail }, show(value)))));
}
