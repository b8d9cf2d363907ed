/** The text of a file as bytes of UTF-8: unpacked, decoded, bounded, read once from front to end. */
import { Decompress } from "../vendor/fzstd.js";
import { EnvelopeDecoder, isWrapped } from "./envelope.js";
import { isText } from "./excerpt.js";
import { Scan } from "./scanner.js";

const HEAD_BYTES = 64 << 10;
const READ_BYTES = 1 << 20;
const SAMPLED_FROM_BYTES = 4 << 20;
const SAMPLES = 8;
const SAMPLE_BYTES = 16 << 10;
const MAX_UNPACKED_BYTES = 64 * 2 ** 30;
const RATIO_COUNTS_FROM_BYTES = 64 << 20;
const MAX_RATIO = 1000;

/**
 * Scans a file. `progress(bytes)` is told how many bytes of the file were read; `isStopped()` ends the scan early.
 * @returns what a `Scan` gives, or `{ why }` if nothing of the file is kept
 */
export async function scanFile(file, scanner, progress = () => {}, isStopped = () => false) {
  const magic = new Uint8Array(await file.slice(0, 4).arrayBuffer());
  let scan = null;
  let text = null;
  const sample = await sampleOf(file);
  const pending = [];
  let headBytes = 0;
  const begin = () => {
    const head = joined(pending);
    const decoder = decoderOf(head.subarray(0, HEAD_BYTES));
    text = decoder;
    const first = decoder ? decoder.decode(head) : head;
    if (!first.length && !head.length) return;
    if (!isText(first.subarray(0, HEAD_BYTES))) throw new LeftOut("is no text: it stays on this machine");
    scan = new Scan(scanner, sample);
    scan.take(first);
  };
  const give = (chunk) => {
    if (scan) {
      scan.take(text ? text.decode(chunk) : chunk);
      return;
    }
    // Its buffer is read into again.
    pending.push(chunk.slice());
    headBytes += chunk.length;
    if (headBytes >= HEAD_BYTES) begin();
  };
  try {
    await readAll(file, magic, give, progress, isStopped);
    if (!scan) begin();
    if (!scan) return { why: "is empty" };
    if (text) scan.take(text.decode(new Uint8Array(0), true));
    return scan.finish();
  } catch (error) {
    if (error instanceof LeftOut) return { why: error.message };
    if (scan && error instanceof Damaged) return scan.finish();
    return { why: `cannot be read: ${error.message}` };
  }
}

/** A few stretches of a large file. */
async function sampleOf(file) {
  if (file.size < SAMPLED_FROM_BYTES) return new Uint8Array(0);
  const starts = Array.from({ length: SAMPLES }, (_, number) => Math.floor((file.size / SAMPLES) * number));
  const parts = await Promise.all(starts.map((start) => file.slice(start, start + SAMPLE_BYTES).arrayBuffer()));
  return joined(parts.map((part) => new Uint8Array(part)));
}

class LeftOut extends Error {}
class Damaged extends Error {}

async function readAll(file, magic, give, progress, isStopped) {
  let read = 0;
  let given = 0;
  const take = (chunk) => {
    given += chunk.length;
    const isTooMuch = given > RATIO_COUNTS_FROM_BYTES && given > MAX_RATIO * Math.max(read, 1);
    if (given > MAX_UNPACKED_BYTES || isTooMuch) throw new Damaged("unpacks to too much");
    give(chunk);
  };
  const counted = new TransformStream({
    transform(chunk, controller) {
      read += chunk.length;
      progress(read);
      controller.enqueue(chunk);
    },
  });
  const isGzip = magic[0] === 0x1f && magic[1] === 0x8b;
  const isZstd = magic[0] === 0x28 && magic[1] === 0xb5 && magic[2] === 0x2f && magic[3] === 0xfd;
  const zstd = isZstd ? new Decompress(take) : null;
  const next = isGzip ? unpacked(file, counted) : piecesOf(file);
  // The browser reads the next piece while this one is looked at.
  let ahead = next.read();
  for (;;) {
    if (isStopped()) {
      await next.cancel();
      throw new LeftOut("was not read to its end: it stays on this machine");
    }
    let piece;
    try {
      piece = await ahead;
    } catch (error) {
      throw isGzip && given ? new Damaged(error.message) : error;
    }
    if (piece.done) return;
    ahead = next.read();
    ahead.catch(() => {});
    if (!isGzip) progress((read += piece.value.length));
    if (zstd) zstd.push(piece.value.slice());
    else if (isGzip) take(piece.value);
    else give(piece.value);
  }
}

function unpacked(file, counted) {
  return file.stream().pipeThrough(counted).pipeThrough(new DecompressionStream("gzip")).getReader();
}

/** Reads a file into two buffers in turn: a piece is valid until the one after the next is asked for. */
function piecesOf(file) {
  const reader = file.stream().getReader({ mode: "byob" });
  const free = [new ArrayBuffer(READ_BYTES), new ArrayBuffer(READ_BYTES)];
  return {
    async read() {
      const piece = await reader.read(new Uint8Array(free.shift()));
      if (piece.value) free.push(piece.value.buffer);
      return piece;
    },
    cancel: () => reader.cancel(),
  };
}

/** What turns a text of another form into UTF-8: null for one that is UTF-8 already. */
function decoderOf(head) {
  const encoding = wideEncoding(head);
  if (encoding) {
    const decoder = new TextDecoder(encoding, { ignoreBOM: false });
    const encoder = new TextEncoder();
    return { decode: (chunk, isFinal = false) => encoder.encode(decoder.decode(chunk, { stream: !isFinal })) };
  }
  return isWrapped(head) ? new EnvelopeDecoder() : null;
}

/** The UTF-16 flavour of a text, by its mark or by the zero in every second byte. */
function wideEncoding(head) {
  if (head[0] === 0xff && head[1] === 0xfe) return "utf-16le";
  if (head[0] === 0xfe && head[1] === 0xff) return "utf-16be";
  const sample = head.subarray(0, 2048);
  const half = sample.length >> 1;
  if (half < 8) return null;
  const zeros = [0, 0];
  for (let at = 0; at < 2 * half; at++) if (!sample[at]) zeros[at % 2]++;
  const [even, odd] = zeros.map((count) => count / half);
  if (odd > 0.9 && even < 0.1) return "utf-16le";
  return even > 0.9 && odd < 0.1 ? "utf-16be" : null;
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
