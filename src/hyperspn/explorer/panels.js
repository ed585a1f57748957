// Panels: the pinned target, and dialogs for two columns, rows, likelihoods, commands, and what the page holds.

const MOST_COLUMNS = 24, SAMPLES = 10, MATCHES = 20;

/** A dialog with a title; it closes with escape, its button, or a click beside it. */
function openDialog(title, ...content) {
  const dialog = h("dialog", { "aria-label": title, onclick: (event) => event.target === dialog && dialog.close(), onclose: () => dialog.remove() },
    h("div", { class: "sheet" }, h("header", {}, h("h2", {}, title), h("button", { class: "icon", type: "button", "aria-label": "close", onclick: () => dialog.close() }, "✕")), content));
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** The pinned target: its card, what would tell most about it, and what each piece of evidence adds. */
class TargetPanel {
  constructor(app) {
    this.app = app;
    this.element = document.getElementById("target");
  }

  async update() {
    const { app } = this, { target } = app.state.current;
    this.element.hidden = target === null;
    if (target === null) return this.element.replaceChildren();
    const v = app.names.indexOf(target);
    if (this.shown !== target) {
      this.shown = target;
      this.influences = h("ol", { class: "influences" });
      this.note = h("p", { class: "note" }, "");
      this.explanation = h("div", { class: "explanation" });
      this.card = app.makeCard(app.columns[v]);
      this.card.draw();
      this.element.replaceChildren(this.card.element,
        h("section", { "aria-label": `what tells about ${target}` }, h("h3", {}, `What tells most about ${target}`), this.note, this.influences),
        h("section", { "aria-label": "what each piece of evidence adds" }, h("h3", {}, "What each piece of evidence adds"), this.explanation));
    }
    this.card.update();
    await Promise.all([this.showInfluences(v), this.explain(v)]);
  }

  async showInfluences(v) {
    const { app } = this, others = app.names.map((_, i) => i).filter((i) => i !== v);
    if (!app.posterior) return this.influences.replaceChildren();
    const values = await app.ask("influence", "influence", { evidence: app.state.evidence, target: v, others }, (part) => (this.note.textContent = `working, ${Math.round(100 * part)} %`));
    if (values === null) return;
    const ranked = others.map((i, at) => ({ name: app.names[i], bits: values[at] })).sort((a, b) => b.bits - a.bits);
    app.influences = new Map(ranked.map(({ name, bits }) => [name, bits]));
    const next = ranked.find(({ name, bits }) => !app.state.eventOf(name) && bits >= 0.005), most = Math.max(ranked[0]?.bits ?? 0, 0.1);
    this.note.textContent = next ? `Ask next: ${next.name}` : "Nothing else tells much.";
    this.influences.replaceChildren(...ranked.map(({ name, bits: value }) => h("li", {}, h("button", {
      class: `influence${name === next?.name ? " next" : ""}${app.state.eventOf(name) ? " known" : ""}`, type: "button", onclick: () => app.show(name),
    }, h("span", { class: "label", title: name }, name), h("span", { class: "track" }, h("span", { class: "fill", style: { width: `${(100 * value) / most}%` } })), h("span", { class: "share", title: bits(value) }, app.state.eventOf(name) ? "known" : bits(value))))));
    if (app.state.current.sort === "influence") app.arrange();
  }

  async explain(v) {
    const { app } = this, column = app.columns[v], evidence = app.state.evidence.filter(([name]) => name !== column.name);
    const say = (text) => this.explanation.replaceChildren(h("p", { class: "note" }, text));
    if (!app.posterior || !evidence.length) return say(evidence.length ? "" : "Nothing is known of other columns yet.");
    const now = app.posterior[v], best = column.isNumeric ? null : now.reduce((most, p, code) => (p > now[most] ? code : most), 0);
    const code = column.isNumeric ? null : this.code?.name === column.name ? this.code.code : best;
    const answer = await app.ask("explain", "explain", { evidence, target: v, code });
    if (answer !== null) this.explanation.replaceChildren(...this.steps(column, code, evidence, answer));
  }

  /** A line for each piece of evidence: how far it moves the log-odds or the mean. */
  steps(column, code, evidence, { values, std }) {
    const moves = values.slice(1).map((value, i) => value - values[i]), most = Math.max(...moves.map(Math.abs).filter(Number.isFinite), 1e-9);
    const number = writerFor(std), mean = (value) => (column.kind === "date" ? column.write(value) : number(value));
    const write = (value) => (column.isNumeric ? mean(value) : percent(1 / (1 + 2 ** -value)));
    const signed = (value) => `${value < 0 ? "−" : "+"}${column.isNumeric ? number(Math.abs(value)) : bits(Math.abs(value))}`;
    const choice = column.isNumeric ? `to the mean; standard deviation in the end ${number(std)}${column.kind === "date" ? ` ${column.description.unit}s` : ""}` : h("select", { "aria-label": "the category that is explained", onchange: ({ target }) => { this.code = { name: column.name, code: Number(target.value) }; this.explain(this.app.names.indexOf(column.name)); } },
      Array.from(column.labels, (label, at) => h("option", { value: at, selected: at === code }, label)));
    const line = (text, value, move) => h("li", {}, h("span", { class: "label", title: text }, text),
      h("span", { class: "track both" }, move === null ? null : h("span", { class: move < 0 ? "fill less" : "fill more-than", style: { width: `${Math.min((50 * Math.abs(move)) / most, 50)}%` } })),
      h("span", { class: "share" }, move === null ? "" : Number.isFinite(move) ? signed(move) : "∞"), h("span", { class: "share" }, write(value)));
    return [h("p", { class: "note" }, column.isNumeric ? choice : ["to the log-odds of ", choice]), h("ol", { class: "steps" }, line("without evidence", values[0], null),
      evidence.map(([name, event], i) => line(`${name} ${chipText(event)}`, values[i + 1], moves[i])))];
  }
}

/** Writes numbers with three digits of their standard deviation, all with as many decimals. */
function writerFor(std) {
  const places = std > 0 ? Math.max(2 - Math.floor(Math.log10(std)), 0) : 2;
  return (x) => (places > 6 ? writeNumber(x, null, null, 3) : writeNumber(x, places));
}

/** An order in which columns that depend on each other stand together: average linkage, the last group first. */
function clustered(similarity) {
  let groups = similarity.map((_, i) => [i]);
  const closeness = (a, b) => a.reduce((sum, i) => sum + b.reduce((part, j) => part + similarity[i][j], 0), 0) / (a.length * b.length);
  while (groups.length > 1) {
    let best = [0, 1], most = -Infinity;
    groups.forEach((a, i) => groups.slice(i + 1).forEach((b, j) => {
      const value = closeness(a, b);
      if (value > most) [best, most] = [[i, i + 1 + j], value];
    }));
    const joined = [...groups[best[0]], ...groups[best[1]]];
    groups = [...groups.filter((_, i) => !best.includes(i)), joined];
  }
  return (groups[0] ?? []).reverse();
}

/** A table of shaded cells that arrow keys walk through. */
function heatTable(label, rows, columns, values, write, choose = null) {
  const most = Math.max(...values.flat().filter(Number.isFinite), 1e-9);
  const cell = (value, i, j) => {
    const share = Number.isFinite(value) ? Math.sqrt(Math.max(value, 0) / most) : 0, text = Number.isFinite(value) ? write(value) : "";
    const td = h("td", { class: choose ? "link" : null, tabindex: i + j === 0 ? 0 : -1, title: `${rows[i]}, ${columns[j]}: ${text}`, onclick: choose && (() => choose(i, j)),
      onkeydown: (event) => choose && event.key === "Enter" && choose(i, j) }, text);
    td.style.setProperty("--share", `${Math.round(100 * share)}%`);
    return td;
  };
  const table = h("table", { class: "heat", role: "grid", "aria-label": label },
    h("thead", {}, h("tr", {}, h("td", {}), columns.map((name) => h("th", { scope: "col", title: name }, h("span", {}, name))))),
    h("tbody", {}, rows.map((name, i) => h("tr", {}, h("th", { scope: "row", title: name }, name), values[i].map((value, j) => cell(value, i, j))))));
  roving(table, "tbody td", columns.length);
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, table);
}

/** Which columns depend on each other; a click on a pair shows its joint distribution. */
async function openDependence(app) {
  const { evidence, target } = app.state.current, ranked = app.ranked();
  const chosen = [...new Set([...(target ? [app.names.indexOf(target)] : []), ...ranked])].slice(0, MOST_COLUMNS);
  const note = h("p", { class: "note" }, "working"), place = h("div", { class: "place" });
  const few = chosen.length < app.names.length ? ` The first ${chosen.length} of ${app.names.length} columns, as they are sorted.` : "";
  openDialog("Which columns depend on each other", note, place);
  const values = await app.ask("dialog", "dependence", { evidence, chosen }, (part) => (note.textContent = `working, ${Math.round(100 * part)} %`));
  if (values === null) return;
  const order = clustered(values.map((row) => row.map((value) => (Number.isFinite(value) ? value : 0))));
  const names = order.map((i) => app.names[chosen[i]]), sorted = order.map((i) => order.map((j) => values[i][j]));
  note.textContent = `Mutual information in bits${evidence.length ? ", given what is known" : ""}. Choose a cell to see the two columns together.${few}`;
  place.replaceChildren(heatTable("mutual information of columns", names, names, sorted, (value) => (value < 0.005 ? "0" : value.toFixed(2)), (i, j) => i !== j && openJoint(app, chosen[order[i]], chosen[order[j]])));
}

/** The joint distribution of two columns given the evidence. */
async function openJoint(app, first, second) {
  const note = h("p", { class: "note" }, "working"), place = h("div", { class: "place" });
  openDialog(`${app.names[first]} and ${app.names[second]}`, note, place);
  const answer = await app.ask("joint", "joint", { evidence: app.state.evidence, first, second }, (part) => (note.textContent = `working, ${Math.round(100 * part)} %`));
  if (answer === null) return;
  const [left, right] = answer.labels;
  note.textContent = `Probabilities in percent${app.state.evidence.length ? ", given what is known" : ""}: ${app.names[first]} in rows, ${app.names[second]} in columns. ${answer.rows.length ? bits(mutualInformation(answer.rows)) : "Nothing"} of mutual information.`;
  if (answer.rows.length) place.replaceChildren(heatTable(`joint distribution of ${app.names[first]} and ${app.names[second]}`, left, right, answer.rows, (p) => (100 * p < 0.05 ? "" : (100 * p).toFixed(1))));
}

/** Rows drawn under the evidence, and where the page has rows, those that match. */
async function openRows(app) {
  const note = h("p", { class: "note" }), place = h("div", { class: "place" });
  let drawn = [];
  const draw = async () => {
    note.textContent = app.state.evidence.length ? "Drawn from the model under what is known. They are no rows of the table." : "Drawn from the model. They are no rows of the table.";
    drawn = (await app.ask("dialog", "sample", { evidence: app.state.evidence, count: SAMPLES, seed: Math.floor(Math.random() * 2 ** 31) })) ?? drawn;
    place.replaceChildren(rowTable("drawn rows", app.columns, drawn.map((cells) => ({ cells }))));
  };
  const matching = app.rows ? [h("h3", {}, "Matching rows of the table"), matches(app)] : [];
  openDialog("Rows", note, h("p", { class: "actions" }, h("button", { type: "button", onclick: draw }, "Draw again"), h("button", { type: "button", onclick: () => download("rows.csv", csv([app.names, ...drawn])) }, "Download as CSV")), place, ...matching);
  if (app.posterior) await draw();
  else note.textContent = "No row can be like that.";
}

/** Rows as a table; where some have a rarest cell, the first column names it, because the cell may be out of view. */
function rowTable(label, columns, rows) {
  const hasStrange = rows.some(({ strange }) => strange !== undefined), side = (column) => (column.isNumeric ? "number" : "");
  const cell = (text, v, strange) => h("td", { class: `${side(columns[v])}${v === strange ? " strange" : ""}`, title: v === strange ? "the rarest value, given the rest of this row" : null }, text);
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, h("table", { class: "rows" },
    h("thead", {}, h("tr", {}, hasStrange ? h("th", { scope: "col" }, "rarest cell") : null, columns.map((column) => h("th", { scope: "col", class: side(column) }, column.name)))),
    h("tbody", {}, rows.map(({ cells, strange }) => h("tr", {}, hasStrange ? h("th", { scope: "row" }, columns[strange]?.name ?? "") : null, cells.map((text, v) => cell(text, v, strange)))))));
}

/** The rows that match the evidence, the strangest first. */
function matches(app) {
  const found = app.rows.filter(({ codes }) => app.known.every((known, v) => !known || app.columns[v].holds(known, codes[v])));
  const sorted = found.sort((a, b) => b.bits - a.bits).slice(0, MATCHES);
  const rows = sorted.map(({ codes, strange }) => ({ cells: app.columns.map((column, v) => column.show(codes[v])), strange }));
  const told = `${found.length.toLocaleString("en")} of ${app.rows.length.toLocaleString("en")} rows match${found.length > MATCHES ? `; the ${MATCHES} least probable of them` : ", the least probable first"}. In each the cell is marked, and named, whose value is rarest given the rest of the row.`;
  return h("div", {}, h("p", { class: "note" }, told), rowTable("matching rows", app.columns, rows));
}

function csv(rows) {
  const cell = (text) => (/[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

function download(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** Likelihood ratios of the categories of a column. */
function openLikelihoods(card) {
  const { column, event } = card, codes = Array.from(column.labels.keys()).filter((code) => code < column.known);
  const given = (label) => (event?.operator === "~" ? event.parts.find(({ value }) => value === label)?.likelihood ?? 0 : 1);
  const fields = codes.map((code) => h("input", { type: "number", min: 0, step: "any", value: given(column.labels[code]), "aria-label": `likelihood of ${column.labels[code]}` }));
  const keep = () => {
    const parts = codes.map((code, i) => ({ value: column.labels[code], likelihood: Number(fields[i].value) })).filter(({ likelihood }) => likelihood > 0);
    const isFlat = parts.length === codes.length && parts.every(({ likelihood }) => likelihood === parts[0].likelihood);
    if (parts.length) card.know(isFlat ? null : { operator: "~", parts });
    dialog.close();
  };
  const dialog = openDialog(`Likelihoods of ${column.name}`, h("p", { class: "note" }, "How well each value goes with what you have seen. Only ratios matter: all 1 says nothing, 0 excludes a value."),
    h("form", { class: "likelihoods", method: "dialog", onsubmit: (sent) => { sent.preventDefault(); keep(); } }, codes.map((code, i) => h("label", {}, h("span", {}, column.labels[code]), fields[i])), h("button", { type: "submit" }, "Use these")));
}

/** The question in the words of the command line, and of Python. */
function openCommand(app) {
  const { evidence, target } = app.state.current, of = target ?? app.names.find((name) => !app.state.eventOf(name)) ?? app.names[0];
  const given = writeEvidence(evidence), shell = (text) => (/^[\w./=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  const command = `hyperspn query ${shell(app.header.run ?? "RUN")} --of ${shell(of)}${given ? ` --given ${shell(given)}` : ""}`;
  const python = `model.distribution(${JSON.stringify(of)}${given ? `, given=${JSON.stringify(given)}` : ""})`;
  const line = (name, text) => {
    const field = h("textarea", { readonly: true, rows: 3, "aria-label": name }, text);
    const said = h("span", { role: "status" });
    const copy = async () => {
      field.select();
      try {
        await navigator.clipboard.writeText(text);
        said.textContent = "copied";
      } catch {
        said.textContent = document.execCommand("copy") ? "copied" : "selected: copy it with the keyboard";
      }
    };
    return [h("h3", {}, name), field, h("p", { class: "actions" }, h("button", { type: "button", onclick: copy }, "Copy"), said)];
  };
  openDialog("The same question elsewhere", line("On the command line", command), line("In Python", python));
}

/** What this page is, and what it contains. */
function openAbout(app) {
  const { header } = app, rows = app.rows ? `It contains ${app.rows.length.toLocaleString("en")} rows of the table, because that was asked for.` : "It contains no row of the table.";
  const weights = header.circuit ? `the ${header.parameters.toLocaleString("en")} parameters of the model` : "what the columns mean; the model itself answers from a server on your own machine";
  openDialog("What this page contains", h("p", {}, `This page holds ${weights}, and a summary of each column: its categories, or quantiles, frequent values, the smallest and the largest number. ${rows} It loads nothing from anywhere and sends nothing.`),
    h("p", {}, `Learned from ${header.rows === null ? "a table" : `${header.rows.toLocaleString("en")} rows`} of ${app.names.length} columns${header.recipe ? `, with the recipe ${header.recipe}` : ""}. All answers are exact under the model, which is not the table: where few rows are alike, it guesses.`),
    header.left_out.length ? h("p", {}, `Not modeled: ${header.left_out.map(([name, reason]) => `${name} (${reason})`).join(", ")}.`) : null,
    h("h3", {}, "How to ask"), h("ul", {}, ["Click a bar: the column has this value. Click another one: one of them.", "Shift and click: any other value.", "Drag over a histogram: a range; with shift, anything else.",
      "Type into a card: 30..40, >50, a|b, !=a, missing.", "Keys: tab and arrows move, enter sets, escape leaves; u undoes, r redoes, / searches."].map((text) => h("li", {}, text))));
}
