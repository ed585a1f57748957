// Distributions: what a posterior of leaf distributions says of a column, in its own units.

import { inverseLogCdf } from "./normal.js";

const QUANTILE_BINS = 20, HALVINGS = 60, FARTHEST = 8;
const NEGLIGIBLE = 1e-14;

/** The values of a column, told apart for mutual information: codes, or quantile bins, point masses and "missing". */
export function piecesOf(column) {
  column.cachedPieces ??= column.isNumeric ? numericPieces(column) : Array.from(column.labels, (label, code) => ({
    label, part: column.part(code), known: { weights: column.oneHot(code, 1), isProbability: true },
  }));
  return column.cachedPieces;
}

function numericPieces(column) {
  const { scale } = column, cells = scale.points.map((point) => cellOf(scale, point));
  const levels = Array.from({ length: QUANTILE_BINS - 1 }, (_, i) => scale.value(inverseLogCdf(Math.log((i + 1) / QUANTILE_BINS))));
  const edges = [-Infinity, ...new Set(levels.map((x) => snap(scale, x))), Infinity];
  const bins = edges.slice(1).map((edge, i) => [edges[i], edge]).map((bin) => without(bin, cells)).filter((rest) => rest.length);
  const named = bins.map((intervals) => ({ label: rangeLabel(column, intervals[0][0], intervals.at(-1)[1]), known: { intervals, isProbability: true } }));
  const points = scale.points.map((point, i) => ({ label: column.write(point), known: { intervals: [cells[i]], isProbability: true } }));
  const missing = column.hasMissing ? [{ label: "missing", known: { intervals: [[Infinity, Infinity]], isProbability: true } }] : [];
  return [...named, ...points, ...missing];
}

/** The cell of a recorded value; a single number where these are continuous. */
function cellOf(scale, x) {
  return scale.width ? [x - scale.width / 2, x + scale.width / 2] : [x, x + Math.max(Math.abs(x), 1e-290) * 2 ** -52];
}

/** The edge of the cell of a recorded value, above it. */
export function snap(scale, x) {
  return scale.width ? (Math.floor(x / scale.width) + 0.5) * scale.width : x;
}

/** An interval less some cells. */
function without(interval, cells) {
  return cells.reduce((rest, [from, to]) => rest.flatMap(([low, high]) =>
    [[low, Math.min(high, from)], [Math.max(low, to), high]].filter(([a, b]) => a < b)), [interval]);
}

/** The recorded values between two edges in words: "30..39", "..29". */
export function rangeLabel(column, low, high) {
  const half = column.scale.width / 2;
  const ends = [low + half, high - half].map((x) => (Number.isFinite(x) ? column.write(x) : ""));
  return ends[0] === ends[1] ? ends[0] : ends.join("..");
}

/**
 * The probability of each piece of a column: under the posterior of its leaf distributions, and within what is known.
 *
 * Where nothing is known the masses of the pieces are computed once, (pieces, l).
 */
export function massesOf(column, pieces, posterior, known = null) {
  if (!column.isNumeric) return pieces.map(({ known: { weights } }) => dot(weights, posterior));
  if (known?.value !== undefined) return pieces.map(({ known: { intervals } }) => Number(intervals.some(([a, b]) => a <= known.value && known.value < b)));
  if (!known) pieces.masses ??= pieces.map((piece) => column.logMasses(piece.known.intervals).map(Math.exp));
  const masses = known ? massesWithin(column, pieces, known) : pieces.masses;
  return masses.map((row) => dot(row, posterior));
}

function dot(a, b) {
  let sum = 0;
  for (let j = 0; j < a.length; j++) sum += a[j] * b[j];
  return sum;
}

function massesWithin(column, pieces, known) {
  const whole = column.logMasses(known.intervals);
  return pieces.map((piece) => {
    const both = column.both(piece.known, known).intervals;
    return column.logMasses(both).map((part, j) => (whole[j] === -Infinity ? 0 : Math.exp(part - whole[j])));
  });
}

/**
 * Quantiles of a column of numbers, of what was recorded; as recorded.
 *
 * P(X <= x) jumps at point masses, and between them it is P(score <= z) of the other leaf distributions and those below.
 */
export function quantilesOf(column, levels, posterior, known = null) {
  if (known?.value !== undefined) return levels.map(() => known.value);
  const { scale, members } = column, below = scoreBelow(column, posterior, known);
  column.cachedPoints ??= scale.points.map((point, i) => ({ point, member: members + i, score: scale.score(point) })).sort((a, b) => a.point - b.point);
  const points = column.cachedPoints.map(({ point, member, score }) => ({ point, weight: posterior[member], before: below(score) }));
  const total = points.reduce((sum, { weight }) => sum + weight, below(Infinity));
  return levels.map((level) => {
    let left = level * total;
    for (const { point, weight, before } of points) {
      if (before >= left) break;
      if (before + weight >= left) return scale.round(point);
      left -= weight;
    }
    return scale.round(scale.value(scoreAt(below, left)));
  });
}

/** The probability that the score is at most z, as a function of z, without point masses and what is missing. */
function scoreBelow({ scale, members, bank }, posterior, known) {
  const intervals = known && known.intervals.map((pair) => pair.map((x) => scale.score(x))), sums = new Float64Array(members + 1);
  const within = (j, z) => intervals.reduce((sum, [low, high]) => sum + bank.mass(j, low, Math.min(high, z)), 0);
  const share = known ? (j, z) => within(j, z) / within(j, Infinity) : (j, z) => bank.below(j, z);
  for (let j = 0; j < members; j++) sums[j + 1] = sums[j] + posterior[j];
  return (z) => {
    const [from, to] = bank.near(z, z);
    let sum = sums[from];
    for (let j = from; j <= to; j++) if (posterior[j] > NEGLIGIBLE) sum += posterior[j] * share(j, z);
    return sum;
  };
}

function scoreAt(below, level) {
  let low = -FARTHEST, high = FARTHEST;
  for (let step = 0; step < HALVINGS; step++) {
    const middle = 0.5 * (low + high);
    if (below(middle) >= level) high = middle;
    else low = middle;
  }
  return high;
}

/** Mutual information in bits, of joint probabilities in rows. */
export function mutualInformation(rows) {
  const total = rows.flat().reduce((a, b) => a + b, 0);
  const left = rows.map((row) => row.reduce((a, b) => a + b, 0) / total);
  const right = rows[0].map((_, j) => rows.reduce((sum, row) => sum + row[j], 0) / total);
  let bits = 0;
  rows.forEach((row, i) => row.forEach((p, j) => {
    if (p > 0) bits += (p / total) * Math.log2(p / total / (left[i] * right[j]));
  }));
  return Math.max(bits, 0);
}

/** Jensen-Shannon divergence in bits. */
export function divergence(p, q) {
  const bits = (a, b) => (a > 0 ? a * Math.log2((2 * a) / (a + b)) : 0);
  return Math.max(p.reduce((sum, value, i) => sum + 0.5 * (bits(value, q[i]) + bits(q[i], value)), 0), 0);
}

/** Entropy in bits. */
export function entropy(p) {
  return p.reduce((sum, value) => (value > 0 ? sum - value * Math.log2(value) : sum), 0);
}
