// A mark of the timeline and a cited place lead to their line: it is shown even where it is folded.

/** Opens what hides the element that the address names, now and when the address changes. */
export function openTarget() {
  const open = () => {
    const found = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let one = found; one; one = one.parentElement) {
      if (one.tagName === "DETAILS") {
        one.open = true;
      }
    }
    if (found) {
      found.scrollIntoView({ block: "center" });
    }
  };
  addEventListener("hashchange", open);
  open();
}
