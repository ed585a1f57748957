// Cards: a monitor for every column. The prior is an outline, the posterior is filled.

const TOP = 8, MOST_POINTS = 3, POINT_SHOWN = 0.03, LONGEST = 30;
const QUARTILES = [0.25, 0.5, 0.75];

/** A row with a bar that can be clicked: a category, a point mass, or "missing". */
function barRow(label, part, card) {
  const row = h("button", {
    class: "bar", type: "button", tabindex: -1,
    onclick: (event) => card.choose(part, event.shiftKey || card.excludes),
    onmouseenter: () => card.tell(row.said), onfocus: () => card.tell(row.said), onmouseleave: () => card.tell(), onblur: () => card.tell(),
  }, h("span", { class: "label", title: label }, label), h("span", { class: "track" }, h("span", { class: "fill" }), h("span", { class: "outline" })), h("span", { class: "share" }));
  const [fill, outline] = row.querySelectorAll(".fill, .outline"), share = row.querySelector(".share");
  row.show = (now, before, top, mark) => {
    fill.style.width = `${(100 * Math.min(now, top)) / top}%`;
    outline.style.width = `${(100 * Math.min(before, top)) / top}%`;
    share.textContent = percent(now);
    row.dataset.mark = mark ?? "";
    row.said = `${label}: ${percent(now)}, ${Math.abs(now - before) < 5e-4 ? "as without evidence" : `was ${percent(before)} (${change(now, before)})`}`;
    row.setAttribute("aria-label", `${row.said}${mark ? `, ${mark}` : ""}`);
    row.setAttribute("aria-pressed", String(mark === "is"));
  };
  return row;
}

/** Whether a part of an event is "is" or "is not" in the evidence. */
function markOf(event, part) {
  const known = event?.parts.some((other) => JSON.stringify(other) === JSON.stringify(part) || (other.likelihood !== undefined && other.value === part.value));
  return known ? { "=": "is", "!=": "is not", "~": "likely" }[event.operator] ?? null : null;
}

/** What cards of all kinds have: a head with a pin and a menu, a body, a line that tells, and a field to type in. */
class Card {
  constructor(column, app) {
    Object.assign(this, { column, app, excludes: false, isDrawn: false });
    this.element = h("article", { class: "card", "data-name": column.name, "aria-label": column.name });
    this.element.style.setProperty("--body", `${this.bodyHeight()}px`);
  }

  /** Draws the card: once, when it comes into view. */
  draw() {
    this.isDrawn = true;
    const { column, app } = this;
    this.moved = h("span", { class: "moved" });
    this.pin = h("button", { class: "icon", type: "button", "aria-pressed": "false", "aria-label": `pin ${column.name} as target`, title: "Pin as target", onclick: () => app.pin(column.name) }, "◎");
    this.menu = h("button", { class: "icon", type: "button", "aria-haspopup": "menu", "aria-expanded": "false", "aria-label": `menu of ${column.name}`, title: "More", onclick: () => openMenu(this.menu, this.choices()) }, "⋯");
    this.line = h("p", { class: "told" });
    this.input = h("input", {
      type: "text", spellcheck: "false", autocomplete: "off", placeholder: this.placeholder(), "aria-label": `what is known of ${column.name}`,
      onkeydown: (event) => event.key === "Enter" ? this.type() : event.key === "Escape" && this.showEvent(), onchange: () => this.type(),
    });
    this.body = h("div", { class: "body" });
    this.drawBody();
    this.element.append(h("header", {}, h("h3", { title: column.name }, breakable(column.name)), this.moved, this.pin, this.menu), this.body, this.line, this.input);
  }

  get event() {
    return this.app.state.eventOf(this.column.name);
  }

  know(event) {
    this.app.state.know(this.column.name, event);
  }

  choose(part, isNot) {
    this.know(toggled(this.event, part, isNot));
  }

  /** Sets what was typed, if the column can be like that. */
  type() {
    const text = this.input.value.trim();
    if (this.event && text === shownEvent(this.event)) return;
    try {
      const event = text === "" ? null : parseEvent(text);
      if (event) this.column.read(event);
      this.input.removeAttribute("aria-invalid");
      this.know(event);
    } catch (error) {
      this.input.setAttribute("aria-invalid", "true");
      this.tell(error.message);
    }
  }

  showEvent() {
    this.input.value = this.event ? shownEvent(this.event) : "";
    this.input.removeAttribute("aria-invalid");
  }

  /** Tells something in the line below the body; without it what it always tells. */
  tell(text = this.summary ?? "") {
    this.line.textContent = text;
    this.line.title = text;
  }

  choices() {
    const exclude = [this.excludes ? "Click to say “is”" : "Click to say “is not”", () => this.setExcludes(!this.excludes)];
    const forget = this.event ? [["Forget what is known", () => this.know(null)]] : [];
    const pin = [this.app.state.current.target === this.column.name ? "Unpin" : "Pin as target", () => this.app.pin(this.column.name)];
    return [exclude, ...forget, pin];
  }

  setExcludes(excludes) {
    this.excludes = excludes;
    this.element.classList.toggle("excludes", excludes);
  }

  /** Shows the answer of the evaluator: distributions without evidence and with it. */
  update() {
    if (!this.isDrawn) return;
    const { name } = this.column, { app } = this, moved = app.moved.get(name) ?? 0;
    this.element.classList.toggle("known", this.event !== null);
    this.moved.textContent = this.event ? "known" : moved >= app.NOTICED ? bits(moved) : "";
    this.moved.title = this.event ? "part of the evidence" : "how much the evidence moved this column (Jensen-Shannon divergence)";
    const isTarget = app.state.current.target === name;
    this.pin.setAttribute("aria-pressed", String(isTarget));
    this.element.classList.toggle("target", isTarget);
    if (document.activeElement !== this.input) this.showEvent();
    this.show();
    this.tell();
  }
}

class CategoryCard extends Card {
  bodyHeight() {
    const { width } = this.column;
    return 26 * Math.min(width, TOP) + (width > TOP ? 28 : 0);
  }

  placeholder() {
    const { column, app } = this, prior = app.prior[app.names.indexOf(column.name)];
    const codes = Array.from(column.labels.keys()).filter((code) => code < column.known).sort((a, b) => prior[b] - prior[a]);
    const [first, second] = codes.map((code) => column.part(code)), write = (operator, ...parts) => shownEvent({ operator, parts });
    if (!second) return "";
    const one = `${write("=", first)} or ${write("!=", first)}`, several = `${write("=", first, second)} or ${write("!=", first)}`;
    return [...(codes.length > 2 ? [several] : []), one, write("!=", first)].find((text) => text.length <= LONGEST) ?? "a value, or != a value";
  }

  drawBody() {
    const { column } = this;
    this.rows = Array.from(column.labels, (label, code) => barRow(label, column.part(code), this));
    this.rows.forEach((row, code) => row.classList.toggle("special", code >= column.known));
    this.list = h("div", { class: "bars", role: "group", "aria-label": `values of ${column.name}` });
    this.more = h("button", { class: "more", type: "button", onclick: () => this.setMore(!this.isOpen) });
    this.body.append(this.list, ...(column.width > TOP ? [this.more] : []));
    roving(this.list, ".bar");
    this.order(column.numbers && column.width <= TOP ? "name" : "probability");
  }

  /** Bars by their probability without evidence, or as they are; that never changes under the reader's eyes. */
  order(by) {
    this.by = by;
    const { column, app } = this, prior = app.prior[app.names.indexOf(column.name)], codes = column.labels.map((_, code) => code);
    if (by === "probability") codes.sort((a, b) => prior[b] - prior[a]);
    this.ordered = codes.map((code) => this.rows[code]);
    this.setMore(this.isOpen ?? false);
  }

  setMore(isOpen) {
    this.isOpen = isOpen;
    this.list.replaceChildren(...(isOpen ? this.ordered : this.ordered.slice(0, TOP)));
    if (this.top) this.showBars();
    this.more.textContent = isOpen ? "fewer" : `${this.column.width - TOP} more`;
    this.more.setAttribute("aria-expanded", String(isOpen));
    this.ordered.forEach((row, i) => (row.tabIndex = i === 0 ? 0 : -1));
    this.element.classList.toggle("open", isOpen);
  }

  choices() {
    const by = this.by === "probability" ? "name" : "probability";
    return [...super.choices(), ["Likelihood ratios …", () => openLikelihoods(this)], [`Sort bars by ${by}`, () => this.order(by)]];
  }

  show() {
    const { column, app, event } = this, v = app.names.indexOf(column.name);
    const before = app.prior[v], now = app.posterior?.[v] ?? before.map(() => 0);
    Object.assign(this, { before, now, top: roof(Math.max(...before, ...now)) });
    this.showBars();
    const best = now.reduce((most, p, code) => (p > now[most] ? code : most), 0);
    this.summary = app.posterior && !event && this.ordered[0] !== this.rows[best] ? `most probable: ${column.labels[best]}` : "";
  }

  /** Draws the bars that are in the list. */
  showBars() {
    const { event, column, now, before, top } = this;
    this.rows.forEach((row, code) => row.parentNode && row.show(now[code], before[code], top, markOf(event, column.part(code))));
  }
}

/** A name that may be broken after its underscores. */
function breakable(name) {
  return name.split(/(?<=_)/).flatMap((part) => [part, h("wbr")]);
}

/** Text of an event as it stands in the field of a card. */
function shownEvent(event) {
  return writeEvent(event).replace(/^=/, "");
}

/** A small menu below a button. */
function openMenu(button, choices) {
  document.querySelector(".menu")?.close();
  let isOpen = true;
  const close = (isBack) => {
    if (!isOpen) return;
    isOpen = false; // losing the focus closes it, too
    menu.remove();
    button.setAttribute("aria-expanded", "false");
    if (isBack) button.focus();
  };
  const items = choices.map(([text, act], i) => h("button", { role: "menuitem", type: "button", tabindex: i ? -1 : 0, onclick: () => { close(true); act(); } }, text));
  const menu = h("div", {
    class: "menu", role: "menu", onkeydown: (event) => (event.key === "Escape" || event.key === "Tab") && (event.preventDefault(), close(true)),
    onfocusout: (event) => !menu.contains(event.relatedTarget) && close(false),
  }, items);
  menu.close = () => close(false);
  roving(menu, "[role=menuitem]");
  button.setAttribute("aria-expanded", "true");
  button.closest(".card").append(menu);
  items[0].focus();
}
