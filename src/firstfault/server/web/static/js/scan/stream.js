import { BLOCK_BYTES, CELL_BYTES, KEPT_BYTES, PIECE_BYTES, STRIDE_BYTES, TAIL_BYTES } from "./limits.js";

const NEWLINE = 10;
const CARRIAGE = 13;
const STEP_BYTES = 64 << 10;

/** A byte stream seen through a sliding buffer; everything is addressed by absolute offsets. */
export class Stream {
  constructor() {
    this.buffer = new Uint8Array(KEPT_BYTES + BLOCK_BYTES);
    /** The same as words of four bytes. */
    this.words = new Int32Array(this.buffer.buffer);
    /** Offset of the first byte in the buffer, and behind the last one. */
    this.base = 0;
    this.end = 0;
    this.finished = false;
    this.lineStartAtBase = 0;
    this.lastStart = { position: 0, start: 0 };
    this.counted = 0;
    this.newlines = 0;
    this.marks = [{ offset: 0, newlines: 0 }];
    this.lastCount = { offset: 0, newlines: 0 };
  }

  /** Takes bytes in, a cell at most; they must fit: see `makeRoom`. */
  append(bytes) {
    if (this.end - this.base + bytes.length > this.buffer.length) this.makeRoom();
    this.buffer.set(bytes, this.end - this.base);
    this.end += bytes.length;
    this.count();
  }

  /** Drops what nobody asks for any more. */
  makeRoom() {
    const keep = Math.min(this.end - this.base, KEPT_BYTES);
    // Words keep their places: those that are multiples of eight in the stream are so in the buffer.
    const drop = (this.end - keep - this.base) & ~7;
    this.lineStartAtBase = this.lineStart(this.base + drop);
    this.buffer.copyWithin(0, drop, this.end - this.base);
    this.base += drop;
    const first = this.marks.findLastIndex((mark) => mark.offset <= this.base);
    if (first > 0) this.marks.splice(0, first);
  }

  /** A view of the bytes between two offsets, valid until the next `append`. */
  view(start, stop) {
    return this.buffer.subarray(Math.max(start - this.base, 0), stop - this.base);
  }

  copy(start, stop) {
    return this.buffer.slice(start - this.base, stop - this.base);
  }

  /** Where the segment begins that holds the byte before `position`: behind the last `\n` or `\r`. */
  lineStart(position) {
    let { position: from, start: known } = this.lastStart;
    if (position < from || from < this.base) [from, known] = [this.base, this.lineStartAtBase];
    const { buffer, base } = this;
    let start = known;
    for (let at = position - base - 1; at >= from - base; at--) {
      if (buffer[at] === NEWLINE || buffer[at] === CARRIAGE) {
        start = base + at + 1;
        break;
      }
    }
    this.lastStart = { position, start };
    return start;
  }

  /** The segment in which an occurrence ends at `position`, or, of a long one, the pieces in which its match may begin. */
  pieces(position) {
    const start = this.lineStart(position);
    const stop = this.lineStop(position, position + PIECE_BYTES + 1);
    if (stop - start <= PIECE_BYTES) return [{ start, stop, owned: stop - start }];
    const number = Math.floor((position - 1 - start) / STRIDE_BYTES);
    const found = [];
    for (let at = start + Math.max(number - 1, 0) * STRIDE_BYTES; at < position; at += STRIDE_BYTES) {
      found.push({ start: at, stop: Math.min(stop, at + PIECE_BYTES), owned: STRIDE_BYTES });
    }
    return found;
  }

  /** The bytes that follow a piece which stops at `position`. */
  below(position) {
    const data = this.copy(position, Math.min(position + TAIL_BYTES + 2, this.end));
    const isPair = data[0] === CARRIAGE && data[1] === NEWLINE;
    const begin = isPair ? 2 : data[0] === NEWLINE || data[0] === CARRIAGE ? 1 : 0;
    return data.subarray(begin, begin + TAIL_BYTES);
  }

  /** Number of the line (from 1) in which the byte at `offset` stands; it must still be in the buffer. */
  lineNumber(offset) {
    const at = this.marks.findLastIndex((mark) => mark.offset <= offset);
    const mark = this.marks[at];
    if (mark.offset < this.base) {
      const next = this.marks[at + 1];
      return next.newlines - countNewlines(this.buffer, offset - this.base, next.offset - this.base) + 1;
    }
    const near = mark.offset < this.lastCount.offset && this.lastCount.offset <= offset ? this.lastCount : mark;
    const newlines = near.newlines + countNewlines(this.buffer, near.offset - this.base, offset - this.base);
    this.lastCount = { offset, newlines };
    return newlines + 1;
  }

  /** Lines so far; a last one without newline counts. */
  get lines() {
    return this.newlines + (this.end > 0 && !this.endsWithNewline ? 1 : 0);
  }

  get endsWithNewline() {
    return this.end > 0 && this.buffer[this.end - 1 - this.base] === NEWLINE;
  }

  count() {
    while (this.counted < this.end) {
      const stop = Math.min(this.counted + STEP_BYTES, this.end);
      this.newlines += countWords(this.words, this.buffer, this.counted - this.base, stop - this.base);
      this.counted = stop;
      this.marks.push({ offset: stop, newlines: this.newlines });
    }
  }

  lineStop(position, limit) {
    const end = Math.min(limit, this.end) - this.base;
    for (let at = position - this.base; at < end; at++) {
      if (this.buffer[at] === NEWLINE || this.buffer[at] === CARRIAGE) return this.base + at;
    }
    return this.base + end;
  }
}

export function countNewlines(bytes, start, stop) {
  let count = 0;
  for (let at = start; at < stop; at++) count += bytes[at] === NEWLINE ? 1 : 0;
  return count;
}

/** The same, four bytes at once; the bytes of a word that are newlines leave its highest bits. */
function countWords(words, bytes, start, stop) {
  const first = Math.min((start + 3) & ~3, stop);
  const last = Math.max(stop & ~3, first);
  let count = countNewlines(bytes, start, first) + countNewlines(bytes, last, stop);
  for (let at = first >> 2; at < last >> 2; at++) {
    const different = words[at] ^ 0x0a0a0a0a;
    const newlines = ~(((different & 0x7f7f7f7f) + 0x7f7f7f7f) | different | 0x7f7f7f7f);
    if (newlines !== 0) count += ((newlines >>> 7) & 1) + ((newlines >>> 15) & 1) + ((newlines >>> 23) & 1) + (newlines >>> 31);
  }
  return count;
}

/** The parts of a chunk that the stream takes in at once, none of which crosses the border of a cell. */
export function* stepsOf(chunk, end) {
  for (let at = 0; at < chunk.length; ) {
    const room = CELL_BYTES - ((end + at) % CELL_BYTES);
    yield chunk.subarray(at, Math.min(at + room, chunk.length));
    at += room;
  }
}
