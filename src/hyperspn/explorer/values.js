// Values as text: numbers as their table spells them, dates in its format, and back.

export const LENGTHS = { day: 86400, hour: 3600, minute: 60, second: 1 };
const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
  "November", "December"];
const PLAIN = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
const FIELDS = {
  "%Y": "(?<Y>-?\\d{4,})", "%m": "(?<m>\\d{1,2})", "%d": "(?<d>\\d{1,2})", "%b": "(?<b>[A-Za-z]{3})", "%B": "(?<b>[A-Za-z]+)",
  "%H": "(?<H>\\d{1,2})", "%I": "(?<I>\\d{1,2})", "%M": "(?<M>\\d{2})", "%S": "(?<S>\\d{2}(?:\\.\\d+)?)", "%p": "(?<p>[AaPp][Mm])",
};
const ISO = ["%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%H:%M", "%H:%M:%S"];

/** A number as text: with the decimals of its column, or with `digits` significant ones. */
export function writeNumber(x, decimals, spelling, digits = 6) {
  const places = spelling?.places ?? decimals;
  let text = places === null || places === undefined ? plainNumber(x, digits) : x.toFixed(Math.max(places, decimals ?? 0));
  if (!spelling) return text.replace(/^-(0(\.0*)?)$/, "$1");
  const [whole, fraction] = text.split(".");
  text = whole.replace(/\B(?=(\d{3})+(?!\d))/g, spelling.thousands) + (fraction ? spelling.decimal + fraction : "");
  return spelling.prefix + text + spelling.suffix;
}

function plainNumber(x, digits) {
  const text = String(Number(x.toPrecision(digits)));
  return text.includes("e") ? text.replace("e+", "e") : text;
}

/** The number that text spells, NaN if none. */
export function readNumber(text, spelling) {
  let plain = text.trim();
  if (spelling) {
    if (!plain.startsWith(spelling.prefix) || !plain.endsWith(spelling.suffix)) return NaN;
    plain = plain.slice(spelling.prefix.length, plain.length - spelling.suffix.length);
    if (spelling.thousands) plain = plain.replaceAll(spelling.thousands, "");
    plain = plain.replace(spelling.decimal, ".");
  }
  return PLAIN.test(plain) ? Number(plain) : NaN;
}

/** A number of a unit since 1970, or since midnight, in the format of its column. */
export function writeDate(x, { format, unit, isTime }) {
  const moment = new Date(x * LENGTHS[unit] * 1000);
  if (!Number.isFinite(moment.getTime())) return "";
  const pattern = format?.pattern ?? (isTime ? "%H:%M:%S" : unit === "day" ? "%Y-%m-%d" : "%Y-%m-%dT%H:%M:%S");
  const two = (value) => String(value).padStart(format?.padded === false ? 1 : 2, "0");
  const always = (value) => String(value).padStart(2, "0");
  const hours = moment.getUTCHours(), month = MONTHS[moment.getUTCMonth()];
  const seconds = moment.getUTCSeconds() + moment.getUTCMilliseconds() / 1000, digits = format?.digits ?? 0;
  const fields = {
    "%Y": String(moment.getUTCFullYear()).padStart(4, "0"), "%m": two(moment.getUTCMonth() + 1), "%d": two(moment.getUTCDate()),
    "%b": month.slice(0, 3), "%B": month, "%H": two(hours), "%I": two(hours % 12 || 12), "%M": always(moment.getUTCMinutes()),
    "%S": seconds.toFixed(digits).padStart(digits ? digits + 3 : 2, "0"), "%p": hours < 12 ? "AM" : "PM",
  };
  return pattern.replace(/%[a-zA-Z]/g, (field) => fields[field]) + (format?.zone ?? "");
}

/** The number of a date in the format of its column, or as ISO 8601 has it; NaN if none. */
export function readDate(text, { format, unit }) {
  const zone = format?.zone ?? "", plain = text.trim();
  const inFormat = format && plain.endsWith(zone) ? [[format.pattern, plain.slice(0, plain.length - zone.length)]] : [];
  for (const [pattern, part] of [...inFormat, ...ISO.map((iso) => [iso, plain])]) {
    const escaped = pattern.replace(/[.+/ ,]/g, "\\$&").replace(/%[a-zA-Z]/g, (field) => FIELDS[field]);
    const fields = new RegExp(`^${escaped}$`).exec(part)?.groups;
    if (fields) return seconds(fields) / LENGTHS[unit];
  }
  return NaN;
}

function seconds({ Y, m, d, b, H, I, M = 0, S = 0, p }) {
  const month = b ? MONTHS.findIndex((name) => name.slice(0, 3).toLowerCase() === b.slice(0, 3).toLowerCase()) : m - 1;
  const hours = I ? (Number(I) % 12) + (p.toLowerCase() === "pm" ? 12 : 0) : Number(H ?? 0);
  const days = Y === undefined ? 0 : Date.UTC(Number(Y), month, Number(d)) / 1000;
  const isDay = Y === undefined || new Date(days * 1000).getUTCDate() === Number(d);
  return isDay && hours < 24 && M < 60 && S < 60 ? days + hours * 3600 + M * 60 + Number(S) : NaN;
}
