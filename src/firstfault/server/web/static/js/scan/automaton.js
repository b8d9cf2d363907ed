/**
 * Finds every occurrence of a set of literals in bytes: an Aho-Corasick automaton, all steps of which stand in one table.
 * States are offsets of rows; those in which a literal ends come last, so that one comparison per byte tells them.
 */
export class Automaton {
  /** @param {Uint8Array[]} literals each at least one byte; a literal's number is its place in the list */
  constructor(literals) {
    const { next, ends } = trie(literals);
    const { classes, count } = classesOf(literals);
    link(next, ends, classes);
    const order = [...next.keys()].sort((a, b) => Number(ends[a].length > 0) - Number(ends[b].length > 0) || a - b);
    this.width = 1 << Math.ceil(Math.log2(count));
    const row = new Int32Array(next.length);
    order.forEach((state, at) => (row[state] = at * this.width));
    this.classes = classes;
    this.table = new Int32Array(next.length * this.width);
    for (const state of next.keys()) {
      for (let one = 0; one < count; one++) this.table[row[state] + one] = row[next[state][one] ?? 0];
    }
    const firstEnd = order.findIndex((state) => ends[state].length > 0);
    this.firstEnd = firstEnd < 0 ? this.table.length : firstEnd * this.width;
    this.root = row[0];
    /** Numbers of the literals that end in a state, by its row. */
    this.ends = new Map(order.filter((state) => ends[state].length).map((state) => [row[state], ends[state]]));
  }

  /**
   * Walks through `bytes` from `start` to `stop` and calls `found(end, numbers)` behind each occurrence.
   * @returns {number} the state to go on with
   */
  search(bytes, start, stop, state, found) {
    const { table, classes, firstEnd } = this;
    for (let at = start; at < stop; at++) {
      state = table[state + classes[bytes[at]]];
      if (state >= firstEnd) found(at + 1, this.ends.get(state));
    }
    return state;
  }
}

/** Each byte that stands in a literal has a class of its own, all others share class 0. */
function classesOf(literals) {
  const classes = new Uint8Array(256);
  let count = 1;
  for (const literal of literals) {
    for (const byte of literal) if (!classes[byte]) classes[byte] = count++;
  }
  if (count > 255) throw new Error("the literals use too many different bytes");
  return { classes, count };
}

function trie(literals) {
  const { classes } = classesOf(literals);
  const next = [[]];
  const ends = [[]];
  literals.forEach((literal, number) => {
    let state = 0;
    for (const byte of literal) {
      const one = classes[byte];
      if (next[state][one] === undefined) {
        next[state][one] = next.length;
        next.push([]);
        ends.push([]);
      }
      state = next[state][one];
    }
    ends[state].push(number);
  });
  return { next, ends };
}

/** Adds the steps back to shorter beginnings, breadth first. */
function link(next, ends, classes) {
  const count = Math.max(...classes) + 1;
  const back = new Int32Array(next.length);
  const queue = [];
  for (let one = 0; one < count; one++) {
    const state = next[0][one];
    if (state === undefined) next[0][one] = 0;
    else queue.push(state);
  }
  for (let at = 0; at < queue.length; at++) {
    const state = queue[at];
    ends[state] = [...new Set([...ends[state], ...ends[back[state]]])].sort((a, b) => a - b);
    for (let one = 0; one < count; one++) {
      const child = next[state][one];
      if (child === undefined) next[state][one] = next[back[state]][one];
      else {
        back[child] = next[back[state]][one];
        queue.push(child);
      }
    }
  }
}
