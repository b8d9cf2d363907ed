/** Which lines of a source may leave the machine: the same rules as `firstfault.ingest.excerpt`. */
import {
  ALL_EDGE_LINES, ALL_WHOLE_BYTES, BYTES_AROUND, EDGE_BYTES, EDGE_LINES, FEWEST_EDGE_LINES, LINES_AFTER_OTHERS, LINES_AROUND,
  LINES_BEFORE_OTHERS, MAX_LINE_BYTES, SIGHTINGS, SMALLEST_WHOLE_BYTES, WHOLE_BYTES,
} from "./limits.js";
import { decodeLine, linesOf } from "./text.js";

const STARTING = new Set(["initiating", "either"]);
const HEAD_OF_TRACEBACK = "Traceback (most recent call last)";
const TEXT_CONTROLS = new Set([9, 10, 13, 27, 8, 12, 7, 0]);

/** Up to how many bytes a source is kept whole if so many are handed over. */
export function wholeLimit(sources) {
  return Math.min(WHOLE_BYTES, Math.max(SMALLEST_WHOLE_BYTES, Math.floor(ALL_WHOLE_BYTES / Math.max(sources, 1))));
}

/** How many first and last lines of a large source are kept if so many sources are handed over. */
export function edgeLines(sources) {
  return Math.min(EDGE_LINES, Math.max(FEWEST_EDGE_LINES, Math.floor(ALL_EDGE_LINES / Math.max(sources, 1))));
}

/** False for dumps, archives and other files that are no text, by their first 64 KiB. */
export function isText(head) {
  if (head[0] === 0x80) return false;
  if (head[0] === 0x50 && head[1] === 0x4b && head[2] === 3 && head[3] === 4) return false;
  const odd = head.reduce((count, byte) => count + (byte < 32 && !TEXT_CONTROLS.has(byte) ? 1 : 0), 0);
  return odd * 20 <= head.length;
}

/** The lines of a scanned source that are kept, in stretches that follow each other; all if it has at most `wholeBytes`. */
export function stretchesOf(scan, wholeBytes, edge) {
  const isWhole = scan.bytes <= wholeBytes;
  const cut = isWhole ? wholeBytes : MAX_LINE_BYTES;
  const lines = [];
  for (const window of scan.windows) {
    for (const { offset, line, bytes } of linesOf(window)) lines.push({ number: line, offset, bytes, cut, length: bytes.length });
  }
  if (isWhole) return lines.length ? [lines.map(kept)] : [];
  const offsets = new Map();
  lines.forEach((line, index) => {
    if (!offsets.has(line.offset)) offsets.set(line.offset, index);
  });
  const hits = counting(scan.hits);
  const chosen = chosenOf(lines, offsets, hits, edge);
  const all = new Map();
  for (const index of chosen) {
    const line = kept(lines[index]);
    all.set(`${line.offset} ${line.number} ${line.text}`, line);
  }
  for (const { line, offset, text } of hits) {
    if (!offsets.has(offset)) all.set(`${offset} ${line} ${text}`, { number: line, offset, text });
  }
  const follows = new Set(
    [...chosen].filter((index) => chosen.has(index - 1) && isNext(lines, index)).map((index) => lines[index].offset),
  );
  const made = [];
  for (const line of [...all.values()].sort((a, b) => a.offset - b.offset || a.number - b.number)) {
    if (made.length && follows.has(line.offset)) made.at(-1).push(line);
    else made.push([line]);
  }
  return made;
}

function kept({ number, offset, bytes, cut }) {
  return { number, offset, text: decodeLine(bytes.subarray(0, cut)) };
}

function chosenOf(lines, offsets, hits, edge) {
  const chosen = new Set();
  const choose = (index, before, after, bytes) => {
    const [first, last] = reach(lines, index, before, after, bytes);
    for (let at = first; at <= last; at++) chosen.add(at);
  };
  if (!lines.length) return chosen;
  choose(0, 0, edge - 1, EDGE_BYTES);
  choose(lines.length - 1, edge - 1, 0, EDGE_BYTES);
  for (const hit of hits) {
    const index = offsets.get(hit.offset);
    if (index === undefined) continue;
    const isStarting = STARTING.has(hit.signal.role);
    choose(index, isStarting ? LINES_AROUND : LINES_BEFORE_OTHERS, isStarting ? LINES_AROUND : LINES_AFTER_OTHERS, BYTES_AROUND);
  }
  const heads = [...lines.keys()].filter((index) => kept(lines[index]).text.includes(HEAD_OF_TRACEBACK));
  for (const index of outermost(heads)) choose(index, LINES_AROUND, LINES_AROUND, BYTES_AROUND);
  return chosen;
}

/** The lines around one of them, as far as they follow each other and as the bytes on each side reach. */
function reach(lines, index, before, after, bytes) {
  let [first, last, room] = [index, index, bytes];
  while (first > 0 && index - first < before && isNext(lines, first)) {
    room -= lines[first - 1].length + 1;
    if (room < 0) break;
    first--;
  }
  room = bytes;
  while (last + 1 < lines.length && last - index < after && isNext(lines, last + 1)) {
    room -= lines[last + 1].length + 1;
    if (room < 0) break;
    last++;
  }
  return [first, last];
}

/** Whether the line stands right behind the one before it: at most a `\r\n` lies between them. */
function isNext(lines, index) {
  const before = lines[index - 1];
  const gap = lines[index].offset - (before.offset + before.length);
  return (gap === 1 || gap === 2) && lines[index].number - before.number <= 1;
}

/** The sightings that count, by offset; what is printed all the time is evidence a few times. */
function counting(hits) {
  const groups = new Map();
  for (const hit of hits) {
    if (!groups.has(hit.signal.id)) groups.set(hit.signal.id, []);
    groups.get(hit.signal.id).push(hit);
  }
  return [...groups.values()].flatMap(outermost).sort((a, b) => a.offset - b.offset || a.start - b.start);
}

function outermost(items) {
  return items.length <= 2 * SIGHTINGS ? items : [...items.slice(0, SIGHTINGS), ...items.slice(-SIGHTINGS)];
}
