// Moments: mean and standard deviation of a column of numbers, as sums over the same pieces as in Python.

import { Normals } from "./banks.js";

const MOST_CELLS = 20000;
const FAR = Array.from({ length: 128 }, (_, i) => 8.25 + i / 4), NEAR = Array.from({ length: 6401 }, (_, i) => i / 400 - 8);
const SCORES = [...FAR.map((z) => -z), ...NEAR, ...FAR];

/** Mean and standard deviation of what was recorded, under a posterior of leaf distributions. */
export function momentsOf(column, posterior) {
  column.cachedMoments ??= column.bank instanceof Normals ? momentsOfNormals(column) : momentsOfHats(column);
  const { center, first, second } = column.cachedMoments;
  let total = 0, mean = 0, square = 0;
  for (let j = 0; j < first.length; j++) {
    total += posterior[j];
    mean += posterior[j] * first[j];
    square += posterior[j] * second[j];
  }
  mean /= total;
  return { mean: center + mean, std: Math.sqrt(Math.max(square / total - mean * mean, 0)) };
}

/** E(x - center) and E(x - center)^2 of each leaf distribution but "missing". */
function momentsOfHats({ scale, bank, members }) {
  const edges = pieceEdges(scale), center = edges[edges.length >> 1];
  const [whole, first, second] = Array.from({ length: 3 }, () => new Float64Array(members));
  for (let i = 1, low = scale.score(edges[0]); i < edges.length; i++) {
    const high = scale.score(edges[i]), distance = (edges[i - 1] + edges[i]) / 2 - center, [from, to] = bank.near(low, high);
    for (let j = from; j <= to; j++) {
      const mass = bank.mass(j, low, high);
      whole[j] += mass;
      first[j] += mass * distance;
      second[j] += mass * distance * distance;
    }
    low = high;
  }
  const points = scale.points.map((point) => point - center);
  return { center, first: [...first.map((sum, j) => sum / whole[j]), ...points], second: [...second.map((sum, j) => sum / whole[j]), ...points.map((x) => x * x)] };
}

function momentsOfNormals({ scale, bank }) {
  const first = Array.from(bank.means, (mean) => mean * scale.std), second = first.map((mean, j) => mean ** 2 + (bank.stds[j] * scale.std) ** 2);
  return { center: scale.mean, first, second };
}

/** Where pieces end in which distributions hardly change: at edges of recorded numbers, of all if these are not too many. */
function pieceEdges(scale) {
  const { width, points, knots } = scale, numbers = [...SCORES.map((z) => scale.value(z)).filter(Number.isFinite), ...knots];
  if (width === 0) return ascending(numbers);
  const low = Math.floor(Math.min(scale.value(-8), ...points) / width), high = Math.ceil(Math.max(scale.value(8), ...points) / width);
  const steps = [...numbers, ...points, ...points.map((point) => point + width)].map((x) => Math.floor(x / width + 0.5));
  const all = high - low > MOST_CELLS ? [] : Array.from({ length: high - low + 1 }, (_, i) => low + i);
  return ascending([...steps, ...all]).map((step) => (step - 0.5) * width);
}

function ascending(numbers) {
  return Float64Array.from(new Set(numbers)).sort();
}
