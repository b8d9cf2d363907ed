// The start page with script: files are scanned here, in a Worker; what will be sent is shown; nothing leaves before the button.
import { byPath, isWanted } from "./scan/names.js";
import { droppedFiles } from "./dropped.js";
import { HandedList } from "./handed_list.js";
import { Review } from "./review.js";

const PASTED = "pasted.txt";
const TYPED = "command.txt";
const WAIT_MS = 250;
const form = document.getElementById("hand-over");
const text = document.getElementById("text");
const command = document.getElementById("command");
const button = document.getElementById("diagnose");
const state = document.getElementById("state");
const refused = document.getElementById("refused");
const worker = new Worker(new URL("./scan/worker.js", import.meta.url), { type: "module" });
const list = new HandedList(document.getElementById("list"), remove);
const review = new Review(document.getElementById("review"), (leave) => change({ leave }));
const pack = fetch(form.dataset.pack).then((answer) => answer.json());
let ids = 0;
let version = 0;
const typed = new Map();
let current = null;
let isWaiting = false;

worker.postMessage({ version, start: form.dataset.pack });
worker.onmessage = ({ data }) => {
  if (data.progress) list.progress(data.progress);
  if (data.scanned) list.scanned(data.scanned);
  // What was changed since then is in the next one.
  if (data.capsule?.version === version) {
    current = data.capsule;
    review.show(current);
    tell("");
    if (isWaiting) send();
  }
};
worker.onerror = (event) => refuse(event.message || "the scanner could not be started");

for (const needing of form.querySelectorAll(".needs-script")) needing.hidden = false;
for (const other of form.querySelectorAll(".without-script")) other.hidden = true;
const folder = document.getElementById("folder");
folder.hidden = false;
folder.tabIndex = 0;
document.getElementById("how").append("Read in this browser: only what you see below is sent.");

for (const [input, name] of [[text, PASTED], [command, TYPED]]) {
  let timer = 0;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    current = null;
    timer = setTimeout(() => take(input, name), WAIT_MS);
  });
  if (input.value.trim()) take(input, name);
}
for (const input of [document.getElementById("files"), folder]) {
  input.addEventListener("change", () => {
    addFiles([...input.files].map((file) => ({ path: file.webkitRelativePath || file.name, file })));
    input.value = "";
  });
}
const drop = document.getElementById("drop");
for (const [name, isOver] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
  drop.addEventListener(name, (event) => {
    if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
    drop.classList.toggle("over", isOver);
  });
}
drop.addEventListener("drop", async (event) => {
  if (event.dataTransfer.types.includes("Files")) addFiles(await droppedFiles(event.dataTransfer.items));
});
for (const sample of document.querySelectorAll("[data-sample]")) {
  sample.addEventListener("click", async (event) => {
    event.preventDefault();
    const answer = await fetch(sample.dataset.sample);
    if (!answer.ok) return refuse(`the sample could not be loaded: ${answer.status}`);
    const { files } = await answer.json();
    addFiles(files.map(([path, content]) => ({ path, file: new File([content], path.split("/").at(-1)) })));
    button.focus();
  });
}
document.getElementById("save").addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([current.bytes], { type: "application/json" }));
  link.download = "capsule.json";
  link.click();
  URL.revokeObjectURL(link.href);
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  refused.hidden = true;
  for (const [input, name] of [[text, PASTED], [command, TYPED]]) take(input, name);
  if (current) send();
  else if (list.size) {
    isWaiting = true;
    tell("Scanning; it is sent when that is done.");
  } else refuse("Nothing was handed over: paste a traceback or a log, or choose files.");
});

/** What stands in a field is a source like a file; it replaces what stood there before. */
function take(input, name) {
  const value = input.value.trim() ? (name === TYPED ? `${input.value.trim()}\n` : input.value) : "";
  const before = typed.get(name);
  if ((before?.value ?? "") === value) return;
  if (before) remove(before.id);
  typed.delete(name);
  if (!value) return;
  typed.set(name, { id: add([{ path: name, file: new File([value], name) }])[0], value });
}

async function addFiles(found) {
  const wanted = await pack;
  const isFolder = found.some(({ path }) => path.includes("/"));
  const kept = found.filter(({ path }) => !isFolder || isWanted(path, wanted)).sort((a, b) => byPath(a.path, b.path));
  if (kept.length) add(kept);
  else refuse("No file there could be a log, a configuration or a command.");
}

function add(files) {
  const added = files.map(({ path, file }) => ({ id: ++ids, path, file }));
  list.add(added);
  change({ add: added });
  return added.map(({ id }) => id);
}

function remove(id) {
  list.remove(id);
  for (const [name, one] of typed) if (one.id === id) typed.delete(name);
  change({ remove: id });
}

function change(message) {
  current = null;
  refused.hidden = true;
  worker.postMessage({ ...message, version: ++version });
  tell(list.size ? "Scanning …" : "");
  if (!list.size) review.hide();
}

/** Sends the bytes that are shown, and goes to the answer. */
async function send() {
  isWaiting = false;
  if (!current.sources) return refuse(current.notes[0] ?? "Nothing of it can be sent.");
  if (current.bytes.length > Number(form.dataset.limit)) return refuse("More than may be sent at once: leave files or lines out.");
  button.disabled = true;
  tell("Looking for the first fault …");
  try {
    const headers = { "Content-Type": "application/json", "Idempotency-Key": key() };
    const answer = await fetch(form.dataset.send, { method: "POST", headers, body: current.bytes });
    const said = await answer.json();
    if (answer.ok) location.assign(said.url);
    else refuse([said.title, said.detail, said.hint].filter(Boolean).join(": "));
  } catch (error) {
    refuse(`It could not be sent: ${error.message}`);
  } finally {
    button.disabled = false;
    tell("");
  }
}

function key() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function refuse(why) {
  isWaiting = false;
  refused.textContent = why;
  refused.hidden = false;
}

function tell(what) {
  state.textContent = what;
}
