// The evaluator: a model of a table, asked in its own words. The same numbers as in Python.

import { Circuit } from "./circuit.js";
import { makeColumn } from "./columns.js";
import { massesOf, mutualInformation, piecesOf } from "./distributions.js";
import { parseEvent } from "./events.js";
import { momentsOf } from "./moments.js";

const TYPES = { f4: Float32Array, f8: Float64Array, u1: Uint8Array, i2: Int16Array, i4: Int32Array };

/** Header and arrays of what `export.py` packed: gzip in base64. */
export async function unpack(text) {
  const packed = Uint8Array.from(atob(text.trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const arrays = {};
  let at = 4 + length;
  for (const { name, type, count } of header.arrays) {
    arrays[name] = unshuffled(bytes, at, count, TYPES[type]);
    at += count * TYPES[type].BYTES_PER_ELEMENT;
  }
  return { header, arrays };
}

/** An array whose first bytes come first, then all second ones, and so on. */
function unshuffled(bytes, start, count, Type) {
  const size = Type.BYTES_PER_ELEMENT, plain = new Uint8Array(count * size);
  for (let byte = 0; byte < size; byte++) {
    for (let i = 0; i < count; i++) plain[i * size + byte] = bytes[start + byte * count + i];
  }
  return new Type(plain.buffer);
}

/** The arrays whose names begin with a prefix, without it. */
function below(arrays, prefix) {
  const names = Object.keys(arrays).filter((name) => name.startsWith(prefix));
  return Object.fromEntries(names.map((name) => [name.slice(prefix.length), arrays[name]]));
}

/** The columns of a table. */
export function columnsOf({ header, arrays }) {
  return header.columns.map((description, v) =>
    makeColumn(description, { means: arrays[`leaves.${v}.means`], stds: arrays[`leaves.${v}.stds`] }));
}

/** Evaluates a circuit right here. */
export class LocalEngine {
  constructor({ header, arrays }, columns) {
    this.columns = columns;
    const circuit = { ...header.circuit, widths: columns.map(({ width }) => width), hats: columns.map(({ hats = 0 }) => hats) };
    this.circuit = new Circuit(circuit, { structure: below(arrays, "structure."), parameters: below(arrays, "weights.") });
  }

  /** The log-probability and the posterior of each evidence: a list of what is known of each column, or null. */
  async infer(evidences) {
    return evidences.map((known) => this.circuit.infer(this.likelihoods(known)));
  }

  async sample(known, count, seed) {
    const random = generator(seed), logP = this.circuit.up(this.likelihoods(known));
    return Array.from({ length: count }, () => {
      const members = this.circuit.draw(logP, random);
      return this.columns.map((column, v) => column.draw(members[v], known[v], random));
    });
  }

  likelihoods(known) {
    return known.map((entry, v) => entry && this.columns[v].logLikelihoods(entry));
  }
}

/** Asks the server that `hyperspn explore --serve` runs. */
export class RemoteEngine {
  constructor({ header }, columns, address) {
    this.columns = columns;
    this.address = address;
  }

  async ask(question, body) {
    const text = JSON.stringify(body, (_, value) => (ArrayBuffer.isView(value) ? [...value] : value === Infinity ? "inf" : value === -Infinity ? "-inf" : value));
    const answer = await fetch(`${this.address}${question}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: text });
    if (!answer.ok) throw new Error(`the server says: ${await answer.text()}`);
    return answer.json();
  }

  async infer(evidences) {
    const answers = await this.ask("infer", { evidences });
    return answers.map(({ log_p, posterior }) => ({ logP: log_p ?? -Infinity, posterior: posterior && posterior.map((row) => Float64Array.from(row)) }));
  }

  sample(known, count, seed) {
    return this.ask("sample", { known, count, seed });
  }
}

/** A model of a table: columns, and an engine that evaluates evidence. */
export class Model {
  constructor(columns, engine) {
    this.columns = columns;
    this.engine = engine;
    this.names = columns.map(({ name }) => name);
  }

  /** Evidence, a list of [name, event], as the engine sees it. */
  read(evidence) {
    const known = this.columns.map(() => null);
    for (const [name, event] of evidence) {
      const v = this.names.indexOf(name);
      known[v] = this.columns[v].read(typeof event === "string" ? parseEvent(event) : event);
    }
    return known;
  }

  /** How probable evidence is, and the posterior of each column's leaf distributions. */
  async infer(evidence) {
    const known = this.read(evidence);
    const [answer] = await this.engine.infer([known]);
    return { ...answer, isProbability: known.every((entry) => !entry || entry.isProbability) };
  }

  /** Evidence that tells apart the pieces of a column, as far as they are possible. */
  split(known, v) {
    const column = this.columns[v];
    return piecesOf(column).map((piece) => {
      const both = known[v] ? column.both(piece.known, known[v]) : piece.known;
      return known.map((entry, at) => (at === v ? both : entry));
    });
  }

  /** The joint probabilities of the pieces of a column with those of others, given evidence: {column: rows}. */
  async tables(evidence, target, others, progress = () => {}) {
    const known = this.read(evidence), tables = new Map(others.map((v) => [v, []]));
    const [{ logP }] = await this.engine.infer([known]);
    const parts = known[target]?.value === undefined ? this.split(known, target) : [];
    for (const [index, part] of parts.entries()) {
      const [answer] = await this.engine.infer([part]);
      for (const v of others) {
        const column = this.columns[v], pieces = piecesOf(column);
        const weight = answer.posterior ? Math.exp(answer.logP - logP) : 0;
        const masses = weight ? massesOf(column, pieces, answer.posterior[v], known[v]) : pieces.map(() => 0);
        tables.get(v).push(Array.from(masses, (mass) => weight * mass));
      }
      await progress((index + 1) / parts.length);
    }
    return tables;
  }

  /** The mutual information of a column with each of some others, in bits, given evidence. */
  async influence(evidence, target, others, progress) {
    const tables = await this.tables(evidence, target, others, progress);
    return others.map((v) => (tables.get(v).length ? mutualInformation(tables.get(v)) : 0));
  }

  /** The joint distribution of two columns given evidence, with the labels of their pieces. */
  async joint(evidence, first, second, progress) {
    const tables = await this.tables(evidence, first, [second], progress);
    const labels = [first, second].map((v) => piecesOf(this.columns[v]).map(({ label }) => label));
    return { labels, rows: tables.get(second) };
  }

  /** The mutual information of all pairs of some columns, in bits, given evidence. */
  async dependence(evidence, chosen, progress = () => {}) {
    const rows = [];
    for (const [index, v] of chosen.entries()) {
      const others = chosen.slice(index + 1);
      rows.push(others.length ? await this.influence(evidence, v, others, (part) => progress((index + part) / chosen.length)) : []);
    }
    return chosen.map((_, i) => chosen.map((_, j) => (i === j ? NaN : i < j ? rows[i][j - i - 1] : rows[j][i - j - 1])));
  }

  /**
   * What each piece of evidence, in its order, adds to the log-odds of a category of the target, in bits, or to its mean.
   *
   * Returns the values without evidence and after each piece, and of numbers the standard deviation in the end; pieces of the
   * target itself are left out.
   */
  async explain(evidence, target, code = null) {
    const column = this.columns[target], pieces = evidence.filter(([name]) => name !== column.name), values = [];
    let std = null;
    for (let count = 0; count <= pieces.length; count++) {
      const { posterior } = await this.infer(pieces.slice(0, count)), moments = posterior && column.isNumeric ? momentsOf(column, posterior[target]) : null;
      values.push(moments ? moments.mean : posterior ? logOdds(posterior[target][code]) : NaN);
      std = moments && moments.std;
    }
    return { names: pieces.map(([name]) => name), values, std };
  }

  /** Rows drawn under evidence, as text. */
  sample(evidence, count, seed) {
    return this.engine.sample(this.read(evidence), count, seed);
  }
}

function logOdds(p) {
  return Math.log2(p / (1 - p));
}

/** Random numbers in [0, 1) from a seed (an xorshift of 128 bits). */
export function generator(seed) {
  const state = new Uint32Array([seed ^ 0x9e3779b9, seed * 0x85ebca6b, 0xc2b2ae35, 0x27d4eb2f]);
  const next = () => {
    let t = state[3];
    const s = state[0];
    [state[3], state[2], state[1]] = [state[2], state[1], s];
    t ^= t << 11;
    t ^= t >>> 8;
    state[0] = t ^ s ^ (s >>> 19);
    return state[0];
  };
  for (let i = 0; i < 20; i++) next();
  return () => (next() * 2 ** 21 + (next() >>> 11)) / 2 ** 53;
}
