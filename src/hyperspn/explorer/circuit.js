// The circuit: writes its weights, and evaluates them in one pass up and one down. All in float64.

import { Hats } from "./banks.js";
import { inverseLogCdf } from "./normal.js";

/** W_L relu(... relu(W_1 x + b_1) ...) + b_L. */
function network(layers, x) {
  layers.forEach(({ weight, bias }, index) => {
    const out = new Float64Array(bias.length);
    for (let o = 0; o < out.length; o++) {
      let sum = bias[o];
      for (let i = 0, at = o * x.length; i < x.length; i++, at++) sum += weight[at] * x[i];
      out[o] = index < layers.length - 1 ? Math.max(sum, 0) : sum;
    }
    x = out;
  });
  return x;
}

/** Linear layers `net.0.weight`, `net.0.bias`, ... of the parameters. */
function linearLayers(parameters, name, count) {
  return Array.from({ length: count }, (_, i) => ({
    weight: parameters[`${name}.${i}.weight`],
    bias: parameters[`${name}.${i}.bias`],
  }));
}

/**
 * Who writes the numbers of a sector: a function (region, target) that fills `rows` x `written` of them.
 *
 * A region has its `kind` and `sector`, its number among those of the kind; a sector of a kind has `stride` columns of
 * which a region uses the upper left corner. The numbers are unnormalized weights, or bells of these (see `bells`).
 */
const WRITERS = {
  direct({ parameters, kinds, layerSize }) {
    return (region, target) => {
      const stride = kinds[region.kind].written, first = region.sector * layerSize * stride;
      copyCorner(parameters[`logits.${region.kind}`].subarray(first), stride, region, region.written, target);
    };
  },

  hyper({ parameters, kinds, layerSize, depth }) {
    const dim = parameters.embeddings.length / kinds.reduce((sum, kind) => sum + kind.count, 0);
    const net = linearLayers(parameters, "net", depth), heads = linearLayers(parameters, "heads", kinds.length);
    const firsts = kinds.map((_, i) => kinds.slice(0, i).reduce((sum, kind) => sum + kind.count, 0));
    return (region, target) => {
      const row = firsts[region.kind] + region.sector, { rank, written } = kinds[region.kind];
      const embedding = parameters.embeddings.subarray(row * dim, (row + 1) * dim);
      const numbers = network([...net, heads[region.kind]], embedding);
      if (rank) multiply(numbers, layerSize, rank, rank, region, region.written, target);
      else copyCorner(numbers, written, region, region.written, target);
    };
  },

  factored({ parameters, kinds, depth, replicas, regions }) {
    const dim = parameters.latents.length / replicas, net = linearLayers(parameters, "net", depth);
    const features = Array.from({ length: replicas }, (_, r) =>
      network(net, parameters.latents.subarray(r * dim, (r + 1) * dim)));
    const sizesOf = ({ kind, rows, written }) => {
      const { rank } = kinds[kind], free = written - 1, width = rank ? Math.min(rank, rows, free) : free;
      return { rank, free, width, count: (rank ? rows + free : rows) * width };
    };
    const perTree = regions.length / replicas, used = kinds.map(() => 0), firsts = [];
    for (const region of regions.slice(0, perTree)) {
      firsts.push(used[region.kind]);
      used[region.kind] += sizesOf(region).count;
    }
    return (region, target) => {
      const base = parameters[`bases.${region.kind}`], heads = parameters[`heads.${region.kind}`];
      const { rank, free, width, count } = sizesOf(region), first = firsts[region.index % perTree];
      const numbers = Float64Array.from(base.subarray(first, first + count));
      features[Math.floor(region.index / perTree)].forEach((feature, f) => {
        for (let i = 0, at = f * base.length + first; i < count; i++, at++) numbers[i] += feature * heads[at];
      });
      if (rank) multiply(numbers, region.rows, width, rank, region, free, target);
      else copyCorner(numbers, width, region, free, target);
    };
  },
};

/** The first columns of a region's rows, from a sector with `stride` columns; the others stay 0. */
function copyCorner(sector, stride, { rows, written }, columns, target) {
  for (let o = 0; o < rows; o++) {
    for (let j = 0; j < columns; j++) target[o * written + j] = sector[o * stride + j];
  }
}

/** The same from A B^T / sqrt(rank): `rowsOfA` rows of A and then those of B, with `width` numbers each. */
function multiply(factors, rowsOfA, width, rank, { rows, written }, columns, target) {
  for (let o = 0; o < rows; o++) {
    for (let j = 0; j < columns; j++) {
      let sum = 0;
      for (let r = 0; r < width; r++) sum += factors[o * width + r] * factors[(rowsOfA + j) * width + r];
      target[o * written + j] = sum / Math.sqrt(rank);
    }
  }
}

/** The unnormalized weights of hats and points from means, widths and logits (see `bell_logits` in Python). */
function bells(numbers, { rows, columns, written, hats }, layerSize) {
  const logits = new Float64Array(rows * columns), bank = new Hats(hats);
  for (let o = 0; o < rows; o++) {
    const row = numbers.subarray(o * written, (o + 1) * written), others = written - 3;
    const mean = Math.min(Math.max(row[0], -20), 20) + inverseLogCdf(Math.log((o + 0.5) / layerSize));
    const width = 0.5 * bank.step + 0.5 * Math.exp(Math.min(row[1], 5));
    const height = row[written - 1] - Math.log(width / bank.step) - 0.5 * Math.log(2 * Math.PI);
    for (let j = 0; j < hats; j++) logits[o * columns + j] = height - 0.5 * ((bank.place(j) - mean) / width) ** 2;
    for (let j = 0; j < others; j++) logits[o * columns + hats + j] = row[2 + j];
  }
  return logits;
}

/** Softmax of each row. */
function normalizeRows(values, rows, columns) {
  for (let o = 0; o < rows; o++) {
    const row = values.subarray(o * columns, (o + 1) * columns), most = row.reduce((a, b) => Math.max(a, b));
    let sum = 0;
    for (let j = 0; j < columns; j++) sum += row[j] = Math.exp(row[j] - most);
    for (let j = 0; j < columns; j++) row[j] /= sum;
  }
}

/** A mixture of trees of sum and product regions over variables with some leaf distributions each. */
export class Circuit {
  /** From what `export.py` wrote: sizes, and arrays of the structure and of parameters. */
  constructor({ layerSize, source, depth, kinds, widths, hats }, { structure, parameters }) {
    this.widths = widths;
    this.regions = regionsOf(structure, layerSize, widths, hats, kinds);
    this.roots = this.regions.filter((region) => region.rows === 1 && region.isRoot);
    const settings = { parameters, kinds, layerSize, depth, replicas: this.roots.length, regions: this.regions };
    const write = WRITERS[source](settings);
    for (const region of this.regions) {
      const numbers = new Float64Array(region.rows * region.written);
      write(region, numbers);
      region.weights = region.hats ? bells(numbers, region, layerSize) : numbers;
      normalizeRows(region.weights, region.rows, region.columns);
      region.inputs = new Float64Array(region.columns); // scaled
      region.sums = new Float64Array(region.rows); // scaled alike
      region.out = new Float64Array(region.rows); // logarithms
      region.flow = new Float64Array(region.rows);
      region.passed = new Float64Array(region.columns); // what flows on to the inputs
    }
    this.mixture = Float64Array.from(parameters.mixture);
    normalizeRows(this.mixture, 1, this.mixture.length);
  }

  /**
   * The log-probability of evidence, and the posterior of each variable's leaf distributions.
   *
   * For each variable its log-likelihoods under its distributions, or null where nothing is known.
   */
  infer(logLikelihoods) {
    const logP = this.up(logLikelihoods);
    return { logP, posterior: logP === -Infinity ? null : this.down(logP) };
  }

  up(logLikelihoods) {
    const leaves = logLikelihoods.map((values) => values && scaled(values));
    for (const region of this.regions) {
      if (region.children === null) upLeaf(region, leaves[region.variable]);
      else upInner(region, this.regions);
    }
    const logs = this.roots.map((root, r) => Math.log(this.mixture[r]) + root.out[0]);
    return logSum(logs);
  }

  down(logP) {
    const posterior = this.widths.map((width) => new Float64Array(width));
    for (const region of this.regions) region.flow.fill(0);
    this.roots.forEach((root, r) => (root.flow[0] = this.mixture[r] * Math.exp(root.out[0] - logP)));
    for (let index = this.regions.length - 1; index >= 0; index--) {
      const region = this.regions[index], { passed } = region;
      passOn(region);
      if (region.children === null) add(posterior[region.variable], passed);
      else for (const child of region.children) add(this.regions[child].flow, passed);
    }
    return posterior;
  }

  /** Draws the leaf distribution of each variable under the evidence of the last pass up. */
  draw(logP, random) {
    const members = new Int32Array(this.widths.length);
    const chances = this.roots.map((root, r) => this.mixture[r] * Math.exp(root.out[0] - logP));
    const stack = [[this.roots[pick(chances, random)], 0]];
    while (stack.length) {
      const [region, o] = stack.pop();
      const row = region.weights.subarray(o * region.columns, (o + 1) * region.columns);
      const j = pick(row.map((weight, at) => weight * region.inputs[at]), random);
      if (region.children === null) members[region.variable] = j;
      else for (const child of region.children) stack.push([this.regions[child], j]);
    }
    return members;
  }
}

/** The regions, children first, with the places of their weights. */
function regionsOf({ partitions, arities, children, variables }, layerSize, widths, hats, kinds) {
  const used = kinds.map(() => 0), isChild = new Uint8Array(partitions.length), regions = [];
  for (const child of children) isChild[child] = 1;
  let leaf = 0, partition = 0, at = 0;
  partitions.forEach((isInner, index) => {
    const variable = isInner ? null : variables[leaf++];
    const below = isInner ? Array.from(children.subarray(at, (at += arities[partition++]))) : null;
    const columns = isInner ? layerSize : widths[variable];
    const ofLeaf = isInner ? 0 : hats[variable], wanted = ofLeaf ? columns : Math.max(columns, layerSize);
    const kind = kinds.findIndex((candidate) => candidate.hats === ofLeaf && candidate.columns === wanted);
    const isRoot = !isChild[index], written = ofLeaf ? kinds[kind].written : columns;
    regions.push({
      index, variable, children: below, columns, written, hats: ofLeaf, kind, sector: used[kind]++, isRoot,
      rows: isRoot ? 1 : layerSize,
    });
  });
  return regions;
}

function scaled(logs) {
  const most = logs.reduce((a, b) => Math.max(a, b), -Infinity);
  return { most, inputs: logs.map((value) => (most === -Infinity ? 0 : Math.exp(value - most))) };
}

function upLeaf(region, leaf) {
  if (!leaf) {
    region.inputs.fill(1);
    region.sums.fill(1);
    region.out.fill(0);
  } else {
    region.inputs.set(leaf.inputs);
    sumUp(region, leaf.most);
  }
}

function upInner(region, regions) {
  const { inputs, columns } = region;
  inputs.fill(0);
  for (const child of region.children) {
    const { out } = regions[child];
    for (let j = 0; j < columns; j++) inputs[j] += out[j];
  }
  let most = -Infinity;
  for (let j = 0; j < columns; j++) most = Math.max(most, inputs[j]);
  for (let j = 0; j < columns; j++) inputs[j] = most === -Infinity ? 0 : Math.exp(inputs[j] - most);
  sumUp(region, most);
}

/** sum_j w_oj in_j for all o: four at a time, which do not wait for each other. */
function sumUp({ weights, inputs, sums, out, rows, columns }, most) {
  let o = 0;
  for (; o + 4 <= rows; o += 4) {
    const first = o * columns, second = first + columns, third = second + columns, fourth = third + columns;
    let a = 0, b = 0, c = 0, d = 0;
    for (let j = 0; j < columns; j++) {
      const input = inputs[j];
      a += weights[first + j] * input;
      b += weights[second + j] * input;
      c += weights[third + j] * input;
      d += weights[fourth + j] * input;
    }
    sums[o] = a, sums[o + 1] = b, sums[o + 2] = c, sums[o + 3] = d;
  }
  for (; o < rows; o++) {
    let sum = 0;
    for (let j = 0, at = o * columns; j < columns; j++, at++) sum += weights[at] * inputs[j];
    sums[o] = sum;
  }
  for (o = 0; o < rows; o++) out[o] = most === -Infinity ? most : most + Math.log(sums[o]);
}

/** What the sums of a region pass on to its inputs: in_j sum_o w_oj flow_o / sum_o. */
function passOn({ weights, inputs, sums, flow, passed, rows, columns }) {
  const part = (o) => (sums[o] > 0 ? flow[o] / sums[o] : 0);
  let o = 0;
  passed.fill(0);
  for (; o + 4 <= rows; o += 4) {
    const a = part(o), b = part(o + 1), c = part(o + 2), d = part(o + 3);
    const first = o * columns, second = first + columns, third = second + columns, fourth = third + columns;
    if (a === 0 && b === 0 && c === 0 && d === 0) continue;
    for (let j = 0; j < columns; j++) passed[j] += a * weights[first + j] + b * weights[second + j] + c * weights[third + j] + d * weights[fourth + j];
  }
  for (; o < rows; o++) {
    const a = part(o);
    for (let j = 0, at = o * columns; j < columns; j++, at++) passed[j] += a * weights[at];
  }
  for (let j = 0; j < columns; j++) passed[j] *= inputs[j];
}

function add(target, values) {
  for (let j = 0; j < values.length; j++) target[j] += values[j];
}

export function logSum(logs) {
  const most = logs.reduce((a, b) => Math.max(a, b), -Infinity);
  return most === -Infinity ? most : most + Math.log(logs.reduce((sum, value) => sum + Math.exp(value - most), 0));
}

/** Draws an index with a probability proportional to these weights. */
export function pick(weights, random) {
  let left = random() * weights.reduce((a, b) => a + b, 0);
  for (let index = 0; index < weights.length; index++) {
    left -= weights[index];
    if (left < 0) return index;
  }
  return weights.findLastIndex((weight) => weight > 0);
}
