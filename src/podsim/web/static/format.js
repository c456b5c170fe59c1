// Numbers as people read them. Values are SI.

const PREFIXES = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];

export const digits = (value, count = 3) =>
  Number(value.toPrecision(count)).toLocaleString("en", { maximumSignificantDigits: count });

function prefixed(value, unit, count = 3) {
  if (!value) return `0 ${unit}`;
  const [size, prefix] = PREFIXES.find(([size]) => Math.abs(value) >= size * 0.99999) || PREFIXES.at(-1);
  return `${digits(value / size, count)} ${prefix}${unit}`.trim();
}

export function seconds(value) {
  if (Math.abs(value) >= 2 * 86400) return `${digits(value / 86400)} days`;
  if (Math.abs(value) >= 2 * 3600) return `${digits(value / 3600)} h`;
  if (Math.abs(value) >= 120) return `${digits(value / 60)} min`;
  return prefixed(value, "s");
}

export const bytes = (value) => prefixed(value, "B");
export const rate = (value) => prefixed(value, "B/s");
export const amount = (value) => prefixed(value, "");
export const count = (value) => Math.round(value).toLocaleString("en");
export const percent = (value) => `${digits(100 * value, Math.abs(value) < 0.0995 ? 2 : 3)} %`;
// A difference below a millionth of a percent is what is left of a subtraction.
export const signed = (value) => Math.abs(value) < 1e-8 ? "0 %"
  : `${value > 0 ? "+" : value < 0 ? "−" : ""}${percent(Math.abs(value))}`;
export const energy = (value) => (value >= 3.6e6 ? `${prefixed(value / 3600, "Wh")}` : prefixed(value, "J"));
export const mass = (value) => (value >= 1000 ? `${digits(value / 1000)} t` : `${digits(value)} kg`);

export function money(value) {
  if (Math.abs(value) >= 1e6) return `$${digits(value / 1e6)} M`;
  if (Math.abs(value) >= 1e4) return `$${digits(value / 1e3)} k`;
  return `$${digits(value, Math.abs(value) >= 100 ? 4 : 3)}`;
}

export const doublings = (value) => `${digits(value, 2)} doubling${digits(value, 2) === "1" ? "" : "s"}`;
