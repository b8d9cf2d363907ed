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
 * The capsule of excerpts; in place of an excerpt there may be `{ path, why }`, why nothing is kept of that source.
 * @param isLeftOut tells which lines are not to be sent, by the number of the source and the line
 */
export function capsuleOf(items, notes, rules, isLeftOut = () => false) {
  const said = [...notes];
  const excerpts = [];
  let room = MAX_TEXT_BYTES;
  items.forEach((item, source) => {
    if (item.why) {
      said.push(`${item.path}: ${item.why}`);
      return;
    }
    const one = withoutLines(item, (line) => isLeftOut(source, line));
    room -= one.stretches.flat().reduce((total, line) => total + encoder.encode(line.text).length, 0);
    if (room < 0) said.push(`${item.path}: left out, a capsule holds ${MAX_TEXT_BYTES >> 20} MiB of text`);
    else excerpts.push(one);
  });
  const redactor = new Redactor(rules);
  redactor.learn(excerpts.flatMap((one) => one.stretches.flat()).map((line) => line.text));
  const sources = excerpts.map((one) => redacted(one, redactor));
  const masked = said.map((note) => redactor.mask(note));
  return { schema: SCHEMA, sources, masked: redactor.manifest(), notes: masked };
}

/** The bytes that are sent: what is shown is made of them. */
export function encode(capsule) {
  return encoder.encode(JSON.stringify(capsule));
}

function redacted(one, redactor) {
  return {
    path: redactor.maskPath(one.path),
    bytes: one.bytes,
    lines: one.lines,
    ended: one.ended,
    whole: one.whole,
    stretches: one.stretches.map((stretch) =>
      stretch.map(({ number, offset, text }) => ({ number, offset, text: redactor.mask(text) })),
    ),
  };
}

/** The excerpt without some of its lines; it is no longer whole then. */
function withoutLines(one, isLeftOut) {
  const stretches = one.stretches.flatMap((stretch) => {
    const runs = [[]];
    for (const line of stretch) {
      if (isLeftOut(line)) runs.push([]);
      else runs.at(-1).push(line);
    }
    return runs.filter((run) => run.length);
  });
  const isSame = stretches.length === one.stretches.length && stretches.flat().length === one.stretches.flat().length;
  return isSame ? one : { ...one, whole: false, stretches };
}
