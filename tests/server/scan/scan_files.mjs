// Scans files as the browser does: node scan_files.mjs STATIC_JS PACK LISTS, LISTS a JSON file of lists of [path, file].
// One line of JSON for each list: its events, and the capsule's bytes in base64.
import { openAsBlob } from "node:fs";
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";

const [root, packFile, listsFile] = process.argv.slice(2);
const from = (name) => import(pathToFileURL(`${root}/scan/${name}.js`));
const [{ Scanner }, { scanFile }, { capsuleOf, encode, excerptOf }] = await Promise.all(
  ["scanner", "source", "capsule"].map(from),
);
const pack = JSON.parse(await readFile(packFile, "utf-8"));
const scanner = new Scanner(pack);
const plain = (value) => (typeof value === "bigint" || !Number.isFinite(value ?? 0) ? String(value) : value);

for (const list of JSON.parse(await readFile(listsFile, "utf-8"))) {
  const items = [];
  const events = [];
  for (const [path, file] of list) {
    const scan = await scanFile(await openAsBlob(file), scanner);
    if (scan.why) {
      items.push({ path, why: scan.why });
      continue;
    }
    for (const { signal, line, offset, captures } of scan.hits) {
      const values = Object.fromEntries(
        Object.entries(captures).map(([key, value]) => [key, typeof value === "string" ? value : plain(value)]),
      );
      events.push([path, signal.id, line, offset, values]);
    }
    items.push(excerptOf(path, scan, list.length));
  }
  const sent = encode(capsuleOf(items, [], pack.redaction).capsule);
  console.log(JSON.stringify({ events, capsule: Buffer.from(sent).toString("base64") }));
}
