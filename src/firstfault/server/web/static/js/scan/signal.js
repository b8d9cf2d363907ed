import { TAIL_BYTES } from "./limits.js";

/** A signal held against a line: whether its text stands there, and the values in its holes. */

const SIZE = /^([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)$/;
const CLOCK = /^([0-9]+):([0-9]{2}):([0-9]{2}(?:\.[0-9]+)?)$/;
const KIB = 1024;
const BYTE_UNITS = new Map([
  ["b", 1], ["byte", 1], ["bytes", 1],
  ...["k", "m", "g", "t"].flatMap((letter, at) => ["", "b", "ib"].map((rest) => [letter + rest, KIB ** (at + 1)])),
]);
const SECONDS = new Map([
  ["ns", 1e-9], ["us", 1e-6], ["ms", 1e-3], ["milliseconds", 1e-3], ["s", 1], ["sec", 1], ["seconds", 1], ["", 1],
  ["m", 60], ["min", 60], ["minutes", 60], ["h", 3600], ["hours", 3600],
]);
const compiled = new Map();

/** The expression of a pattern, compiled when it is asked for first. */
export function expression(pattern, flags = "") {
  const key = `${flags}/${pattern}`;
  let made = compiled.get(key);
  if (!made) compiled.set(key, (made = new RegExp(pattern, flags)));
  return made;
}

/**
 * The captures of a signal in a line and, for its continuations, in the lines below; null if it does not match.
 * Continuations end where the signal's own text stands again.
 */
export function matchText(signal, line, tail) {
  const found = expression(signal.pattern).exec(line);
  if (!found) return null;
  const captures = capturesOf(signal, found);
  if (signal.then.length) {
    const rest = `${line.slice(found.index + found[0].length)}\n${tail.slice(0, TAIL_BYTES)}`;
    const again = expression(signal.pattern).exec(rest);
    const searched = again ? rest.slice(0, again.index) : rest;
    let position = 0;
    for (const pattern of signal.then) {
      const follower = expression(pattern, "g");
      follower.lastIndex = position;
      const next = follower.exec(searched);
      if (next) {
        Object.assign(captures, capturesOf(signal, next));
        position = follower.lastIndex;
      }
    }
  }
  return captures;
}

/** Where a signal's pattern stands in a text, from left to right. */
export function* matchStarts(signal, text) {
  const pattern = expression(signal.pattern, "g");
  let from = 0;
  for (;;) {
    pattern.lastIndex = from;
    const found = pattern.exec(text);
    if (!found) return;
    from = pattern.lastIndex > found.index ? pattern.lastIndex : found.index + 1;
    yield found.index;
  }
}

/** The value that a capture stands for: bytes for a size, seconds for a duration; undefined if it is none. */
export function convert(kind, text) {
  if (kind === "int" || kind === "rank") return integer(text);
  if (kind === "float") return real(text);
  if (kind === "size") return sizeOf(text);
  if (kind === "duration") {
    const clock = CLOCK.exec(text);
    return clock ? Number(clock[1]) * 3600 + Number(clock[2]) * 60 + Number(clock[3]) : durationOf(text);
  }
  return text;
}

function capturesOf(signal, found) {
  const values = {};
  for (const [name, text] of Object.entries(found.groups ?? {})) {
    const value = text === undefined ? undefined : convert(signal.holes[name], text);
    if (value !== undefined) values[name] = value;
  }
  return values;
}

function integer(text) {
  if (!/^\s*[-+]?[0-9]+\s*$/.test(text)) return undefined;
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : BigInt(text.trim().replace(/^\+/, ""));
}

function real(text) {
  if (/^[-+]?nan$/i.test(text)) return NaN;
  if (/^[-+]?inf$/i.test(text)) return text.startsWith("-") ? -Infinity : Infinity;
  return text.trim() && !Number.isNaN(Number(text)) ? Number(text) : undefined;
}

function sizeOf(text) {
  const found = SIZE.exec(text.trim());
  const unit = found && BYTE_UNITS.get(found[2].toLowerCase() || "b");
  if (!unit) return undefined;
  const size = Number(found[1]) * unit;
  return Number.isFinite(size) ? roundHalfEven(size) : undefined;
}

function durationOf(text) {
  const found = SIZE.exec(text.trim());
  const unit = found && SECONDS.get(found[2].toLowerCase());
  return unit === undefined || unit === null ? undefined : Number(found[1]) * unit;
}

function roundHalfEven(value) {
  const floor = Math.floor(value);
  if (value - floor !== 0.5) return Math.round(value);
  return floor % 2 === 0 ? floor : floor + 1;
}
