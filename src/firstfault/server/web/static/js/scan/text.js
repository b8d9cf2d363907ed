/** Text of raw log bytes: what a person would see of a line, and the lines of a window. */

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
// eslint-disable-next-line no-control-regex
const ANSI = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;
const NEWLINE = 10;
const CARRIAGE = 13;

/** The bytes as text; what is no UTF-8 becomes U+FFFD. */
export function decode(bytes) {
  return decoder.decode(bytes);
}

/** What a person would read: control sequences and NULs are gone too. */
export function decodeLine(bytes) {
  const text = decode(bytes);
  const plain = text.includes("\x1b") ? text.replace(ANSI, "") : text;
  return plain.includes("\0") ? plain.replaceAll("\0", "") : plain;
}

/**
 * Absolute offset, line number and bytes of each line segment of a window. A lone carriage return ends a segment (a progress
 * bar draws over it) but not a line; of `\r\n` only the `\n` counts.
 */
export function* linesOf(window) {
  const { data, offset } = window;
  let line = window.line;
  for (let start = 0; start < data.length; ) {
    let stop = start;
    while (stop < data.length && data[stop] !== NEWLINE && data[stop] !== CARRIAGE) stop++;
    const isNewline = data[stop] === NEWLINE;
    const isRestOfPair = isNewline && stop === start && start > 0 && data[start - 1] === CARRIAGE;
    if (!isRestOfPair) yield { offset: offset + start, line, bytes: data.subarray(start, stop) };
    if (isNewline) line++;
    start = stop + 1;
  }
}
