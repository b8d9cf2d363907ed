import { WINDOW_AFTER, WINDOW_BEFORE, WINDOW_EDGE, WINDOW_WHOLE, WINDOWS_FIRST, WINDOWS_LAST } from "./limits.js";
import { countNewlines } from "./stream.js";

/** The head, the tail and the surroundings of marked places; a small stream is kept whole. Memory is bounded. */
export class WindowKeeper {
  constructor(stream) {
    this.stream = stream;
    this.whole = [];
    this.wholeBytes = 0;
    this.copied = 0;
    this.stop = WINDOW_EDGE;
    this.first = [];
    this.room = WINDOWS_FIRST;
    this.last = [];
    this.lastBytes = 0;
  }

  /** Keeps the surroundings of a place; places come in ascending order. */
  mark(position) {
    this.want(Math.max(position - WINDOW_BEFORE, 0), position + WINDOW_AFTER);
  }

  /** Copies what is wanted of the bytes in the buffer; to be called before more is read. */
  collect() {
    const { stream } = this;
    if (this.whole) {
      if (stream.end > WINDOW_WHOLE) this.whole = null;
      else if (stream.end > this.wholeBytes) {
        this.whole.push(stream.copy(this.wholeBytes, stream.end));
        this.wholeBytes = stream.end;
      }
    }
    const stop = Math.min(this.stop, stream.end);
    if (stop > this.copied) {
      this.keep(this.copied, stop);
      this.copied = stop;
    }
  }

  /** All windows in order, after the whole stream went by. */
  finish() {
    if (this.whole) return this.wholeBytes ? [{ offset: 0, line: 1, data: joined(this.whole) }] : [];
    this.want(this.stream.end - WINDOW_EDGE, this.stream.end);
    this.collect();
    this.trim(WINDOWS_LAST);
    return withoutBorders([...this.first, ...this.last]);
  }

  want(start, stop) {
    if (start > this.stop) {
      this.collect();
      this.copied = start;
    }
    this.stop = Math.max(this.stop, stop);
  }

  keep(start, stop) {
    const border = Math.min(stop, start + this.room);
    if (border > start) {
      this.first.push(this.window(start, border));
      this.room -= border - start;
    }
    if (stop > border) {
      this.last.push(this.window(border, stop));
      this.lastBytes += stop - border;
      while (this.lastBytes - this.last[0].data.length >= WINDOWS_LAST) this.trim(this.lastBytes - this.last[0].data.length);
    }
  }

  trim(limit) {
    while (this.lastBytes > limit) {
      const { offset, line, data } = this.last.shift();
      const cut = Math.min(this.lastBytes - limit, data.length);
      this.lastBytes -= cut;
      if (cut < data.length) {
        const later = { offset: offset + cut, line: line + countNewlines(data, 0, cut), data: data.subarray(cut) };
        this.last.unshift(later);
      }
    }
  }

  window(start, stop) {
    return { offset: start, line: this.stream.lineNumber(start), data: this.stream.copy(start, stop) };
  }
}

function withoutBorders(windows) {
  const runs = [];
  for (const window of windows) {
    const last = runs.at(-1)?.at(-1);
    if (last && last.offset + last.data.length === window.offset) runs.at(-1).push(window);
    else runs.push([window]);
  }
  return runs.map((run) => ({ offset: run[0].offset, line: run[0].line, data: joined(run.map((part) => part.data)) }));
}

function joined(parts) {
  const all = new Uint8Array(parts.reduce((total, part) => total + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
