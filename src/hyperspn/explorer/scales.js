// Scales: the numbers of a column as normal scores, and back.

import { inverseLogCdf, logNormalCdf, normalCdf } from "./normal.js";

/** The scale of a numeric column (see the Python class of this name): point masses, and normal scores of all else. */
export class Scale {
  constructor({ knots, levels = [], points = [], tails = [1, 1], lower = null, upper = null, decimals = null, smallest, largest }) {
    Object.assign(this, { knots, points, tails, lower, upper, decimals });
    this.levels = levels.length ? levels : knots.map((_, i) => (i + 0.5) / knots.length);
    this.smallest = smallest ?? knots[0];
    this.largest = largest ?? knots.at(-1);
    this.width = decimals === null ? 0 : 10 ** -decimals; // of the cell of a recorded number
    const half = this.width / 2;
    this.ends = [lower === null ? -Infinity : lower - half, upper === null ? Infinity : upper + half];
  }

  /** log F(x) and log(1 - F(x)). */
  logLevels(x) {
    const { knots, levels, tails, ends } = this, last = knots.at(-1);
    if (x < knots[0]) {
      const low = Math.log(levels[0]) + logTail(knots[0] - x, tails[0], knots[0] - ends[0]);
      return [low, Math.log1p(-Math.exp(low))];
    }
    if (x > last) {
      const high = Math.log1p(-levels.at(-1)) + logTail(x - last, tails[1], ends[1] - last);
      return [Math.log1p(-Math.exp(high)), high];
    }
    const level = interpolate(x, knots, levels);
    return [Math.log(level), Math.log1p(-level)];
  }

  score(x) {
    const [below, above] = this.logLevels(x);
    return below < above ? inverseLogCdf(below) : -inverseLogCdf(above);
  }

  /** The number with this normal score. */
  value(z) {
    const { knots, levels, tails, ends } = this, last = knots.at(-1), level = normalCdf(z), above = normalCdf(-z);
    if (level < levels[0]) {
      return knots[0] - inverseTail(logNormalCdf(z) - Math.log(levels[0]), tails[0], knots[0] - ends[0]);
    }
    if (above < 1 - levels.at(-1)) {
      return last + inverseTail(logNormalCdf(-z) - Math.log1p(-levels.at(-1)), tails[1], ends[1] - last);
    }
    return interpolate(level, levels, knots);
  }

  /** log dz/dx. */
  logSlope(x) {
    const { knots, levels, tails, ends } = this, score = this.score(x), last = knots.at(-1);
    if (!Number.isFinite(score)) return -Infinity;
    let slope = 0;
    if (x < knots[0]) slope = logTailDensity(knots[0] - x, tails[0], knots[0] - ends[0]) + Math.log(levels[0]);
    else if (x > last) slope = logTailDensity(x - last, tails[1], ends[1] - last) + Math.log1p(-levels.at(-1));
    else if (knots.length > 1) {
      const i = pieceOf(x, knots);
      slope = Math.log((levels[i + 1] - levels[i]) / (knots[i + 1] - knots[i]));
    }
    return slope + 0.5 * score * score + 0.5 * Math.log(2 * Math.PI);
  }

  /** The recorded value of a number. */
  round(x) {
    if (this.decimals !== null) x = roundHalfEven(x * 10 ** this.decimals) / 10 ** this.decimals + 0;
    return Math.min(Math.max(x, this.lower ?? -Infinity), this.upper ?? Infinity);
  }
}

/** The scale of a column of version 0.1.0, whose scores are standardized numbers. */
export class Standard {
  constructor(mean, std, decimals) {
    Object.assign(this, { mean, std, decimals, points: [], width: 0, lower: null, upper: null });
    this.ends = [-Infinity, Infinity];
    [this.smallest, this.largest] = [mean - 3 * std, mean + 3 * std];
    this.knots = [this.smallest, this.largest];
  }

  score(x) {
    return (x - this.mean) / this.std;
  }

  value(z) {
    return z * this.std + this.mean;
  }

  logSlope() {
    return -Math.log(this.std);
  }

  round(x) {
    return x;
  }
}

/** The piece between ascending places in which x is. */
function pieceOf(x, places) {
  let low = 0, high = places.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (places[middle] <= x) low = middle;
    else high = middle;
  }
  return low;
}

/** The value at x of what is linear between ascending places, and constant beyond. */
function interpolate(x, places, values) {
  if (x <= places[0]) return values[0];
  if (x >= places.at(-1)) return values.at(-1);
  const i = pieceOf(x, places);
  return values[i] + ((x - places[i]) / (places[i + 1] - places[i])) * (values[i + 1] - values[i]);
}

/** log of the part of an exponential tail, cut off at `reach`, beyond a distance from the outer knot. */
function logTail(distance, tail, reach) {
  if (reach === Infinity) return -distance / tail;
  if (distance >= reach) return -Infinity;
  return -distance / tail + Math.log(-Math.expm1(-(reach - distance) / tail)) - Math.log(-Math.expm1(-reach / tail));
}

function logTailDensity(distance, tail, reach) {
  return -distance / tail - Math.log(tail) - Math.log(-Math.expm1(-reach / tail));
}

/** The distance beyond which there is this part of a tail. */
function inverseTail(logPart, tail, reach) {
  const end = Math.exp(-reach / tail);
  return Math.min(-tail * Math.log(end + (1 - end) * Math.exp(logPart)), reach);
}

function roundHalfEven(x) {
  const below = Math.floor(x), rest = x - below;
  if (rest !== 0.5) return Math.round(x);
  return below % 2 === 0 ? below : below + 1;
}
