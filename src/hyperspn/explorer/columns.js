// Columns: what the values of the table mean to the circuit.

import { Hats, Normals } from "./banks.js";
import { logAdd } from "./normal.js";
import { pick } from "./circuit.js";
import { Scale, Standard } from "./scales.js";
import { readDate, readNumber, writeDate, writeNumber } from "./values.js";

const MISSING = [[Infinity, Infinity]];
const EVERYTHING = [[-Infinity, Infinity]];
export const OTHER = "(other)";

/** The column that `export.py` described, with the parameters of its leaf distributions. */
export function makeColumn(description, parameters) {
  return description.kind === "categorical" ? new Categories(description) : new Numbers(description, parameters);
}

/** A column with categories: what is known of it is a likelihood of each code. */
class Categories {
  constructor({ name, labels, numbers = null, pooled = [], shares = [], missing = false }) {
    Object.assign(this, { name, labels, numbers, pooled, shares, isNumeric: false, hasMissing: missing });
    this.known = labels.length - (pooled.length > 0) - missing; // codes of single values
    this.width = labels.length;
    this.total = shares.reduce((a, b) => a + b, 0);
  }

  /** An event as the circuit sees it: {weights, isProbability}. */
  read({ operator, parts }) {
    if (operator === "~") return { weights: this.likelihoods(parts), isProbability: false };
    if (/[<>]/.test(operator)) return { weights: this.comparison(operator, parts[0].value), isProbability: true };
    const weights = new Float64Array(this.width);
    for (const part of parts) this.alternative(part).forEach((weight, code) => (weights[code] += weight));
    weights.forEach((weight, code) => (weights[code] = Math.min(weight, 1)));
    if (operator === "!=") weights.forEach((weight, code) => (weights[code] = 1 - weight));
    if (operator === "!=" && this.hasMissing) weights[this.width - 1] = 0;
    return { weights, isProbability: true };
  }

  alternative({ value, low, high, missing }) {
    if (missing) return this.missing();
    return value === undefined ? this.range(low, high, [true, true]) : this.value(value);
  }

  missing() {
    if (!this.hasMissing) throw new Error(`${this.name} is not modeled with missing values`);
    return this.oneHot(this.width - 1, 1);
  }

  comparison(operator, limit) {
    const isClosed = operator.endsWith("=");
    return operator[0] === ">" ? this.range(limit, null, [isClosed, true]) : this.range(null, limit, [true, isClosed]);
  }

  value(text) {
    const code = this.labels.findIndex((label, at) => at < this.known && label === text);
    if (code >= 0) return this.oneHot(code, 1);
    const pooled = this.pooled.indexOf(text);
    if (pooled >= 0) return this.oneHot(this.known, this.shares[pooled] / this.total);
    if (text === OTHER && this.pooled.length) return this.oneHot(this.known, 1);
    const number = this.numbers && text.trim() !== "" ? this.numbers.indexOf(Number(text)) : -1;
    if (number >= 0) return this.oneHot(number, 1);
    throw new Error(`${this.name} has no value ${JSON.stringify(text)}`);
  }

  range(low, high, closed) {
    if (!this.numbers) throw new Error(`${this.name} has no order: write values with | between them`);
    const [from, to] = [low, high].map((limit) => (limit === null ? null : Number(limit)));
    if (Number.isNaN(from) || Number.isNaN(to)) throw new Error(`expected a number for ${this.name}`);
    const weights = new Float64Array(this.width);
    this.numbers.forEach((number, code) => {
      const above = from === null || (closed[0] ? number >= from : number > from);
      const below = to === null || (closed[1] ? number <= to : number < to);
      weights[code] = above && below ? 1 : 0;
    });
    return weights;
  }

  likelihoods(parts) {
    const weights = new Float64Array(this.width);
    for (const { value, likelihood } of parts) {
      this.value(value).forEach((weight, code) => (weights[code] += likelihood * weight));
    }
    if (!weights.some((weight) => weight > 0)) throw new Error("expected a likelihood > 0 of some category");
    return weights;
  }

  oneHot(code, weight) {
    const weights = new Float64Array(this.width);
    weights[code] = weight;
    return weights;
  }

  /** The event of one code, as text has it; what is pooled or missing as such. */
  part(code) {
    if (this.hasMissing && code === this.width - 1) return { missing: true };
    return { value: this.labels[code] };
  }

  logLikelihoods({ weights }) {
    return weights.map(Math.log);
  }

  both(first, second) {
    return { weights: first.weights.map((weight, code) => weight * second.weights[code]), isProbability: true };
  }

  /** Whether an encoded cell is as known; nothing is where it is unknown. */
  holds({ weights }, code) {
    return weights[code] > 0;
  }

  /** An encoded cell as text. */
  show(code) {
    return this.labels[code] ?? "";
  }

  draw(code, known, random) {
    if (this.hasMissing && code === this.width - 1) return "";
    return this.pooled.length && code === this.known ? this.pooled[pick(this.shares, random)] : this.labels[code];
  }
}

/** A column of numbers or dates: what is known of it is a value, or intervals. */
class Numbers {
  constructor(description, { means, stds }) {
    const { name, kind, scale, mean, std, hats = 0, decimals = null, missing = false } = description;
    Object.assign(this, { name, kind, decimals, hats, isNumeric: true, hasMissing: missing });
    this.description = description;
    this.scale = scale ? new Scale(scale) : new Standard(mean, std, decimals);
    this.points = [...this.scale.points, ...(missing ? [Infinity] : [])];
    this.bank = hats ? new Hats(hats) : new Normals(means, stds);
    this.members = this.bank.count;
    this.width = this.members + this.points.length;
  }

  /** A number as the table writes it. */
  write(x) {
    if (x === Infinity) return "missing";
    return this.kind === "date" ? writeDate(x, this.description)
      : writeNumber(this.scale.round(x), this.decimals, this.description.spelling);
  }

  parse(text) {
    const number = this.kind === "date" ? readDate(text, this.description) : readNumber(text, this.description.spelling);
    if (Number.isNaN(number)) throw new Error(`expected ${this.kind === "date" ? "a date" : "a number"}, found ${text}`);
    return number;
  }

  /** An event as the circuit sees it: {value} or {intervals}, half-open and disjoint, and whether it has a probability. */
  read({ operator, parts }) {
    if (operator === "~") throw new Error(`likelihoods are for categories: ${this.name} has numbers`);
    if (operator === "=" && parts.length === 1 && parts[0].value !== undefined && this.scale.width === 0) {
      const value = this.parse(parts[0].value);
      return { value, isProbability: this.scale.points.includes(value) };
    }
    if (/[<>]/.test(operator)) return { intervals: [this.comparison(operator, parts[0].value)], isProbability: true };
    const intervals = union(parts.map((part) => this.interval(part)));
    return { intervals: operator === "!=" ? complement(intervals) : intervals, isProbability: true };
  }

  interval({ value, low = value, high = value, missing }) {
    if (missing && !this.hasMissing) throw new Error(`${this.name} is not modeled with missing values`);
    if (missing) return MISSING[0];
    const start = low === null ? -Infinity : this.edge(low, true), end = high === null ? Infinity : this.edge(high, false);
    if (low !== null && high !== null && start >= end) throw new Error(`there is no value of ${this.name} in this range`);
    return [start, end];
  }

  comparison(operator, limit) {
    const isClosed = operator.endsWith("=");
    return operator[0] === ">" ? [this.edge(limit, isClosed), Infinity] : [-Infinity, this.edge(limit, !isClosed)];
  }

  /** The edge of recorded values just below a value, or just above it. */
  edge(text, below) {
    const number = this.parse(text), { width } = this.scale;
    if (width === 0) return below ? number : nextAfter(number);
    const steps = number / width, nearest = Math.round(steps);
    if (Math.abs(steps - nearest) > 1e-6) return (Math.floor(steps) + 0.5) * width;
    return (below ? nearest - 0.5 : nearest + 0.5) * width;
  }

  logLikelihoods({ value, intervals }) {
    return intervals ? this.logMasses(intervals) : this.logDensities(value);
  }

  /** The log-mass of intervals under each leaf distribution. */
  logMasses(intervals) {
    const logs = new Float64Array(this.width).fill(-Infinity);
    for (const [low, high] of intervals) {
      const from = this.scale.score(low), to = this.scale.score(high);
      for (let j = 0; j < this.members; j++) logs[j] = logAdd(logs[j], this.bank.logMass(j, from, to));
    }
    this.points.forEach((point, index) => {
      const inside = ([low, high]) => low <= point && (point < high || (point === low && point === Infinity));
      logs[this.members + index] = intervals.some(inside) ? 0 : -Infinity;
    });
    return logs;
  }

  logDensities(value) {
    const logs = new Float64Array(this.width).fill(-Infinity), point = this.points.indexOf(value);
    const slope = this.scale.logSlope(value), score = this.scale.score(value);
    if (point >= 0) logs[this.members + point] = 0;
    else if (slope > -Infinity) {
      for (let j = 0; j < this.members; j++) logs[j] = this.bank.logDensity(j, score) + slope;
    }
    return logs;
  }

  both(first, second) {
    if (!first.intervals || !second.intervals) return null;
    const pairs = first.intervals.flatMap(([low, high]) => second.intervals.map(([from, to]) =>
      [Math.max(low, from), Math.min(high, to)]));
    const kept = pairs.filter(([low, high]) => low < high || (low === high && low === Infinity));
    return { intervals: kept, isProbability: true };
  }

  holds({ value, intervals }, x) {
    if (!intervals) return x === value;
    return intervals.some(([low, high]) => (low <= x && x < high) || (low === Infinity && x === Infinity));
  }

  show(x) {
    return Number.isNaN(x) ? "" : this.write(x);
  }

  /** Draws a number from one of the leaf distributions, within intervals where these are known. */
  draw(member, known, random) {
    if (member >= this.members) return this.points[member - this.members] === Infinity ? "" : this.write(this.points[member - this.members]);
    if (known?.value !== undefined) return this.write(known.value);
    const ends = (known?.intervals ?? EVERYTHING).map((pair) => pair.map((x) => this.scale.score(x)));
    const logs = ends.map(([low, high]) => this.bank.logMass(member, low, high)), most = Math.max(...logs);
    const [low, high] = ends[pick(logs.map((log) => Math.exp(log - most)), random)];
    return this.write(this.scale.value(this.bank.quantile(member, low, high, random())));
  }
}

function union(intervals) {
  const merged = [];
  for (const [low, high] of [...intervals].sort((a, b) => (a[0] === b[0] ? 0 : a[0] - b[0]))) {
    if (merged.length && low <= merged.at(-1)[1] && low < Infinity) merged.at(-1)[1] = Math.max(merged.at(-1)[1], high);
    else merged.push([low, high]);
  }
  return merged;
}

function complement(intervals) {
  const edges = [-Infinity, ...union(intervals.filter(([low]) => low < Infinity)).flat(), Infinity];
  const pairs = edges.flatMap((edge, i) => (i % 2 ? [] : [[edge, edges[i + 1]]])).filter(([low, high]) => low < high);
  return pairs.length ? pairs : [[0, 0]];
}

/** The next number above in float64. */
function nextAfter(x) {
  if (x === 0) return Number.MIN_VALUE;
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, x);
  view.setBigInt64(0, view.getBigInt64(0) + (x > 0 ? 1n : -1n));
  return view.getFloat64(0);
}
