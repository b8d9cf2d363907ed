/** Text without what identifies people, machines and accounts: the same rules and pseudonyms as `firstfault.ingest.redact`. */
import { MAX_LINE_CHARS } from "./limits.js";

// eslint-disable-next-line no-control-regex
const COLOURS = /\x1b\[[0-9;:]{0,64}m/g;
const BLOCK_BEGIN = /-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----[ \t\n\r\f\v]*$/;
const BLOCK_END = /-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----/;
const MAX_BLOCK_LINES = 400;
const SHORTEST_NAME = 4;
const SECRETS = new Set(["token", "key", "password", "cookie"]);
const LEARNT = ["host", "ip"];

export class Redactor {
  /** @param rules the pack's redaction rules, their expressions in JavaScript's form */
  constructor(rules) {
    this.rules = rules.map((rule) => ({
      ...rule,
      expression: new RegExp(rule.pattern, rule.ignore_case ? "gid" : "gd"),
      followed: rule.follows ? new RegExp(rule.follows) : null,
      kept: rule.unless ? new RegExp(`^(?:${rule.unless})$`, rule.ignore_case ? "i" : "") : null,
      needed: rule.holds.map((part) => new RegExp(part)),
    }));
    this.names = new Map();
    this.counts = new Map();
    this.foundBy = new Map();
    this.times = new Map();
    this.hosts = new Set();
    this.knownHosts = null;
    this.blockLines = 0;
    this.previous = "";
  }

  /** Notes the hosts and addresses of the lines, so that pseudonyms sort as the names do. */
  learn(lines) {
    const found = new Map(LEARNT.map((kind) => [kind, new Map()]));
    for (const raw of lines) {
      const line = withoutColours(raw);
      for (const [start, end, kind, rule] of this.spans(line.slice(0, MAX_LINE_CHARS))) {
        const value = line.slice(start, end);
        found.get(kind)?.set(`${value} ${kind} ${rule}`, { value, rule });
      }
    }
    for (const [kind, values] of found) {
      const sorted = [...values.values()].sort(
        (a, b) => natural(a.value, b.value) || codePoints(a.value, b.value) || codePoints(a.rule, b.rule),
      );
      for (const { value, rule } of sorted) this.name(value, kind, rule);
    }
  }

  /** The line with every found value replaced, not counted in the manifest. */
  maskUncounted(line) {
    const times = new Map(this.times);
    const masked = this.mask(line);
    this.times = times;
    return masked;
  }

  /** The line without colours and with every found value replaced; lines of a private key are replaced as a whole. */
  mask(raw) {
    const line = withoutColours(raw);
    if (this.blockLines) return this.maskBlock(line);
    if (BLOCK_BEGIN.test(line)) this.blockLines = MAX_BLOCK_LINES;
    const cut = line.slice(0, MAX_LINE_CHARS);
    let masked = "";
    let at = 0;
    for (const [start, end, kind, rule] of this.spans(cut)) {
      masked += cut.slice(at, start) + this.shown(this.name(cut.slice(start, end), kind, rule));
      at = end;
    }
    return masked + cut.slice(at);
  }

  /** A path: what the text names, and hosts, addresses and tokens in the names of its parts, are masked. */
  maskPath(path) {
    const slash = path.lastIndexOf("/") + 1;
    return this.mask(path.slice(0, slash)) + this.maskName(path.slice(slash));
  }

  maskName(name) {
    const dot = name.lastIndexOf(".");
    return dot > 0 ? `${this.mask(name.slice(0, dot))}.${name.slice(dot + 1)}` : this.mask(name);
  }

  /** What was masked so far, by kind and number. */
  manifest() {
    return [...this.times]
      .sort(([a], [b]) => natural(a, b))
      .map(([pseudonym, times]) => ({ pseudonym, kind: kindOf(pseudonym), rule: this.foundBy.get(pseudonym), times }));
  }

  maskBlock(line) {
    if (BLOCK_END.test(line)) {
      this.blockLines = 0;
      return this.mask(line);
    }
    this.blockLines--;
    const value = line.trim();
    return value ? this.shown(this.name(value, "key", "private-key-block")) : line;
  }

  /** Places to mask from left to right. A secret that overlaps with a place widens it; a name that does leaves it. */
  spans(line) {
    const lowered = line.toLowerCase();
    let result = [];
    for (const rule of this.rules) {
      if (rule.followed && !rule.followed.test(this.previous)) continue;
      for (const [start, end] of spansOf(rule, line, lowered)) {
        const touched = result.filter((item) => item[0] < end && start < item[1]);
        if (!touched.length) {
          result.push([start, end, rule.kind, rule.id]);
        } else if (SECRETS.has(rule.kind)) {
          result = result.filter((item) => !touched.includes(item));
          const first = Math.min(start, ...touched.map((item) => item[0]));
          result.push([first, Math.max(end, ...touched.map((item) => item[1])), touched[0][2], touched[0][3]]);
        }
      }
    }
    if (this.hosts.size) {
      for (const found of line.matchAll(this.hostExpression())) {
        const start = found.index;
        const end = start + found[0].length;
        if (!result.some((item) => item[0] < end && start < item[1])) result.push([start, end, "host", "known-host"]);
      }
    }
    this.previous = line;
    return result.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  }

  name(value, kind, rule) {
    const short = kind === "host" ? shortName(value) : value;
    const key = `${kind} ${short}`;
    let name = this.names.get(key);
    if (name === undefined) {
      this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1);
      name = `${kind}-${this.counts.get(kind)}`;
      this.names.set(key, name);
      this.foundBy.set(name, rule);
      if (kind === "host" && isDistinct(short)) {
        this.hosts.add(short);
        this.knownHosts = null;
      }
    }
    return name;
  }

  /** Finds the hosts named so far, also as a part of a file's name: `log_gn-08_0`, but not `gn-08-1`. */
  hostExpression() {
    if (!this.knownHosts) {
      const names = [...this.hosts].sort((a, b) => b.length - a.length || codePoints(a, b));
      const either = names.map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
      this.knownHosts = new RegExp(`(?<![A-Za-z0-9.-])(?:${either})(?![A-Za-z0-9]|-[0-9])`, "g");
    }
    return this.knownHosts;
  }

  shown(name) {
    this.times.set(name, (this.times.get(name) ?? 0) + 1);
    return `‹${name}›`;
  }
}

function spansOf(rule, line, lowered) {
  if (rule.literals.length && !rule.literals.some((literal) => lowered.includes(literal))) return [];
  const result = [];
  const { expression } = rule;
  let at = 0;
  for (;;) {
    expression.lastIndex = at;
    const found = at <= line.length ? expression.exec(line) : null;
    if (!found) return result;
    const [start, end] = found.indices[1];
    if (start === end) {
      at = Math.max(found.indices[0][1], at + 1);
    } else if (isKept(rule, found[1])) {
      at = Math.max(start, found.index + 1);
    } else {
      result.push([start, end]);
      at = end;
    }
  }
}

function isKept(rule, value) {
  return Boolean(rule.kept?.test(value)) || rule.needed.some((part) => !part.test(value));
}

function kindOf(pseudonym) {
  return pseudonym.slice(0, pseudonym.lastIndexOf("-"));
}

function shortName(value) {
  return /^\p{L}/u.test(value) ? value.split(".", 1)[0] : value;
}

function isDistinct(name) {
  return name.length >= SHORTEST_NAME && /[0-9]/.test(name) && /\p{L}/u.test(name) && !name.includes("[");
}

/** The order of names in which numbers count as numbers: `gn-2` before `gn-10`. */
export function natural(a, b) {
  const [first, second] = [a, b].map((text) => text.split(/([0-9]+)/).filter(Boolean));
  for (let at = 0; at < Math.min(first.length, second.length); at++) {
    const [one, other] = [first[at], second[at]];
    const numbers = [one, other].map((part) => /^[0-9]+$/.test(part));
    if (numbers[0] !== numbers[1]) return numbers[0] ? -1 : 1;
    const order = numbers[0] ? byValue(one, other) : codePoints(one, other);
    if (order) return order;
  }
  return first.length - second.length;
}

function byValue(one, other) {
  const [a, b] = [one, other].map((digits) => digits.replace(/^0+(?=[0-9])/, ""));
  return a.length - b.length || codePoints(a, b);
}

/** The order of Python's strings. */
function codePoints(a, b) {
  const [first, second] = [[...a], [...b]];
  for (let at = 0; at < Math.min(first.length, second.length); at++) {
    const order = first[at].codePointAt(0) - second[at].codePointAt(0);
    if (order) return order;
  }
  return first.length - second.length;
}

/** Between a name and its value they would hide the value. */
function withoutColours(line) {
  return line.includes("\x1b[") ? line.replace(COLOURS, "") : line;
}
