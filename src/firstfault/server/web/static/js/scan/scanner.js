import { Automaton } from "./automaton.js";
import { HitStore } from "./hits.js";
import { CELL_BYTES, LOOK_AHEAD, RECENT } from "./limits.js";
import { matchStarts, matchText } from "./signal.js";
import { stepsOf, Stream } from "./stream.js";
import { decodeLine } from "./text.js";
import { WindowKeeper } from "./windows.js";

const MARKING = new Set(["initiating", "either"]);

/** The signals of a pack, ready to be looked for in any number of streams. */
export class Scanner {
  constructor(pack) {
    const groups = new Map(Object.keys(pack.triggers).map((literal) => [literal, []]));
    for (const signal of pack.signals) {
      if (!groups.has(signal.literal)) groups.set(signal.literal, []);
      groups.get(signal.literal).push(signal);
    }
    const encoder = new TextEncoder();
    this.automaton = new Automaton([...groups.keys()].map((literal) => encoder.encode(literal)));
    /** For each literal its signals, and what a line must end with so that its surroundings are kept (undefined: nothing). */
    this.signals = [...groups.values()];
    this.endings = [...groups.keys()].map((literal) => pack.triggers[literal]);
  }
}

/** One scan of one stream: `take` each chunk, then `finish`. */
export class Scan {
  constructor(scanner) {
    this.scanner = scanner;
    this.stream = new Stream();
    this.windows = new WindowKeeper(this.stream);
    this.hits = new HitStore();
    this.searched = 0;
    this.state = scanner.automaton.root;
    this.cell = [];
    this.waiting = [];
    this.judged = new Map();
  }

  /** @param {Uint8Array} chunk the next bytes */
  take(chunk) {
    for (const step of stepsOf(chunk, this.stream.end)) {
      this.stream.append(step);
      this.search();
      if (this.stream.end % CELL_BYTES === 0) this.endCell();
      this.read(this.stream.end - LOOK_AHEAD);
      this.windows.collect();
    }
  }

  /** Everything that is kept of the stream. */
  finish() {
    const { stream } = this;
    stream.finished = true;
    this.endCell();
    this.read(stream.end);
    this.windows.collect();
    return {
      hits: this.hits.sorted(),
      windows: this.windows.finish(),
      bytes: stream.end,
      lines: stream.lines,
      ended: stream.endsWithNewline,
      dropped: this.hits.dropped,
    };
  }

  search() {
    const { buffer, base, end } = this.stream;
    const { automaton } = this.scanner;
    this.state = automaton.search(buffer, this.searched - base, end - base, this.state, (at, numbers) => {
      for (const number of numbers) this.cell.push({ end: base + at, number, recent: true });
    });
    this.searched = end;
  }

  /** What the cell held waits to be read; of a literal that stands in it very often only the last occurrences count. */
  endCell() {
    if (this.cell.length > RECENT) {
      const counts = new Map();
      for (let at = this.cell.length - 1; at >= 0; at--) {
        const one = this.cell[at];
        const count = (counts.get(one.number) ?? 0) + 1;
        counts.set(one.number, count);
        one.recent = count <= RECENT;
      }
    }
    this.waiting.push(...this.cell);
    this.cell = [];
  }

  /** Confirms what ends at or before the limit; the rest waits until more of the stream is in the buffer. */
  read(limit) {
    const count = this.waiting.findIndex((one) => one.end > limit);
    for (const one of this.waiting.splice(0, count < 0 ? this.waiting.length : count)) this.judge(one);
  }

  /** Confirms the signals of a literal around one occurrence, each piece of text once. */
  judge({ end, number, recent }) {
    let [lastPiece, judgedTo] = this.judged.get(number) ?? [-1, -1];
    if (end <= judgedTo) return;
    const signals = this.scanner.signals[number];
    if (!recent && signals.length && signals.every((signal) => this.hits.isSaturated(signal))) {
      this.hits.dropped++;
      return;
    }
    for (const piece of this.stream.pieces(end)) {
      judgedTo = piece.start + piece.owned;
      if (piece.start <= lastPiece) continue;
      lastPiece = piece.start;
      this.trigger(piece, end, number);
      for (const hit of confirm(signals, piece, this.stream)) {
        this.hits.add(hit);
        if (MARKING.has(hit.signal.role)) this.windows.mark(end);
      }
    }
    this.judged.set(number, [lastPiece, judgedTo]);
  }

  trigger(piece, end, number) {
    const ending = this.scanner.endings[number];
    if (ending === undefined) return;
    if (decodeLine(this.stream.view(piece.start, piece.stop)).trimEnd().endsWith(ending)) this.windows.mark(end);
  }
}

/** Every match of the signals in a piece of the stream, the matches of one signal in order. */
function* confirm(signals, piece, stream) {
  if (!signals.length) return;
  const raw = stream.view(piece.start, piece.stop);
  const text = decodeLine(raw);
  const owned = piece.owned >= raw.length ? text.length : decodeLine(raw.subarray(0, piece.owned)).length;
  for (const signal of signals) {
    for (const start of matchStarts(signal, text)) {
      if (start > owned || (start === owned && piece.owned < raw.length)) break;
      const tail = signal.then.length ? textBelow(stream, piece) : "";
      const captures = matchText(signal, text.slice(start), tail);
      if (captures) yield { signal, offset: piece.start, line: stream.lineNumber(piece.start), text, start, captures, tail };
    }
  }
}

function textBelow(stream, piece) {
  return decodeLine(stream.below(piece.stop)).replaceAll("\r\n", "\n").replaceAll("\r", "\n");
}
