// Answers questions with the explorer's evaluator: JSON in, JSON out.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, questions] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(`${folder}/${name}`));
const { LocalEngine, Model, columnsOf, unpack } = await load("evaluator.js");
const { quantilesOf } = await load("distributions.js");
const { momentsOf } = await load("moments.js");
const { parseEvidence, writeEvidence } = await load("events.js");

async function answer(model, { given, levels }) {
  const evidence = parseEvidence(given, model.names), known = model.read(evidence);
  const { logP, posterior, isProbability } = await model.infer(evidence);
  const numbers = posterior && model.columns.map((column, v) => (column.isNumeric ? {
    quantiles: quantilesOf(column, levels, posterior[v], known[v]),
    ...(known[v] ? {} : momentsOf(column, posterior[v])),
  } : null));
  const plain = posterior && posterior.map((values) => [...values]);
  return { logP, isProbability, posterior: plain, numbers, again: writeEvidence(evidence) };
}

async function ask(model, { question, arguments: given }) {
  if (question === "answer") return answer(model, given);
  const evidence = parseEvidence(given.given, model.names), places = (names) => names.map((name) => model.names.indexOf(name));
  if (question === "influence") return model.influence(evidence, ...places([given.target]), places(given.others));
  if (question === "joint") return model.joint(evidence, ...places(given.columns));
  if (question === "explain") return model.explain(evidence, ...places([given.target]), given.code);
  return model.sample(evidence, given.count, given.seed);
}

const answers = [];
for (const { packed, asked } of JSON.parse(readFileSync(questions, "utf8"))) {
  const content = await unpack(packed), columns = columnsOf(content);
  const model = new Model(columns, new LocalEngine(content, columns));
  const of_model = [];
  for (const question of asked) of_model.push(await ask(model, question));
  answers.push(of_model);
}
console.log(JSON.stringify(answers, (_, value) => (value === -Infinity ? "-inf" : value)));
