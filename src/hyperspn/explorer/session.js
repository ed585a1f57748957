// The session: asks the worker, and keeps what is known with its history.

/** Questions to the evaluator: in a worker, or in the page itself where there is none. */
class Session {
  constructor(sources) {
    this.waiting = new Map();
    this.count = 0;
    try {
      const code = `"use strict";\n${sources}\nconst answer = answerMessages((m) => postMessage(m)); onmessage = ({ data }) => answer(data);`;
      const worker = new Worker(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
      worker.onmessage = ({ data }) => this.receive(data);
      this.post = (message) => worker.postMessage(message);
    } catch {
      const answer = answerMessages((message) => this.receive(message));
      this.post = (message) => setTimeout(() => answer(message));
    }
  }

  /** The answer to a question; null if a newer one on the same channel came in between. */
  ask(channel, question, given = {}, progress = () => {}) {
    const id = ++this.count;
    for (const [other, entry] of this.waiting) {
      if (entry.channel === channel) {
        this.waiting.delete(other);
        entry.resolve(null);
      }
    }
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { channel, progress, resolve, reject });
      this.post({ id, channel, question, arguments: given });
    });
  }

  receive({ id, answer, error, progress }) {
    const entry = this.waiting.get(id);
    if (!entry) return;
    if (progress !== undefined) return entry.progress(progress);
    this.waiting.delete(id);
    if (error !== undefined) entry.reject(new Error(error));
    else entry.resolve(answer ?? true);
  }
}

/** What is known, which column is pinned, and how cards are sorted: in the address, with undo and redo. */
class State {
  constructor(reader, changed) {
    this.reader = reader;
    this.names = reader.names;
    this.changed = changed;
    this.past = [];
    this.future = [];
    this.current = this.fromAddress();
    addEventListener("hashchange", () => {
      if (location.hash.slice(1) === this.address()) return;
      const next = this.fromAddress(), { refused } = this;
      this.set(next);
      this.refused = refused;
    });
  }

  get evidence() {
    return this.current.evidence;
  }

  /** The event of a column, if any. */
  eventOf(name) {
    return this.evidence.find(([other]) => other === name)?.[1] ?? null;
  }

  /** What is known of a column becomes this event, or nothing. */
  know(name, event) {
    const others = this.evidence.filter(([other]) => other !== name), at = this.evidence.findIndex(([other]) => other === name);
    if (event) others.splice(at < 0 ? others.length : at, 0, [name, event]);
    this.set({ ...this.current, evidence: others });
  }

  set(next) {
    if (JSON.stringify(next) === JSON.stringify(this.current)) return;
    this.past.push(this.current);
    this.future = [];
    this.go(next);
  }

  undo() {
    if (this.past.length) this.future.push(this.current), this.go(this.past.pop());
  }

  redo() {
    if (this.future.length) this.past.push(this.current), this.go(this.future.pop());
  }

  go(next) {
    this.current = next;
    this.refused = [];
    try {
      history.replaceState(null, "", `#${this.address()}`);
    } catch {
      // a page without an address of its own, as in a notebook
    }
    this.changed();
  }

  address() {
    const { evidence, target, sort } = this.current;
    const parts = { given: writeEvidence(evidence), target: target ?? "", sort: sort === "table" ? "" : sort };
    return new URLSearchParams(Object.entries(parts).filter(([, value]) => value)).toString();
  }

  fromAddress() {
    const parts = new URLSearchParams(location.hash.slice(1));
    const target = this.names.includes(parts.get("target")) ? parts.get("target") : null;
    const sort = ["moved", "name", "influence"].find((each) => each === parts.get("sort")) ?? "table";
    return { evidence: this.understood(parts.get("given") ?? ""), target, sort };
  }

  /** The evidence in an address, as far as it is of this table; why the rest is not is kept in `refused`. */
  understood(text) {
    this.refused = [];
    const attempt = (read) => {
      try {
        return read();
      } catch (error) {
        this.refused.push(error.message);
        return [];
      }
    };
    return attempt(() => split(text, ",")).flatMap((piece) => attempt(() => {
      const evidence = parseEvidence(piece, this.names);
      this.reader.read(evidence);
      return evidence;
    }));
  }
}

/** An event after a click on one of its values: "is" adds or takes it, "is not" excludes it. */
function toggled(event, part, isNot) {
  const operator = isNot ? "!=" : "=", same = JSON.stringify(part);
  if (!event || event.operator !== operator || event.parts.some(({ low, high }) => low !== undefined || high !== undefined)) {
    return { operator, parts: [part] };
  }
  const rest = event.parts.filter((other) => JSON.stringify(other) !== same);
  const parts = rest.length < event.parts.length ? rest : [...event.parts, part];
  return parts.length ? { operator, parts } : null;
}
