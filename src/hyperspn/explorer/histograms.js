// Histograms: cards of columns of numbers and dates.

const HIGH = 100, WIDE = 300, TALLEST = 3, CLEARLY = 0.1;

class NumberCard extends Card {
  bodyHeight() {
    return 142 + 26 * this.rowsShown().length;
  }

  placeholder() {
    const { column, app } = this, [low, high] = quantilesOf(column, [0.25, 0.75], app.prior[app.names.indexOf(column.name)]).map((x) => column.write(x));
    const range = low === high ? low : `${low}..${high}`;
    return [`${range} or >${high}`, `${low} or >${high}`].find((text) => text.length <= LONGEST) ?? `>${high}`;
  }

  /** The point masses that have rows of their own, and "missing". */
  rowsShown() {
    const { column, app } = this, prior = app.prior[app.names.indexOf(column.name)];
    const all = column.points.map((point, i) => ({ point, member: column.members + i, share: prior[column.members + i] }));
    const frequent = all.filter(({ point, share }) => point !== Infinity && share >= POINT_SHOWN).sort((a, b) => b.share - a.share);
    const told = frequent.length <= 2 * MOST_POINTS ? frequent : frequent.filter(({ share }) => share >= CLEARLY);
    return [...told.slice(0, MOST_POINTS), ...all.filter(({ point }) => point === Infinity)];
  }

  drawBody() {
    const { column } = this;
    this.axis = axisOf(column);
    this.cursor = { from: 0, to: 0 };
    this.bars = this.axis.bins.map(() => h("rect", { class: "fill" }));
    this.spikes = column.scale.points.map(() => h("line", { class: "spike" }));
    this.outline = h("path", { class: "outline" });
    this.spikeOutlines = column.scale.points.map(() => h("line", { class: "spike-outline" }));
    this.quartiles = QUARTILES.map(() => h("line", { class: "quartile" }));
    this.selection = h("rect", { class: "selection", y: 0, height: HIGH, width: 0 });
    this.plot = h("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      this.bars, this.outline, this.spikes, this.spikeOutlines, this.quartiles, this.selection);
    const ticks = this.axis.ticks.map(({ at, side, text }) => h("span", { class: side, style: { left: `${100 * at}%` } }, text));
    this.slider = h("div", {
      class: "plot", role: "slider", tabindex: 0, "aria-label": `histogram of ${column.name}: arrows move, shift and arrows select, enter keeps the range`,
      "aria-valuemin": 0, "aria-valuemax": this.axis.bins.length - 1, onkeydown: (event) => this.press(event), onblur: () => this.leave(),
    }, this.plot);
    this.listen();
    this.rows = this.rowsShown().map(({ point, member }) => {
      const isMissing = point === Infinity, row = barRow(isMissing ? "missing" : `= ${column.write(point)}`, isMissing ? { missing: true } : { value: column.write(point) }, this);
      row.classList.toggle("special", isMissing);
      row.tabIndex = 0;
      return Object.assign(row, { member, part: isMissing ? { missing: true } : { value: column.write(point) } });
    });
    this.body.append(this.slider, h("div", { class: "ticks", "aria-hidden": "true" }, ticks), ...this.rows);
  }

  listen() {
    const binAt = (event) => {
      const box = this.slider.getBoundingClientRect(), part = (event.clientX - box.left) / box.width;
      const at = this.axis.bins.findIndex(({ right }) => part < right);
      return at < 0 ? this.axis.bins.length - 1 : at;
    };
    let start = null;
    this.slider.addEventListener("pointerdown", (event) => {
      start = binAt(event);
      this.slider.setPointerCapture(event.pointerId);
      this.select(start, start);
    });
    this.slider.addEventListener("pointermove", (event) => {
      const at = binAt(event);
      if (start === null) this.tell(this.said(at, at));
      else this.select(Math.min(start, at), Math.max(start, at));
    });
    this.slider.addEventListener("pointerup", (event) => {
      if (start !== null) this.keep(event.shiftKey || this.excludes);
      start = null;
    });
    this.slider.addEventListener("pointercancel", () => (start = null, this.leave()));
    this.slider.addEventListener("pointerleave", () => start === null && this.tell());
  }

  /** Marks the bins of a range, and tells its probability. */
  select(from, to) {
    this.cursor = { from, to };
    const { bins } = this.axis;
    this.selection.setAttribute("x", WIDE * bins[from].left);
    this.selection.setAttribute("width", WIDE * (bins[to].right - bins[from].left));
    this.slider.setAttribute("aria-valuenow", to);
    this.slider.setAttribute("aria-valuetext", this.said(from, to));
    this.tell(this.said(from, to));
  }

  leave() {
    this.selection.setAttribute("width", 0);
    this.tell();
  }

  /** The range between the selected bins becomes evidence. */
  keep(isNot) {
    const { column } = this, { from, to } = this.cursor, half = column.scale.width / 2;
    const [low, high] = [this.axis.bins[from].ends[0] + half, this.axis.bins[to].ends[1] - half];
    const ends = [low, high].map((x) => (Number.isFinite(x) ? column.write(x) : null));
    this.leave();
    if (ends[0] === null && ends[1] === null) return this.know(null);
    this.know({ operator: isNot ? "!=" : "=", parts: [ends[0] === ends[1] ? { value: ends[0] } : { low: ends[0], high: ends[1] }] });
  }

  press(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1 }[event.key], last = this.axis.bins.length - 1;
    const move = (at) => Math.min(Math.max(at, 0), last);
    if (step && event.shiftKey) this.select(this.cursor.from, Math.max(move(this.cursor.to + step), this.cursor.from));
    else if (step) this.select(...Array(2).fill(move((step > 0 ? this.cursor.to : this.cursor.from) + step)));
    else if (event.key === "Home" || event.key === "End") this.select(...Array(2).fill(event.key === "Home" ? 0 : last));
    else if (event.key === "Enter" || event.key === " ") this.keep(event.shiftKey || this.excludes);
    else if (event.key === "Escape") this.know(null);
    else return;
    event.preventDefault();
  }

  /** What the bins between two say: values, probability and change. */
  said(from, to) {
    const sum = (values) => values.slice(from, to + 1).reduce((a, b) => a + b, 0);
    const { bins } = this.axis, ends = [bins[from].ends[0], bins[to].ends[1]];
    const inside = this.column.scale.points.map((point, i) => (ends[0] <= point && point < ends[1] ? this.column.members + i : -1)).filter((i) => i >= 0);
    const points = (values) => inside.reduce((total, member) => total + values[member], 0);
    const label = rangeLabel(this.column, ...ends), now = sum(this.now) + points(this.posterior), before = sum(this.before) + points(this.prior);
    return `${label || "any value"}: ${percent(now)}, ${Math.abs(now - before) < 5e-4 ? "as without evidence" : `was ${percent(before)} (${change(now, before)})`}`;
  }

  show() {
    const { column, app } = this, v = app.names.indexOf(column.name);
    this.prior = app.prior[v];
    this.posterior = app.posterior?.[v] ?? this.prior.map(() => 0);
    const known = app.posterior ? app.known[v] : null;
    this.before ??= normalMasses(column, this.axis.bins, this.prior, null);
    this.now = app.posterior ? normalMasses(column, this.axis.bins, this.posterior, known) : this.before.map(() => 0);
    const points = column.scale.points.map((_, i) => column.members + i);
    const bars = Math.max(...this.before, ...this.now), spikes = Math.max(0, ...points.flatMap((i) => [this.prior[i], this.posterior[i]]));
    const top = Math.max(bars, bars ? Math.min(spikes, TALLEST * bars) : spikes) || 1, high = (p) => (HIGH - 4) * Math.min(p / top, 1);
    this.bars.forEach((bar, i) => {
      const { left, right } = this.axis.bins[i], tall = high(this.now[i]);
      for (const [name, value] of Object.entries({ x: WIDE * left, width: Math.max(WIDE * (right - left) - 0.6, 0.4), y: HIGH - tall, height: tall })) bar.setAttribute(name, value);
    });
    const steps = this.axis.bins.map(({ left, right }, i) => `L${WIDE * left},${HIGH - high(this.before[i])}L${WIDE * right},${HIGH - high(this.before[i])}`);
    this.outline.setAttribute("d", `M0,${HIGH}${steps.join("")}L${WIDE},${HIGH}`);
    points.forEach((member, i) => {
      vertical(this.spikes[i], WIDE * this.axis.place(column.scale.points[i]), high(this.posterior[member]));
      this.spikes[i].classList.toggle("cut", this.posterior[member] > 1.001 * top);
      vertical(this.spikeOutlines[i], WIDE * this.axis.place(column.scale.points[i]), high(this.prior[member]));
    });
    this.rows.forEach((row) => row.show(this.posterior[row.member], this.prior[row.member], 1, markOf(this.event, row.part)));
    this.showQuartiles(known);
  }

  showQuartiles(known) {
    const { column, app } = this;
    if (!app.posterior) this.summary = "";
    else {
      const values = quantilesOf(column, QUARTILES, this.posterior, known);
      values.forEach((x, i) => vertical(this.quartiles[i], WIDE * this.axis.place(x), 7));
      const [low, middle, high] = values.map((x) => column.write(x));
      this.summary = `median ${middle}, ${low === high ? `at least half ${low}` : `half ${low}–${high}`}`;
    }
    this.slider.setAttribute("aria-valuenow", this.cursor.to);
    this.slider.setAttribute("aria-valuetext", this.summary || "no values");
  }
}

function vertical(line, x, tall) {
  for (const [name, value] of Object.entries({ x1: x, x2: x, y1: HIGH, y2: HIGH - tall })) line.setAttribute(name, value);
  line.style.display = tall > 0.01 ? "" : "none";
}

/** The probability of each bin, without point masses, which are drawn as spikes. */
function normalMasses(column, bins, posterior, known) {
  const normals = posterior.map((p, member) => (member < column.members ? p : 0));
  return massesOf(column, bins, normals, known);
}
