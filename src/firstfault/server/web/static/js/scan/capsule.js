/** The capsule `firstfault.capsule/1`: byte for byte what `firstfault.ingest.capsule` makes of the same sources. */
import { edgeLines, stretchesOf, wholeLimit } from "./excerpt.js";
import { MAX_TEXT_BYTES } from "./limits.js";
import { Redactor } from "./redact.js";

const SCHEMA = "firstfault.capsule/1";
const encoder = new TextEncoder();

/** What is kept of one scanned source, not redacted yet; `sources` is how many are handed over. */
export function excerptOf(path, scan, sources) {
  const limit = wholeLimit(sources);
  return {
    path,
    bytes: scan.bytes,
    lines: scan.lines,
    ended: scan.ended,
    whole: scan.bytes <= limit,
    stretches: stretchesOf(scan, limit, edgeLines(sources)),
  };
}

/**
 * The capsule of excerpts, and the same with the lines that are left out (`left`), for a person to choose from.
 * In place of an excerpt there may be `{ path, why }`, why nothing is kept of that source. Lines that are left out are masked
 * too, so that no pseudonym changes when a line is ticked or not.
 * @param isLeftOut tells which lines are not to be sent, by the number of the item and the line
 */
export function capsuleOf(items, notes, rules, isLeftOut = () => false) {
  const said = [...notes];
  const excerpts = [];
  let room = MAX_TEXT_BYTES;
  items.forEach((one, item) => {
    if (one.why) {
      said.push(`${one.path}: ${one.why}`);
      return;
    }
    room -= one.stretches.flat().reduce((total, line) => total + encoder.encode(line.text).length, 0);
    if (room < 0) said.push(`${one.path}: left out, a capsule holds ${MAX_TEXT_BYTES >> 20} MiB of text`);
    else excerpts.push({ ...one, item });
  });
  const redactor = new Redactor(rules);
  redactor.learn(excerpts.flatMap((one) => one.stretches.flat()).map((line) => line.text));
  const all = excerpts.map((one) => redacted(one, redactor, isLeftOut));
  const masked = said.map((note) => redactor.mask(note));
  const sources = all.map(withoutLeft).filter((one) => one.lines === 0 || one.stretches.length);
  return { all, capsule: { schema: SCHEMA, sources, masked: redactor.manifest(), notes: masked } };
}

/** The bytes that are sent: what is shown is made of them. */
export function encode(capsule) {
  return encoder.encode(JSON.stringify(capsule));
}

function redacted(one, redactor, isLeftOut) {
  return {
    item: one.item,
    path: redactor.maskPath(one.path),
    bytes: one.bytes,
    lines: one.lines,
    ended: one.ended,
    whole: one.whole,
    stretches: one.stretches.map((stretch) =>
      stretch.map(({ number, offset, text }) => {
        const left = isLeftOut(one.item, offset);
        return { number, offset, text: left ? redactor.maskUncounted(text) : redactor.mask(text), left };
      }),
    ),
  };
}

/** A source as it is sent. It is no longer whole if a line is left out, and stretches end there. */
function withoutLeft({ path, bytes, lines, ended, whole, stretches }) {
  const kept = stretches.flatMap(runsOf);
  const isSame = !stretches.flat().some((line) => line.left);
  return { path, bytes, lines, ended, whole: whole && isSame, stretches: kept };
}

function runsOf(stretch) {
  const runs = [[]];
  for (const { number, offset, text, left } of stretch) {
    if (left) runs.push([]);
    else runs.at(-1).push({ number, offset, text });
  }
  return runs.filter((run) => run.length);
}
