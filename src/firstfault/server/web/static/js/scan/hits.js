import { FIRST_HITS, FIRST_HITS_PER_SIGNAL, FIRST_TEXT, LAST_HITS, LAST_TEXT } from "./limits.js";

/** A bounded collection of hits: the first of its kind and the end of the story stay, whatever a log repeats. */
export class HitStore {
  constructor() {
    this.first = [];
    this.firstText = 0;
    this.seen = new Map();
    this.last = [];
    this.lastText = 0;
    this.dropped = 0;
  }

  /** Takes a hit; hits come in the order of the stream. */
  add(hit) {
    const seen = this.seen.get(hit.signal.id) ?? 0;
    const size = hit.text.length + hit.tail.length;
    this.seen.set(hit.signal.id, seen + 1);
    const isRoom =
      seen < FIRST_HITS_PER_SIGNAL && this.first.length < FIRST_HITS && this.firstText + size <= FIRST_TEXT;
    if (isRoom || !seen) {
      this.first.push(hit);
      this.firstText += size;
      return;
    }
    this.last.push(hit);
    this.lastText += size;
    while (this.last.length > LAST_HITS || this.lastText > LAST_TEXT) {
      const gone = this.last.shift();
      this.lastText -= gone.text.length + gone.tail.length;
      this.dropped++;
    }
  }

  /** Whether only the last hits of this signal can still be kept. */
  isSaturated(signal) {
    return (this.seen.get(signal.id) ?? 0) >= FIRST_HITS_PER_SIGNAL;
  }

  /** All hits kept, by offset, then by the place of the match in the line. */
  sorted() {
    return [...this.first, ...this.last].sort((a, b) => a.offset - b.offset || a.start - b.start);
  }
}
