/**
 * Finds every occurrence of a set of literals in bytes, looking at whole words of four bytes only.
 *
 * A literal of at least `stride + 3` bytes holds a word that begins at a multiple of the stride, wherever it stands. So of each
 * literal the words of one window are noted, the window that is rarest in logs; what the table says is compared byte by byte.
 */
const WORD = 4;
const LONG_STRIDE = 8;
const BITS = 18;
const SHIFT = 32 - BITS;
/** One sighting in the sample weighs more than the commonest letters. */
const SEEN = 10_000;
const MIX = 0x9e3779b1 | 0;
const SHORT = 1;
const LONG = 2;
const LETTERS = " etaoinsrhldcumfpgwybvkxjqz";
/** How common a byte is in text, by its value: a guess. */
const COMMONNESS = Float64Array.from({ length: 256 }, (_, byte) => {
  const place = LETTERS.indexOf(String.fromCharCode(byte));
  return place < 0 ? 1 : 9 - place / 4;
});

export class LiteralFinder {
  /**
   * @param {Uint8Array[]} literals each at least six bytes; a literal's number is its place in the list
   * @param {Uint8Array} sample some of the text, to tune the search to
   */
  constructor(literals, sample = new Uint8Array(0)) {
    this.literals = literals;
    this.table = new Uint8Array(1 << BITS);
    const commonness = new Commonness(sample);
    const noted = literals.flatMap((literal, number) => wordsOf(literal, number, commonness));
    noted.sort((a, b) => placeOf(a.word) - placeOf(b.word));
    /** By the place of a word in the table the first of its candidates, which lie side by side, four numbers each. */
    this.first = new Int32Array(1 << BITS);
    this.candidates = new Int32Array(4 * noted.length + 4);
    noted.forEach(({ word, tier, number, offset }, at) => {
      const place = placeOf(word);
      if (this.table[place] === 0) this.first[place] = 4 * at;
      this.table[place] |= tier;
      this.candidates.set([word, tier, number, offset], 4 * at);
    });
  }

  /**
   * Looks at the words from offset `start` to `stop` of the buffer, which are multiples of four; the buffer begins at a multiple
   * of eight of the stream. Calls `found(begin, number)`, offsets in the buffer, for what may be an occurrence.
   */
  search(bytes, words, start, stop, found) {
    const { table } = this;
    const last = stop >> 2;
    let at = start >> 2;
    // Two words at once: in the second, a literal that is long enough is not looked for.
    if ((at & 1) !== 0 && at < last) this.look(bytes, words[at], at++, stop, found);
    for (; at + 1 < last; at += 2) {
      const even = table[Math.imul(words[at], MIX) >>> SHIFT];
      const odd = table[Math.imul(words[at + 1], MIX) >>> SHIFT] & SHORT;
      if ((even | odd) !== 0) {
        if (even !== 0) this.tell(bytes, words[at], at, stop, found);
        if (odd !== 0) this.tell(bytes, words[at + 1], at + 1, stop, found);
      }
    }
    if (at < last) this.look(bytes, words[at], at, stop, found);
  }

  look(bytes, word, at, stop, found) {
    const flags = this.table[placeOf(word)];
    if ((flags & SHORT) !== 0 || (flags !== 0 && (at & 1) === 0)) this.tell(bytes, word, at, stop, found);
  }

  /** Whether the literal stands at this offset of the buffer. */
  isAt(bytes, begin, number) {
    const literal = this.literals[number];
    let at = literal.length - 1;
    while (at >= 0 && bytes[begin + at] === literal[at]) at--;
    return at < 0;
  }

  tell(bytes, word, at, stop, found) {
    const { candidates, literals } = this;
    const place = placeOf(word);
    for (let one = this.first[place]; placeOf(candidates[one]) === place && candidates[one + 1] !== 0; one += 4) {
      if (candidates[one] !== word || (candidates[one + 1] === LONG && (at & 1) !== 0)) continue;
      const number = candidates[one + 2];
      const literal = literals[number];
      const begin = at * WORD - candidates[one + 3];
      const end = begin + literal.length;
      // Of what ends behind `stop` not all bytes may have come.
      if (end > stop || bytes[end - 1] === literal[literal.length - 1]) found(begin, number);
    }
  }
}

function wordsOf(literal, number, commonness) {
  const isLong = literal.length >= LONG_STRIDE + WORD - 1;
  const stride = isLong ? LONG_STRIDE : WORD;
  const first = commonness.rarest(literal, Math.min(stride + WORD - 1, literal.length));
  const offsets = Array.from({ length: stride }, (_, step) => first + step);
  const tier = isLong ? LONG : SHORT;
  return offsets.flatMap((offset) => wordsAt(literal, offset).map((word) => ({ word, tier, number, offset })));
}

/** The words that may stand at an offset of a literal: one, or, at its end, all that go on as they like. */
function wordsAt(literal, offset) {
  if (offset + WORD <= literal.length) return [wordAt(literal, offset)];
  const start = Uint8Array.from([...literal.subarray(offset), 0]);
  return Array.from({ length: 256 }, (_, byte) => wordAt(start, 0) | (byte << 24));
}

function wordAt(bytes, at) {
  return bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24);
}

/** How common each word is in a sample of the text, by its place in the table; without one, a guess by its letters. */
class Commonness {
  constructor(sample) {
    this.counts = new Uint32Array(1 << BITS);
    for (let at = 0; at + WORD <= sample.length; at++) this.counts[placeOf(wordAt(sample, at))]++;
  }

  of(bytes, at) {
    let cost = 1;
    for (let one = at; one < at + WORD; one++) cost *= COMMONNESS[bytes[one]];
    return cost + this.counts[placeOf(wordAt(bytes, at))] * SEEN;
  }

  /** Where the part of so many bytes begins whose words are the least common. */
  rarest(literal, length) {
    const costs = [];
    for (let at = 0; at + WORD <= literal.length; at++) costs.push(this.of(literal, at));
    let [best, least] = [0, Infinity];
    for (let first = 0; first + length <= literal.length; first++) {
      let cost = 0;
      for (let at = first; at + WORD <= first + length; at++) cost += costs[at];
      if (cost < least) [best, least] = [first, cost];
    }
    return best;
  }
}

function placeOf(word) {
  return Math.imul(word, MIX) >>> SHIFT;
}
