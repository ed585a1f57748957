// The normal distribution, to full relative precision far into its tails.

const ROOT_2 = Math.SQRT2;
const ROOT_PI = Math.sqrt(Math.PI);
const HALF_LOG_2PI = 0.5 * Math.log(2 * Math.PI);
const NARROW = 1e-3; // intervals in which a density is as good as constant

/** erf(x) for 0 <= x < 2: a series of positive terms. */
function errorFunction(x) {
  let term = x, sum = x;
  for (let n = 1; term > 1e-17 * sum; n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / ROOT_PI) * Math.exp(-x * x) * sum;
}

/** exp(x^2) erfc(x) for x >= 2: Laplace's continued fraction. */
function scaledComplement(x) {
  let fraction = x;
  for (let n = Math.ceil(16 + 160 / x); n > 0; n--) fraction = x + (0.5 * n) / fraction;
  return 1 / (ROOT_PI * fraction);
}

/** Phi(z). */
export function normalCdf(z) {
  const x = Math.abs(z) / ROOT_2;
  const beyond = x < 2 ? 0.5 * (1 - errorFunction(x)) : 0.5 * Math.exp(-x * x) * scaledComplement(x);
  return z < 0 ? beyond : 1 - beyond;
}

/** log Phi(z). */
export function logNormalCdf(z) {
  if (z === -Infinity) return -Infinity;
  if (z >= 0) return Math.log1p(-normalCdf(-z));
  const x = -z / ROOT_2;
  return x < 2 ? Math.log(0.5 * (1 - errorFunction(x))) : Math.log(0.5 * scaledComplement(x)) - x * x;
}

/** The z with log Phi(z) = logLevel <= log 1/2: Newton's method, which a concave function lets rise to the root. */
export function inverseLogCdf(logLevel) {
  if (logLevel === -Infinity) return -Infinity;
  if (logLevel > -Math.LN2) return logLevel === 0 ? Infinity : -inverseLogCdf(Math.log(-Math.expm1(logLevel)));
  let z = -Math.sqrt(-2 * logLevel);
  for (let step = 0; step < 60; step++) {
    const value = logNormalCdf(z);
    const change = (logLevel - value) * Math.exp(value + 0.5 * z * z + HALF_LOG_2PI);
    z += change;
    if (!(change > 1e-15 * Math.abs(z))) break;
  }
  return z;
}

/** log(Phi(high) - Phi(low)), -Infinity where low >= high. */
export function logIntervalMass(low, high) {
  if (low + high > 0) [low, high] = [-high, -low]; // the upper tail is the lower one of -x
  if (!(low < high)) return -Infinity;
  if (high - low < NARROW) {
    const middle = 0.5 * (low + high);
    return -0.5 * middle * middle - HALF_LOG_2PI + Math.log(high - low);
  }
  const above = logNormalCdf(high);
  return above + Math.log(-Math.expm1(Math.min(logNormalCdf(low) - above, -1e-30)));
}

/** log N(z | mean, std^2). */
export function logDensity(z, mean, std) {
  const score = (z - mean) / std;
  return -0.5 * score * score - Math.log(std) - HALF_LOG_2PI;
}

/** log(exp(a) + exp(b)). */
export function logAdd(a, b) {
  const most = Math.max(a, b);
  return most === -Infinity ? most : most + Math.log1p(Math.exp(Math.min(a, b) - most));
}
