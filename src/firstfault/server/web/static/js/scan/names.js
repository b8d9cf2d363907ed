/** Which files of a folder are looked at, in what order, and what they are called: as the command line does it. */
import { natural } from "./redact.js";

/** True for a file that a folder gives; what is named itself is always looked at. */
export function isWanted(path, pack) {
  const parts = path.split("/");
  const name = parts.at(-1).toLowerCase();
  const isHidden = parts.slice(1).some((part) => part.startsWith("."));
  const isSkipped = parts.slice(1, -1).some((part) => pack.skipped_folders.includes(part));
  return !isHidden && !isSkipped && !pack.never_text.some((ending) => name.endsWith(ending));
}

/** The order in which a folder is read: `rank_2` before `rank_10`, folder by folder. */
export function byPath(a, b) {
  const [first, second] = [a.split("/"), b.split("/")];
  for (let at = 0; at < Math.min(first.length, second.length); at++) {
    const order = natural(first[at], second[at]);
    if (order) return order;
  }
  return first.length - second.length;
}

/** Each path from the folder on that is the last common one; of a single path its last part. */
export function relativeNames(paths) {
  const parts = paths.map((path) => {
    const found = path.split(/[\\/]+/).filter((part) => !["", ".", ".."].includes(part));
    return found.length ? found : ["-"];
  });
  let shared = 0;
  while (parts.every((item) => item.length > shared + 1) && new Set(parts.map((item) => item[shared])).size === 1) shared++;
  return parts.map((item) => item.slice(shared).join("/"));
}
