/** Log lines that a collector wrapped in JSON, one object a line: the text that the run printed, with its time before it. */
const SAMPLE_LINES = 5;
const MAX_LINE_CHARS = 1 << 20;
const TIMES = ["time", "timestamp", "@timestamp"];
const COMPANIONS = new Map([["log", ["stream", ...TIMES]], ["textPayload", TIMES], ["message", TIMES], ["msg", TIMES]]);
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** True if the first whole lines are objects with a message of the run in them. */
export function isWrapped(head) {
  if (head[0] !== 0x7b || head[1] !== 0x22) return false;
  const whole = head.subarray(0, head.lastIndexOf(10) + 1);
  const lines = decoder.decode(whole.length ? whole : head).split(/\r\n|\n|\r/);
  const sample = lines.slice(0, 4 * SAMPLE_LINES).filter((line) => line.trim()).slice(0, SAMPLE_LINES);
  return sample.length > 0 && sample.every((line) => unwrapped(line) !== null);
}

/** Turns the pieces of a stream into the text of the lines that they hold; `decode` gives bytes. */
export class EnvelopeDecoder {
  constructor() {
    this.decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    this.encoder = new TextEncoder();
    this.rest = "";
  }

  decode(chunk, isFinal = false) {
    const lines = (this.rest + this.decoder.decode(chunk, { stream: !isFinal })).split("\n");
    this.rest = isFinal || lines.at(-1).length > MAX_LINE_CHARS ? "" : lines.pop();
    if (isFinal && !lines.at(-1)) lines.pop();
    return this.encoder.encode(lines.map(lineOf).join(""));
  }
}

function lineOf(raw) {
  const found = unwrapped(raw);
  if (!found) return `${raw}\n`;
  return found.time ? `${found.time} ${found.text}\n` : `${found.text}\n`;
}

function unwrapped(raw) {
  if (!raw.startsWith("{") || raw.length > MAX_LINE_CHARS) return null;
  let fields;
  try {
    fields = JSON.parse(raw);
  } catch {
    return null;
  }
  for (const [key, companions] of COMPANIONS) {
    if (typeof fields[key] !== "string" || !companions.some((name) => name in fields)) continue;
    const time = TIMES.map((name) => fields[name]).find((value) => typeof value === "string") ?? "";
    return { time, text: fields[key].replace(/[\r\n]+$/, "").split("\r").at(-1) };
  }
  return null;
}
