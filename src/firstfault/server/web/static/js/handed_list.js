// The list of what was handed over: name, size, how far it is read, how many lines are kept.

const UNITS = ["bytes", "KB", "MB", "GB"];

export class HandedList {
  constructor(table, remove) {
    this.table = table;
    this.body = table.tBodies[0];
    this.remover = remove;
    this.rows = new Map();
  }

  get size() {
    return this.rows.size;
  }

  add(files) {
    const rows = document.createDocumentFragment();
    for (const { id, path, file } of files) {
      const row = document.createElement("tr");
      for (const content of [path, sizeOf(file.size), "", "", ""]) row.insertCell().textContent = content;
      const bar = document.createElement("progress");
      bar.max = file.size || 1;
      bar.value = 0;
      bar.setAttribute("aria-label", `${path} read`);
      row.cells[2].append(bar);
      const button = document.createElement("button");
      button.type = "button";
      button.className = "plain";
      button.textContent = "Remove";
      button.setAttribute("aria-label", `Remove ${path}`);
      button.addEventListener("click", () => this.remover(id));
      row.cells[4].append(button);
      this.rows.set(id, { row, bar, since: performance.now() });
      rows.append(row);
    }
    this.body.append(rows);
    this.table.hidden = false;
  }

  progress({ id, read }) {
    const one = this.rows.get(id);
    if (one) one.bar.value = read;
  }

  scanned({ id, kept, lines, why }) {
    const one = this.rows.get(id);
    if (!one) return;
    const { row, bar } = one;
    bar.remove();
    row.cells[2].textContent = why || `${countOfLines(lines)} read`;
    row.cells[2].classList.toggle("why", Boolean(why));
    row.cells[3].textContent = why ? "" : kept === lines ? "whole file kept" : `${countOfLines(kept)} kept`;
  }

  remove(id) {
    this.rows.get(id)?.row.remove();
    this.rows.delete(id);
    this.table.hidden = !this.rows.size;
  }
}

export function countOfLines(count) {
  return `${count.toLocaleString("en")} ${count === 1 ? "line" : "lines"}`;
}

/** `21 KB (21,340 bytes)`, and of less than a thousand only `614 bytes`. */
export function exactSizeOf(bytes) {
  return bytes < 1000 ? sizeOf(bytes) : `${sizeOf(bytes)} (${bytes.toLocaleString("en")} bytes)`;
}

/** `1.2 GB`, `21 KB`. */
export function sizeOf(bytes) {
  const unit = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), UNITS.length - 1);
  const value = bytes / 1000 ** unit;
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}
