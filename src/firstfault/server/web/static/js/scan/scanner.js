import { LiteralFinder } from "./finder.js";
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
    this.literals = [...groups.keys()].map((literal) => encoder.encode(literal));
    this.finder = new LiteralFinder(this.literals);
    /** For each literal its signals, and what a line must end with so that its surroundings are kept (undefined: nothing). */
    this.signals = [...groups.values()];
    this.endings = [...groups.keys()].map((literal) => pack.triggers[literal]);
  }
}

/** One scan of one stream: `take` each chunk, then `finish`. */
export class Scan {
  /** @param {Uint8Array} sample some of a large text: what is common in it is not what is searched for */
  constructor(scanner, sample = new Uint8Array(0)) {
    this.scanner = scanner;
    this.finder = sample.length ? new LiteralFinder(scanner.literals, sample) : scanner.finder;
    this.stream = new Stream();
    this.windows = new WindowKeeper(this.stream);
    this.hits = new HitStore();
    this.searched = 0;
    this.cell = [];
    /** Places at which a literal may stand of which not all bytes have come yet. */
    this.unfinished = [];
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
    this.search();
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

  /** Notes what ends in the bytes that came; of a literal that ends later the place is looked at again. */
  search() {
    const { stream } = this;
    const { buffer, words, base, end, finished } = stream;
    const { finder } = this;
    const consider = (begin, number) => {
      const stop = begin + finder.literals[number].length;
      if (begin < 0) return;
      if (stop > end - base) {
        if (!finished) this.unfinished.push({ begin: base + begin, number });
      } else if (finder.isAt(buffer, begin, number)) {
        this.cell.push({ end: base + stop, number, recent: true });
      }
    };
    for (const { begin, number } of this.unfinished.splice(0)) consider(begin - base, number);
    const last = finished ? (end - base + 3) & ~3 : (end - base) & ~3;
    finder.search(buffer, words, this.searched - base, last, consider);
    this.searched = base + last;
  }

  /** What the cell held waits to be read; of a literal that stands in it very often only the last occurrences count. */
  endCell() {
    this.cell.sort((a, b) => a.end - b.end || a.number - b.number);
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
