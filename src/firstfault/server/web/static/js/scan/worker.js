/**
 * Scans the files that it is given one after the other, and makes the capsule of all of them.
 *
 * Takes `{ start: url of the pack }`, `{ add: [{ id, path, file }] }`, `{ remove: id }`, `{ leave: { id, offset, left } }`.
 * Each message carries `version`, a number that counts up; a capsule says which one it answers.
 * Gives `{ progress: { id, read } }`, `{ scanned: { id, kept, lines, why } }`, `{ capsule: { all, notes, masked, bytes } }`.
 */
import { capsuleOf, encode, excerptOf } from "./capsule.js";
import { edgeLines, wholeLimit } from "./excerpt.js";
import { relativeNames } from "./names.js";
import { Scanner } from "./scanner.js";
import { scanFile } from "./source.js";

const EVERY_MS = 80;
const items = new Map();
const left = new Set();
let pack = null;
let scanner = null;
let isBusy = false;
let version = 0;

self.onmessage = async ({ data }) => {
  version = data.version;
  if (data.start) {
    const answer = await fetch(data.start);
    if (!answer.ok) throw new Error(`the signals could not be loaded: ${answer.status}`);
    pack = await answer.json();
    scanner = new Scanner(pack);
  }
  for (const { id, path, file } of data.add ?? []) items.set(id, { path, file, made: null, limits: "" });
  if (data.remove !== undefined) items.delete(data.remove);
  if (data.leave) {
    const { id, offset, left: isLeft } = data.leave;
    if (isLeft) left.add(`${id} ${offset}`);
    else left.delete(`${id} ${offset}`);
  }
  if (scanner && !isBusy) await work();
};

/** Scans until nothing is left to scan; what was added or taken away meanwhile counts. */
async function work() {
  isBusy = true;
  for (;;) {
    const count = items.size;
    const limits = `${wholeLimit(count)} ${edgeLines(count)}`;
    const next = [...items].find(([, item]) => item.limits !== limits);
    if (!next) break;
    await scanOne(...next, count, limits);
  }
  isBusy = false;
  if (items.size) tell();
}

async function scanOne(id, item, count, limits) {
  let last = 0;
  const progress = (read) => {
    const now = performance.now();
    if (now - last < EVERY_MS) return;
    last = now;
    self.postMessage({ progress: { id, read } });
  };
  const scan = await scanFile(item.file, scanner, progress, () => !items.has(id));
  item.limits = limits;
  item.made = scan.why ? { why: scan.why } : excerptOf("", scan, count);
  if (!items.has(id)) return;
  const kept = scan.why ? 0 : item.made.stretches.flat().length;
  self.postMessage({ scanned: { id, kept, lines: scan.lines ?? 0, bytes: scan.bytes ?? 0, why: scan.why ?? "" } });
}

function tell() {
  const ids = [...items.keys()];
  const names = relativeNames([...items.values()].map((item) => item.path));
  const named = [...items.values()].map((item, at) => ({ ...item.made, path: names[at] }));
  const { all, capsule } = capsuleOf(named, [], pack.redaction, (at, offset) => left.has(`${ids[at]} ${offset}`));
  const bytes = encode(capsule);
  const shown = all.map(({ item, path, stretches }) => ({ id: ids[item], path, stretches }));
  const { notes, masked, sources } = capsule;
  self.postMessage({ capsule: { version, all: shown, notes, masked, sources: sources.length, bytes } }, [bytes.buffer]);
}
