// The worker: answers the page's questions beside it, so that it never freezes.

import { LocalEngine, Model, RemoteEngine, columnsOf, unpack } from "./evaluator.js";

const PATIENCE = 30; // milliseconds after which other messages get their turn

/** Answers messages {id, channel, question, arguments}; a newer one on a channel ends what an older one began. */
export function answerMessages(post) {
  const newest = {};
  let model = null;
  const questions = {
    async open({ packed, address }) {
      const content = await unpack(packed), columns = columnsOf(content);
      model = new Model(columns, address ? new RemoteEngine(content, columns, address) : new LocalEngine(content, columns));
    },
    infer: ({ evidence }) => model.infer(evidence),
    influence: ({ evidence, target, others }, progress) => model.influence(evidence, target, others, progress),
    dependence: ({ evidence, chosen }, progress) => model.dependence(evidence, chosen, progress),
    joint: ({ evidence, first, second }, progress) => model.joint(evidence, first, second, progress),
    explain: ({ evidence, target, code }) => model.explain(evidence, target, code),
    sample: ({ evidence, count, seed }) => model.sample(evidence, count, seed),
  };
  return async ({ id, channel, question, arguments: given }) => {
    newest[channel] = id;
    let since = performance.now();
    const progress = async (part) => {
      if (performance.now() - since < PATIENCE) return;
      post({ id, progress: part });
      await new Promise((resume) => setTimeout(resume));
      since = performance.now();
      if (newest[channel] !== id) throw new Error("superseded");
    };
    try {
      post({ id, answer: await questions[question](given, progress) });
    } catch (error) {
      post({ id, error: error.message });
    }
  };
}
