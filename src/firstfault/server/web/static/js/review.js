// The drawer that shows what will be sent, line by line, each with a tick box.
import { countOfLines, exactSizeOf } from "./handed_list.js";

const AT_ONCE = 300;
const PSEUDONYM = /(‹[a-z]{2,8}-\d{1,9}›)/;

export class Review {
  constructor(details, leave) {
    this.details = details;
    this.leave = leave;
    this.lines = details.querySelector("#lines");
    this.open = new Set();
    details.addEventListener("toggle", () => this.draw());
  }

  hide() {
    this.details.hidden = true;
  }

  /** @param capsule what the worker made: `all` lines with `left`, the manifest, and the bytes that are sent */
  show(capsule) {
    this.capsule = capsule;
    const lines = capsule.all.flatMap((source) => source.stretches.flat()).filter((line) => !line.left).length;
    const values = capsule.masked.length;
    this.details.hidden = false;
    this.details.querySelector("#amount").textContent =
      `${countOfLines(lines)}, ${exactSizeOf(capsule.bytes.length)}, ` +
      `${values} ${values === 1 ? "value" : "values"} masked`;
    this.details.querySelector("#masked").textContent = [
      ...capsule.masked.map(({ pseudonym, rule, times }) => `‹${pseudonym}› ${times} times (${rule})`),
      ...capsule.notes,
    ].join(" · ");
    this.draw();
  }

  draw() {
    if (!this.details.open || !this.capsule) return;
    const focused = document.activeElement?.dataset?.line;
    this.lines.replaceChildren(...this.capsule.all.map((source) => this.source(source)));
    if (focused) this.lines.querySelector(`[data-line="${CSS.escape(focused)}"]`)?.focus();
  }

  source({ id, path, stretches }) {
    const part = document.createElement("details");
    const title = document.createElement("summary");
    title.append(...marked(path), ` (${countOfLines(stretches.flat().length)})`);
    part.append(title);
    const fill = () => {
      if (part.childElementCount === 1) append(part, this.rows(id, stretches));
    };
    part.open = this.open.has(id) || this.capsule.all.length === 1;
    if (part.open) fill();
    part.addEventListener("toggle", () => {
      if (part.open) this.open.add(id);
      else this.open.delete(id);
      fill();
    });
    return part;
  }

  *rows(id, stretches) {
    for (const stretch of stretches) {
      const block = document.createElement("div");
      block.className = "stretch";
      yield { block };
      for (const line of stretch) yield { row: this.row(id, line), block };
    }
  }

  row(id, { number, offset, text, left }) {
    const row = document.createElement("label");
    row.className = left ? "one left" : "one";
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = !left;
    box.dataset.line = `${id} ${offset}`;
    box.setAttribute("aria-label", `Send line ${number}`);
    box.addEventListener("change", () => {
      row.classList.toggle("left", !box.checked);
      this.leave({ id, offset, left: !box.checked });
    });
    const count = document.createElement("span");
    count.className = "number";
    count.textContent = number;
    const code = document.createElement("code");
    code.append(...marked(text));
    row.append(box, count, code);
    return row;
  }
}

/** Adds rows a few at a time, so that the page stays responsive. */
function append(part, rows) {
  const some = [];
  for (let next = rows.next(); !next.done; next = rows.next()) {
    const { row, block } = next.value;
    if (row) block.append(row);
    else part.append(block);
    some.push(row);
    if (some.length >= AT_ONCE) {
      setTimeout(() => append(part, rows), 0);
      return;
    }
  }
}

/** The text as nodes, masked values marked. */
function marked(text) {
  return text.split(PSEUDONYM).map((piece) => {
    if (!PSEUDONYM.test(piece)) return piece;
    const mark = document.createElement("mark");
    mark.textContent = piece;
    return mark;
  });
}
