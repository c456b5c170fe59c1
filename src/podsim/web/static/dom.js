// Elements without a framework. Text is always text: nothing here reads HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else if (name === "value" && "value" in element && element.tagName !== "DATA") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
export const s = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

let count = 0;
export const unique = (stem) => `${stem}-${++count}`;

export function say(text) {
  document.getElementById("live").textContent = text;
}

// A number of an answer: what is shown is rounded, `value` is the number of the JSON.
export const number = (value, format, name) =>
  h("data", { value: value ?? "", "data-name": name }, value === null || value === undefined ? "–" : format(value));

// A table; a column is {title, key or of(row), format, class}. With `sort`, titles are buttons.
export function table(columns, rows, { caption, sort, onrow, selected } = {}) {
  let order = sort ? { column: columns.find((column) => column.key === sort), up: true } : null;
  const cell = (column, row) => (column.of ? column.of(row) : row[column.key]);
  const body = h("tbody"), head = h("tr");
  function draw() {
    const sorted = order ? [...rows].sort((a, b) => {
      const [one, other] = [cell(order.column, a), cell(order.column, b)];
      return (order.up ? 1 : -1) * (one > other ? 1 : one < other ? -1 : 0);
    }) : rows;
    body.replaceChildren(...sorted.map((row) => h("tr",
      { class: selected?.(row) ? "selected" : null, "aria-selected": onrow ? String(Boolean(selected?.(row))) : null },
      columns.map((column, place) => {
        const value = cell(column, row);
        const shown = value instanceof Node ? value : column.format ? number(value, column.format) : String(value ?? "–");
        const kind = { class: column.format ? "n" : column.class };
        if (place === 0) return h("th", { scope: "row", ...kind, "data-title": column.title },
          onrow ? h("button", { class: "link", onclick: () => onrow(row) }, shown) : shown);
        return h("td", { ...kind, "data-title": column.title }, shown);
      }))));
    head.replaceChildren(...columns.map((column) => {
      const sorts = order && order.column === column ? (order.up ? "ascending" : "descending") : null;
      const turn = () => { order = { column, up: order.column === column ? !order.up : true }; draw(); };
      return h(column.title ? "th" : "td", { scope: column.title ? "col" : null, class: column.format ? "n" : column.class, "aria-sort": sorts },
        sort && column.title ? h("button", { class: "link", onclick: turn }, column.title,
          sorts ? (order.up ? " ↑" : " ↓") : "") : column.title);
    }));
  }
  draw();
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption || "Table" },
    h("table", { class: columns.length > 3 ? "stacked" : null }, caption ? h("caption", {}, caption) : null, h("thead", {}, head), body));
}

// A command to type; lines break between words only.
export const terminal = (text) => h("pre", { tabindex: "0" },
  text.split(/(?<= )/).map((word) => h("span", { class: "wrap" }, word)));

// A chart with its data as a table below.
export function figure(caption, drawing, columns, rows) {
  return h("figure", {}, h("figcaption", {}, caption), drawing,
    columns ? h("details", {}, h("summary", {}, "Data as a table"),
      table(columns, rows, { caption: typeof caption === "string" ? caption : caption.textContent })) : null);
}

export function field(label, control, hint) {
  control.id ||= unique("field");
  const note = hint ? h("span", { class: "hint", id: `${control.id}-hint` }, hint) : null;
  if (note) control.setAttribute("aria-describedby", note.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, note);
}

export function select(choices, value, onchange) {
  return h("select", { onchange: (event) => onchange(event.target.value) },
    choices.map(([key, text]) => h("option", { value: key, selected: String(key) === String(value) }, text)));
}

// A slider with its value.
export function slider(label, { min, max, step = 1, value, show = String, oninput }) {
  const output = h("output", {}, show(value));
  const input = h("input", { type: "range", min, max, step, value, oninput: (event) => {
    output.textContent = show(+event.target.value);
    oninput(+event.target.value);
  } });
  input.value = value;
  return h("div", { class: "field slider" }, h("label", { for: (input.id = unique("slider")) }, label, " ", output), input);
}

export function choose(label, choices, value, onchange) {
  const name = unique("choice");
  return h("fieldset", { class: "choose" }, h("legend", {}, label), h("div", { class: "segments" }, choices.map(([key, text]) => {
    const input = h("input", { type: "radio", name, value: key, id: unique(name), onchange: () => onchange(key) });
    input.checked = String(key) === String(value);
    return [input, h("label", { for: input.id }, text)];
  })));
}

export function copyButton(label, text) {
  return h("button", { class: "quiet", onclick: async (event) => {
    const button = event.currentTarget;
    const value = typeof text === "function" ? await text() : text;
    try { await navigator.clipboard.writeText(value); } catch { fallbackCopy(value); }
    button.classList.add("done");
    say(`${label}: copied`);
    setTimeout(() => button.classList.remove("done"), 1500);
  } }, label);
}

function fallbackCopy(value) {
  const area = h("textarea", { class: "hidden", value });
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

export function download(name, content, type = "text/plain") {
  const link = h("a", { href: URL.createObjectURL(new Blob([content], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
