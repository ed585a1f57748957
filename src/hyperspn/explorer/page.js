// The page: reads the model, shows a card for every column, and keeps everything in step.

const NOTICED = 0.001, SLOW = 150, FEW = 5, MARGIN = 400;

class App {
  constructor(content, session) {
    Object.assign(this, { header: content.header, session, NOTICED });
    this.columns = columnsOf(content);
    this.names = this.columns.map(({ name }) => name);
    this.reader = new Model(this.columns, null);
    this.rows = content.header.with_rows ? rowsOf(content, this.columns.length) : null;
    this.moved = new Map();
    this.influences = new Map();
    this.search = "";
    this.busy = 0;
    this.seen = new IntersectionObserver((entries) => entries.forEach(({ isIntersecting, target }) => isIntersecting && this.bring(target.card)), { rootMargin: `${MARGIN}px` });
  }

  async start() {
    this.prior = (await this.ask("open", "infer", { evidence: [] })).posterior;
    this.state = new State(this.reader, () => this.update());
    this.cards = this.columns.map((column) => this.makeCard(column));
    this.cards.forEach((card) => {
      card.element.card = card;
      this.seen.observe(card.element);
    });
    this.target = new TargetPanel(this);
    this.drawHeader();
    await this.update();
    document.body.dataset.ready = "true";
  }

  makeCard(column) {
    return column.isNumeric ? new NumberCard(column, this) : new CategoryCard(column, this);
  }

  /** Draws a card that comes into view. */
  bring(card) {
    if (!card.isDrawn) card.draw();
    if (card.shown !== this.answered) card.update();
    card.shown = this.answered;
  }

  /** Asks the evaluator; where that takes long, the page says so. */
  async ask(channel, question, given, progress) {
    let isLate = false;
    const timer = setTimeout(() => this.work(isLate = true), SLOW);
    try {
      return await this.session.ask(channel, question, given, progress);
    } finally {
      clearTimeout(timer);
      if (isLate) this.work(false);
    }
  }

  work(begins) {
    this.busy += begins ? 1 : -1;
    document.body.toggleAttribute("data-working", this.busy > 0);
  }

  /** Shows what follows from the evidence. */
  async update() {
    const { dataset } = document.body, number = (this.asked = (this.asked ?? 0) + 1);
    let answer = null;
    dataset.asked = number;
    try {
      this.known = this.reader.read(this.state.evidence);
      answer = await this.ask("update", "infer", { evidence: this.state.evidence });
    } catch (error) {
      document.getElementById("warning").textContent = error.message;
    }
    if (answer === null) return;
    this.answer = answer;
    this.posterior = answer.posterior;
    this.answered = (this.answered ?? 0) + 1;
    this.measure();
    this.arrange();
    this.cards.filter((card) => card.isDrawn && isNear(card.element)).forEach((card) => this.bring(card));
    this.showHeader();
    await this.target.update();
    dataset.shown = number;
  }

  /** How far each column moved, in bits. */
  measure() {
    this.priorMasses ??= this.columns.map((column, v) => massesOf(column, piecesOf(column), this.prior[v]));
    this.columns.forEach((column, v) => {
      const hasMoved = this.posterior && this.state.evidence.length;
      this.moved.set(column.name, hasMoved ? divergence(this.priorMasses[v], massesOf(column, piecesOf(column), this.posterior[v], this.known[v])) : 0);
    });
  }

  /** The columns in the order in which they are sorted. */
  ranked() {
    const order = this.names.map((_, v) => v), by = (values) => (a, b) => (values.get(this.names[b]) ?? -1) - (values.get(this.names[a]) ?? -1);
    const { sort } = this.state.current;
    if (sort === "name") order.sort((a, b) => this.names[a].localeCompare(this.names[b], "en", { numeric: true }));
    if (sort === "moved") order.sort(by(this.moved));
    if (sort === "influence") order.sort(by(this.influences));
    return order;
  }

  /** Puts the cards in order, and hides those that are not searched for. */
  arrange() {
    const grid = document.getElementById("cards"), wanted = this.ranked().map((v) => this.cards[v].element);
    if (wanted.some((element, i) => grid.children[i] !== element)) {
      const focused = document.activeElement;
      grid.replaceChildren(...wanted);
      if (focused !== document.body) focused.focus({ preventScroll: true });
    }
    const sought = this.search.toLowerCase();
    for (const { element, column } of this.cards) element.hidden = column.name === this.state.current.target || !column.name.toLowerCase().includes(sought);
    document.getElementById("none").hidden = sought === "" || this.cards.some(({ element }) => !element.hidden);
  }

  pin(name) {
    const { current } = this.state, target = current.target === name ? null : name;
    this.state.set({ ...current, target, sort: target === null && current.sort === "influence" ? "table" : current.sort });
  }

  /** Brings the card of a column into view. */
  show(name) {
    const card = name === this.state.current.target ? this.target.card : this.cards[this.names.indexOf(name)];
    document.getElementById("search").value = this.search = "";
    this.arrange();
    card.element.scrollIntoView({ block: "center" });
    this.bring(card);
    card.element.querySelector(".bar[tabindex='0'], .plot")?.focus({ preventScroll: true });
  }

  drawHeader() {
    const { header } = this, on = (id, type, act) => document.getElementById(id).addEventListener(type, act);
    document.title = `${header.title} · explorer`;
    document.getElementById("title").textContent = header.title;
    document.getElementById("size").textContent = `${this.names.length} columns${header.rows === null ? "" : `, learned from ${header.rows.toLocaleString("en")} rows`}`;
    on("undo", "click", () => this.state.undo());
    on("redo", "click", () => this.state.redo());
    on("command", "click", () => openCommand(this));
    on("dependence", "click", () => openDependence(this));
    on("samples", "click", () => openRows(this));
    on("about", "click", () => openAbout(this));
    on("search", "input", ({ target }) => { this.search = target.value; this.arrange(); });
    on("sort", "change", ({ target }) => this.state.set({ ...this.state.current, sort: target.value }));
    addEventListener("keydown", (event) => this.press(event));
    addEventListener("beforeprint", () => this.cards.forEach((card) => this.bring(card)));
  }

  press(event) {
    const isTyping = event.target.closest?.("input, textarea, select") || document.querySelector("dialog[open]");
    const control = event.ctrlKey || event.metaKey;
    if (control && event.key.toLowerCase() === "z" && !isTyping) event.shiftKey ? this.state.redo() : this.state.undo();
    else if (isTyping || control || event.altKey) return;
    else if (event.key === "u") this.state.undo();
    else if (event.key === "r") this.state.redo();
    else if (event.key === "/") document.getElementById("search").focus();
    else return;
    event.preventDefault();
  }

  showHeader() {
    const { evidence, sort, target } = this.state.current, put = (id, text) => (document.getElementById(id).textContent = text);
    document.getElementById("undo").disabled = !this.state.past.length;
    document.getElementById("redo").disabled = !this.state.future.length;
    document.getElementById("samples").disabled = !this.posterior;
    document.getElementById("by-influence").disabled = target === null;
    document.getElementById("sort").value = sort;
    const { chance, rows, warning } = this.told(evidence);
    put("chance", chance);
    put("rows", rows);
    put("warning", this.state.refused.length ? `Left out of the link: ${this.state.refused.join("; ")}.` : warning);
    const moved = [...this.moved].filter(([name, value]) => value >= NOTICED && !this.state.eventOf(name)).length;
    put("moved", evidence.length ? `${moved} of ${this.names.length - evidence.length} other columns moved` : "");
    this.showChips(evidence);
  }

  /** The probability of the evidence in words, and about how many rows are like that. */
  told(evidence) {
    const { logP, isProbability } = this.answer, total = this.header.rows, p = Math.exp(logP);
    if (!evidence.length) return { chance: "100 %", rows: total === null ? "" : `all ${total.toLocaleString("en")} rows`, warning: "" };
    if (!this.posterior) return { chance: "0 %", rows: "no row", warning: "No row can be like that: the evidence is impossible under the model." };
    if (!isProbability) return { chance: "–", rows: "", warning: "Likelihoods or exact values of continuous numbers are given: these have no probability." };
    const like = total === null ? null : total * p;
    const warning = like !== null && like < FEW ? (like < 0.5 ? "There is hardly any such row: the answers are the model's guess." : "There are only few such rows: take the answers with care.") : "";
    const about = like < 0.005 ? "fewer than 0.01" : `about ${count(like)}`;
    return { chance: p < 1e-4 ? power(p) : percent(p), rows: like === null ? "" : `${about} of ${total.toLocaleString("en")} rows`, warning };
  }

  showChips(evidence) {
    const chip = ([name, event]) => h("li", {}, h("button", { class: "chip", type: "button", "aria-label": `forget ${name}${writeEvent(event)}`, onclick: () => this.state.know(name, null) }, h("span", {}, `${name} ${chipText(event)}`), h("span", { "aria-hidden": "true" }, "✕")));
    const clear = h("li", {}, h("button", { class: "clear", type: "button", onclick: () => this.state.set({ ...this.state.current, evidence: [] }) }, "forget all"));
    const hint = h("li", { class: "hint" }, "Click a bar, drag over a histogram, or type into a card to say what is known.");
    document.getElementById("chips").replaceChildren(...(evidence.length ? [...evidence.map(chip), ...(evidence.length > 1 ? [clear] : [])] : [hint]));
  }
}

/** Whether an element is in view, or nearly so. */
function isNear(element) {
  const { top, bottom } = element.getBoundingClientRect();
  return bottom > -MARGIN && top < innerHeight + MARGIN;
}

/** An event as people read it. */
function chipText(event) {
  const signs = { "=": "=", "!=": "≠", ">=": "≥", "<=": "≤", ">": ">", "<": "<", "~": "~" }, text = writeEvent(event).slice(event.operator.length);
  return `${signs[event.operator]} ${text.replaceAll("|", " or ").replace(/(?<=[^.])\.\.(?=[^.])/g, " to ")}`;
}

/** The rows that the page contains: codes or numbers, the surprisal of each in bits, and its strangest cell. */
function rowsOf({ arrays }, width) {
  return Array.from(arrays["rows.bits"], (bits, i) => ({ bits, strange: arrays["rows.strange"][i], codes: arrays["rows.codes"].subarray(i * width, (i + 1) * width) }));
}

async function main() {
  const packed = document.getElementById("model").textContent, session = new Session(document.getElementById("evaluator").textContent);
  const content = await unpack(packed), address = content.header.served ? location.href.replace(/[#?].*$/, "") : null;
  await session.ask("open", "open", { packed, address });
  await new App(content, session).start();
}

main().catch((error) => {
  document.getElementById("warning").textContent = `This page could not start: ${error.message}`;
});
