// Events: what is known of a column, as text like "=30..40", "!=Paris", ">50" or "~red:0.7|blue:0.3".

/**
 * An event is {operator, parts}: "=", "!=" with parts {value}, {low, high} or {missing: true}; ">", ">=", "<", "<=" with
 * one {value}; "~" with {value, likelihood}. Values are text, as the table writes them.
 */
export function parseEvent(text) {
  const [, operator, rest] = /^\s*(!=|>=|<=|=|>|<|~)?\s*([^]*?)\s*$/.exec(text);
  if (rest === "") throw new Error("expected a value, a range like 30..40, or values with | between them");
  if (operator === "~") return { operator, parts: split(rest, "|").map(parseLikelihood) };
  if (operator && !operator.endsWith("=") || operator === ">=" || operator === "<=") {
    return { operator, parts: [{ value: unquote(rest) }] };
  }
  return { operator: operator ?? "=", parts: split(rest, "|").map((part) => parseAlternative(part.trim())) };
}

function parseAlternative(text) {
  if (isQuoted(text)) return { value: unquote(text) };
  if (text === "missing") return { missing: true };
  const at = text.indexOf("..");
  return at < 0 ? { value: text } : { low: text.slice(0, at).trim() || null, high: text.slice(at + 2).trim() || null };
}

function parseLikelihood(text) {
  const at = text.lastIndexOf(":"), likelihood = Number(text.slice(at + 1));
  if (at < 0 || text.slice(at + 1).trim() === "" || !(likelihood >= 0) || likelihood === Infinity) {
    throw new Error("expected likelihoods like red:0.7|blue:0.3");
  }
  return { value: unquote(text.slice(0, at).trim()), likelihood };
}

/** The text of an event, which `parseEvent` reads. */
export function writeEvent({ operator, parts }) {
  if (operator === "~") return `~${parts.map(({ value, likelihood }) => `${quote(value)}:${likelihood}`).join("|")}`;
  return operator + parts.map(writePart).join("|");
}

function writePart({ value, low, high, missing }) {
  if (missing) return "missing";
  return value === undefined ? `${low ?? ""}..${high ?? ""}` : quote(value);
}

/** Evidence as `hyperspn query --given` takes it: "age=30..40, job=student|retired". */
export function writeEvidence(entries) {
  return entries.map(([name, event]) => {
    const plain = `${name}${writeEvent(event)}`, isRange = event.parts.some((part) => part.low || part.high);
    return (isRange && /[",]/.test(plain)) || /[",|=<>~!]|^\s|\s$/.test(name) ? quoteAll(name, event) : plain;
  }).join(", ");
}

/** A name with marks in it: the whole piece of evidence is quoted, as in a CSV file. */
function quoteAll(name, event) {
  return `"${`${name}${writeEvent(event)}`.replaceAll('"', '""')}"`;
}

/** Evidence from text: a list of names and events. */
export function parseEvidence(text, names) {
  return split(text, ",").map((part) => part.trim()).filter((part) => part !== "").map((part) => {
    const whole = isQuoted(part) ? unquote(part) : part;
    const cuts = [...whole.matchAll(/!=|>=|<=|=|>|<|~/g)].map(({ index }) => [whole.slice(0, index).trim(), whole.slice(index)]);
    const cut = cuts.find(([name]) => names.includes(unquote(name))) ?? cuts[0];
    if (!cut || !names.includes(unquote(cut[0]))) throw new Error(`expected the name of a column, found ${part}`);
    return [unquote(cut[0]), parseEvent(cut[1])];
  });
}

function split(text, mark) {
  const parts = [""];
  let quoted = false;
  for (const character of text) {
    if (character === '"') quoted = !quoted;
    if (character === mark && !quoted) parts.push("");
    else parts[parts.length - 1] += character;
  }
  if (quoted) throw new Error('expected a closing "');
  return parts;
}

function isQuoted(text) {
  return text.length > 1 && text.startsWith('"') && text.endsWith('"') && !text.slice(1, -1).replaceAll('""', "").includes('"');
}

function unquote(text) {
  return isQuoted(text) ? text.slice(1, -1).replaceAll('""', '"') : text;
}

function quote(value) {
  const needed = /[",|=<>~!:]|\.\.|^\s|\s$/.test(value) || value === "missing" || value === "";
  return needed ? `"${value.replaceAll('"', '""')}"` : value;
}
