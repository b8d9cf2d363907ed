// Keeps the page of a run up to date: findings as they are found, counts and last lines about once a second. Without script the page is as it was loaded.

const live = document.querySelector("#live");
const byId = (id) => document.getElementById(id);
const silentAfter = Number(live.dataset.silentAfter) * 1000;
let heard = Date.now();
let connected = false;

const source = new EventSource(live.dataset.events);
source.addEventListener("open", () => { connected = true; say(); });
// The browser connects again by itself and sends the id of the last event that it saw.
source.addEventListener("error", () => { connected = false; say(); });
source.addEventListener("finding", (event) => addFinding(JSON.parse(event.data)));
source.addEventListener("pulse", (event) => showPulse(JSON.parse(event.data)));
source.addEventListener("gone", () => { source.close(); byId("state").textContent = "This run was deleted."; });
setInterval(say, 5000);

function say() {
  const quiet = Date.now() - heard;
  let text = byId("findings").children.length ? "Something failed." : "Nothing has failed so far.";
  if (quiet > silentAfter) text += ` No data for ${Math.round(quiet / 1000)} s.`;
  if (!connected) text += " Connecting to the console again…";
  if (byId("state").textContent !== text) byId("state").textContent = text;
}

function addFinding(found) {
  const item = document.createElement("li");
  const link = document.createElement("a");
  link.href = live.dataset.answers + encodeURIComponent(found.id);
  link.textContent = found.title || "A failure that is not decided yet";
  const about = document.createElement("span");
  about.className = "quiet";
  about.textContent = ` ${found.verdict}${found.rank === null ? "" : ` · rank ${found.rank} first`}`;
  item.append(link, about);
  byId("findings").prepend(item);
  byId("none").hidden = true;
  say();
}

function showPulse(pulse) {
  heard = Date.now();
  byId("records").textContent = pulse.records.toLocaleString("en");
  byId("count").textContent = pulse.count === 1 ? "1 stream" : `${pulse.count.toLocaleString("en")} streams`;
  byId("heard").textContent = pulse.last_at.slice(0, 19).replace("T", " ") + " UTC";
  const rows = new Map([...byId("streams").rows].map((row) => [row.dataset.name, row]));
  for (const stream of pulse.streams) {
    const row = rows.get(stream.name) ?? addRow(stream);
    row.cells[1].textContent = stream.rank ?? "";
    row.cells[2].textContent = stream.lines.toLocaleString("en");
    row.cells[3].textContent = stream.last_text;
  }
  say();
}

function addRow(stream) {
  const row = byId("streams").insertRow();
  row.dataset.name = stream.name;
  const name = document.createElement("th");
  name.scope = "row";
  name.textContent = stream.name;
  row.append(name);
  row.insertCell();
  row.insertCell().className = "figure";
  row.insertCell().className = "log";
  return row;
}
