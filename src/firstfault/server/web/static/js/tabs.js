// Several fixes beside each other: one is shown, the others are a key away. Without script they stand below each other.

let made = 0;

/** Turns each `.tabs` into tabs: arrow keys, Home and End move among them. */
export function addTabs(root) {
  for (const group of root.querySelectorAll(".tabs")) {
    const panels = [...group.querySelectorAll(":scope > .tab")];
    if (panels.length > 1) {
      makeTabs(group, panels);
    }
  }
}

function makeTabs(group, panels) {
  const list = document.createElement("div");
  list.className = "tablist";
  list.setAttribute("role", "tablist");
  list.setAttribute("aria-label", group.dataset.label || "Choices");
  const tabs = panels.map((panel, index) => makeTab(panel, index));
  list.append(...tabs);
  group.prepend(list);
  const show = (chosen, focused) => {
    tabs.forEach((tab, index) => {
      tab.setAttribute("aria-selected", String(index === chosen));
      tab.tabIndex = index === chosen ? 0 : -1;
      panels[index].hidden = index !== chosen;
    });
    if (focused) {
      tabs[chosen].focus();
    }
  };
  tabs.forEach((tab, index) => {
    tab.addEventListener("click", () => show(index, true));
    tab.addEventListener("keydown", (event) => {
      const moved = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (moved !== undefined) {
        event.preventDefault();
        show((moved + tabs.length) % tabs.length, true);
      }
    });
  });
  show(0, false);
}

function makeTab(panel, index) {
  made += 1;
  panel.id ||= `panel-${made}`;
  const heading = panel.querySelector("h3, h4");
  const tab = document.createElement("button");
  tab.type = "button";
  tab.id = `tab-${made}`;
  tab.setAttribute("role", "tab");
  tab.setAttribute("aria-controls", panel.id);
  tab.textContent = heading ? heading.textContent.trim() : `${index + 1}`;
  panel.setAttribute("role", "tabpanel");
  panel.setAttribute("aria-labelledby", tab.id);
  panel.tabIndex = 0;
  heading?.classList.add("in-tab");
  return tab;
}
