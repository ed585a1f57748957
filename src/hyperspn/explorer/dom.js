// Small things of the page: elements, and numbers as people read them.

/** An element with attributes, listeners (on...) and children; text is always a text node. */
function h(tag, attributes = {}, ...children) {
  const svg = ["svg", "rect", "path", "line", "g"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** A probability in percent, with enough digits to tell it from 0 and from 100 %. */
function percent(p) {
  const value = 100 * p;
  if (value < 1e-10) return "0 %";
  if (p > 1 - 1e-12) return "100 %";
  if (value < 0.01) return "< 0.01 %";
  if (value > 99.99) return "> 99.99 %";
  return `${value.toFixed(value < 1 || value > 99 ? 2 : 1)} %`;
}

/** A small probability as a power of ten: 5.6 · 10⁻¹⁷. */
function power(p) {
  const [digits, exponent] = p.toExponential(1).split("e");
  return `${digits} · 10${exponent.replace(/./g, (sign) => (sign === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign]))}`;
}

/** A number of rows. */
function count(n) {
  return n < 10 ? n.toFixed(n < 1 ? 2 : 1) : Math.round(n).toLocaleString("en");
}

function bits(value) {
  return value < 0.0005 ? "0 bits" : `${value.toFixed(value < 0.01 ? 3 : 2)} bits`;
}

/** The change of a probability in percentage points. */
function change(now, before) {
  const points = 100 * (now - before);
  return Math.abs(points) < 0.05 ? "unchanged" : `${points > 0 ? "+" : "−"}${Math.abs(points).toFixed(1)} points`;
}

/** The least of 0.1, 0.2, 0.5 and 1 that is not below a probability: where bars end. */
function roof(p) {
  return [0.05, 0.1, 0.2, 0.5].find((limit) => p <= limit) ?? 1;
}

/** Lets arrow keys move the focus among the elements of a group, of which one is in the order of the tab key. */
function roving(group, selector, across = 1) {
  group.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: across, ArrowUp: -across, ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
    const items = [...group.querySelectorAll(selector)], at = items.indexOf(document.activeElement);
    if (at < 0 || !(event.key in steps)) return;
    const place = Math.min(Math.max(at + steps[event.key], 0), items.length - 1);
    event.preventDefault();
    items.forEach((item, i) => (item.tabIndex = i === place ? 0 : -1));
    items[place].focus();
  });
}
