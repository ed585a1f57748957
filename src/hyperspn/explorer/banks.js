// Banks: the leaf distributions of a column of numbers, over its scores.

import { inverseLogCdf, logAdd, logDensity, logIntervalMass, normalCdf } from "./normal.js";

/** Normal distributions, those of columns of version 0.1.0. */
export class Normals {
  constructor(means, stds) {
    Object.assign(this, { means, stds, count: means.length });
  }

  logDensity(j, z) {
    return logDensity(z, this.means[j], this.stds[j]);
  }

  logMass(j, low, high) {
    return logIntervalMass(this.standard(j, low), this.standard(j, high));
  }

  mass(j, low, high) {
    return Math.exp(this.logMass(j, low, high));
  }

  /** The mass below z. */
  below(j, z) {
    return normalCdf(this.standard(j, z));
  }

  /** The first and the last of which something is between two scores: all. */
  near() {
    return [0, this.count - 1];
  }

  /** The score in an interval below which there is this share of its mass. */
  quantile(j, low, high, share) {
    return this.means[j] + this.stds[j] * quantileWithin(this.standard(j, low), this.standard(j, high), share);
  }

  standard(j, z) {
    return (z - this.means[j]) / this.stds[j];
  }
}

/** The quantile of a standard normal variable within an interval. */
function quantileWithin(low, high, share) {
  if (low + high > 0) return -quantileWithin(-high, -low, 1 - share);
  const below = logIntervalMass(-Infinity, low), above = logIntervalMass(-Infinity, high);
  const score = inverseLogCdf(logAdd(below + Math.log1p(-share), above + Math.log(share)));
  return Math.min(Math.max(score, low), high);
}

const REACH = 4.5, TOO_NARROW = 1e-9;

/** Hats at equal steps, the outer two with tails (see the Python class of this name). */
export class Hats {
  constructor(count) {
    this.count = count;
    this.step = (2 * REACH) / (count - 1);
    this.outer = 1 / (0.5 * this.step + 1 / REACH); // the density of an outer hat at its place
  }

  place(j) {
    return -REACH + j * this.step;
  }

  density(j, z) {
    const last = this.count - 1, u = (z - this.place(j)) / this.step, isBeyond = (j === 0 && u < 0) || (j === last && u > 0);
    if (isBeyond) return this.outer * Math.exp(-REACH * this.step * Math.abs(u));
    return Math.max(0, 1 - Math.abs(u)) * (j === 0 || j === last ? this.outer : 1 / this.step);
  }

  logDensity(j, z) {
    return Math.log(this.density(j, z));
  }

  logMass(j, low, high) {
    return Math.log(this.mass(j, low, high));
  }

  /** The first and the last hat of which something is between two scores. */
  near(low, high) {
    const [from, to] = [low, high].map((z) => Math.min(Math.max((z + REACH) / this.step, 0), this.count - 1));
    return [Math.floor(from), Math.ceil(to)];
  }

  mass(j, low, high) {
    if (!(low < high)) return 0;
    if (low + high > 0) return this.mass(this.count - 1 - j, -high, -low); // small masses on the left are exact
    if (high - low < TOO_NARROW) return (high - low) * this.density(j, 0.5 * (low + high));
    return this.below(j, high) - this.below(j, low);
  }

  below(j, z) {
    const { step, outer } = this, u = (z - this.place(j)) / step, left = 0.5 * Math.max(0, 1 + Math.min(u, 0)) ** 2;
    const inside = Math.min(Math.max(u, 0), 1), right = inside - 0.5 * inside ** 2, tail = Math.exp(-REACH * step * Math.abs(u)) / REACH;
    if (j === 0) return outer * (u < 0 ? tail : 1 / REACH + step * right);
    if (j === this.count - 1) return u < 0 ? outer * step * left : 1 - outer * tail;
    return left + right;
  }

  quantile(j, low, high, share) {
    if (low + high > 0) return -this.quantile(this.count - 1 - j, -high, -low, 1 - share);
    const level = this.below(j, low) * (1 - share) + this.below(j, high) * share;
    return Math.min(Math.max(this.place(j) + this.step * this.inverse(j, level), low), high);
  }

  /** In steps from its place, where this much is below. */
  inverse(j, level) {
    const { step, outer } = this, ofTail = outer / REACH, side = outer * step;
    if (j === 0) {
      return level < ofTail ? Math.log(level / ofTail) / (REACH * step)
        : 1 - Math.sqrt(Math.max(0, 1 - (2 / side) * (level - ofTail)));
    }
    if (j === this.count - 1) {
      return 1 - level < ofTail ? -Math.log((1 - level) / ofTail) / (REACH * step) : Math.sqrt(Math.min(1, (2 / side) * level)) - 1;
    }
    return level < 0.5 ? Math.sqrt(2 * level) - 1 : 1 - Math.sqrt(2 * (1 - level));
  }
}
