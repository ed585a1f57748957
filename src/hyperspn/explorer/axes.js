// Axes: on which scale a histogram is drawn, where its bins end, and what stands below.

import { rangeLabel, snap } from "./distributions.js";
import { LENGTHS } from "./values.js";

const BINS = 30, HEAVY = 25, FITTING = 36, CHARACTER = 0.027, FEW_DAYS = 3; // characters below an axis, and how much of it one takes

/** The axis of a column of numbers: bins of equal width, on a linear scale, or where tails are long on that of asinh. */
export function axisOf(column) {
  const { scale } = column, finite = scale.points, knots = scale.knots;
  const low = Math.min(knots[0], ...finite), high = Math.max(knots.at(-1), ...finite);
  const spread = knots[Math.floor(knots.length * 0.75)] - knots[Math.floor(knots.length * 0.25)];
  const isLong = column.kind !== "date" && high - low > HEAVY * spread && spread > 0;
  const unit = Math.max(spread / 2, scale.width);
  const to = isLong ? (x) => Math.asinh((x - Math.max(low, 0)) / unit) : (x) => x;
  const edges = isLong ? longEdges(scale, to, low, high, unit) : linearEdges(scale, low, high);
  const [from, until] = [to(edges[0]), to(edges.at(-1))];
  const place = (x) => Math.min(Math.max((to(x) - from) / (until - from || 1), 0), 1);
  const bins = edges.slice(1).map((edge, i) => {
    const ends = [i === 0 ? -Infinity : edges[i], i === edges.length - 2 ? Infinity : edge];
    return { ends, left: place(edges[i]), right: place(edge), label: rangeLabel(column, ...ends), known: { intervals: [ends] } };
  });
  return { bins, place, ticks: ticksOf(column, edges, place, isLong) };
}

function linearEdges(scale, low, high) {
  const { width } = scale, range = Math.max(high - low, width, 1e-9 * Math.abs(high), 1e-300);
  const step = width ? width * Math.max(1, niceStep(range / width / BINS, true)) : range / BINS;
  const start = width ? Math.floor((low + width / 2) / step) * step - width / 2 : low, edges = [start];
  while (edges.at(-1) < high) edges.push(start + edges.length * step);
  return edges.length > 1 ? edges : [start, start + step];
}

function longEdges(scale, to, low, high, unit) {
  const [from, until] = [to(low), to(high)], start = Math.max(low, 0);
  const raw = Array.from({ length: BINS + 1 }, (_, i) => start + unit * Math.sinh(from + ((until - from) * i) / BINS));
  raw[0] = low - scale.width / 2;
  raw[BINS] = high + scale.width / 2;
  return [...new Set(raw.map((x) => snap(scale, x)))].sort((a, b) => a - b);
}

/** The least of 1, 2, 5, 10, 20, ... that is not below. */
function niceStep(x, isWhole = false) {
  const power = 10 ** Math.floor(Math.log10(Math.max(x, 1e-300)));
  const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= x * (1 - 1e-9)) * power;
  return isWhole ? Math.ceil(step) : step;
}

/** Numbers to write below the axis, and where. */
function ticksOf(column, edges, place, isLong) {
  const low = edges[0], high = edges.at(-1);
  if (column.kind === "date") {
    const isDays = (high - low) * LENGTHS[column.description.unit] > FEW_DAYS * LENGTHS.day;
    const write = (x) => (isDays ? column.write(x).replace(/[T ]\d{1,2}:.*$/, "") : column.write(x));
    const count = Math.min(Math.max(Math.floor(FITTING / write(low).length), 2), 4);
    const dates = Array.from({ length: count }, (_, i) => Math.round(low + (i / (count - 1)) * (high - low)));
    return dates.map((x) => tick(place(x), write(x)));
  }
  const candidates = isLong ? longTicks(low, high) : linearTicks(low, high);
  return candidates.map((x) => tick(place(x), short(x))).reduce((shown, next) => (shown.some((other) => overlap(other, next)) ? shown : [...shown, next]), []);
}

/** A label, in the middle below its place, or beside it at the end of the axis. */
function tick(at, text) {
  const reach = (CHARACTER * text.length) / 4; // half of it may stand out
  return { at, text, side: at < reach ? "first" : at > 1 - reach ? "last" : null };
}

function overlap(...ticks) {
  const [[, firstEnd], [secondStart]] = ticks.map(({ at, text, side }) => {
    const size = CHARACTER * text.length, start = side === "first" ? at : at - (side === "last" ? size : size / 2);
    return [start, start + size + CHARACTER];
  }).sort((a, b) => a[0] - b[0]);
  return secondStart < firstEnd;
}

function linearTicks(low, high) {
  const step = niceStep((high - low) / 6), first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => (first + i) * step);
}

function longTicks(low, high) {
  const powers = Array.from({ length: 12 }, (_, i) => 10 ** (i - 1));
  return [0, ...powers, ...powers.map((power) => -power)].filter((x) => x >= low && x <= high).sort((a, b) => Math.abs(b) - Math.abs(a));
}

/** A number in a few characters: 12k, 3.5M. */
function short(x) {
  const size = Math.abs(x);
  const [unit, letter] = size >= 1e9 ? [1e9, "G"] : size >= 1e6 ? [1e6, "M"] : size >= 1e4 ? [1e3, "k"] : [1, ""];
  return `${Number((x / unit).toPrecision(4))}${letter}`;
}
