// Copying: a button on each block of code, and links that copy what they lead to.

const SHOWN_MS = 1800;

/** Puts `text` on the clipboard; on a page without https the old way. */
export async function copy(text) {
  if (navigator.clipboard && window.isSecureContext) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "hidden";
  area.setAttribute("aria-hidden", "true");
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) {
    throw new Error("the browser does not let pages copy");
  }
}

/** A button at the corner of each command, diff and code block. */
export function addCopyButtons(root) {
  for (const block of root.querySelectorAll("pre.command, pre.diff")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    const frame = document.createElement("div");
    frame.className = "copied";
    block.replaceWith(frame);
    frame.append(block, button);
    button.addEventListener("click", () => said(button, () => copy(textOf(block))));
  }
}

/** Links with `data-copy` copy the text at that address; with a modifier key, or where that fails, they stay links. */
export function addPageCopies(root) {
  for (const link of root.querySelectorAll("a[data-copy]")) {
    link.addEventListener("click", (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) {
        return;
      }
      event.preventDefault();
      said(link, async () => {
        const answer = await fetch(link.dataset.copy);
        if (!answer.ok) {
          throw new Error(`answered ${answer.status}`);
        }
        await copy(await answer.text());
      });
    });
  }
}

/** The text of a block as it is to be pasted: lines of a diff are elements of their own. */
function textOf(block) {
  const lines = [...block.querySelectorAll("code > span")];
  return lines.length > 0 ? `${lines.map((line) => line.textContent).join("\n")}\n` : block.textContent;
}

async function said(button, work) {
  const before = button.dataset.label ?? button.textContent;
  button.dataset.label = before;
  try {
    await work();
    button.textContent = "Copied";
  } catch (error) {
    button.textContent = `Not copied: ${error.message}`;
  }
  announce(button.textContent);
  setTimeout(() => {
    button.textContent = before;
  }, SHOWN_MS);
}

/** Tells screen readers what happened. */
function announce(text) {
  let place = document.getElementById("announced");
  if (!place) {
    place = document.createElement("p");
    place.id = "announced";
    place.className = "hidden";
    place.setAttribute("role", "status");
    document.querySelector("main").append(place);
  }
  place.textContent = text;
}
