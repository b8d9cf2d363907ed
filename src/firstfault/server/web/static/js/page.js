// What a page does better with script. Without it everything is there: nothing here is needed.
import { addCopyButtons, addPageCopies } from "./copy.js";
import { addTabs } from "./tabs.js";
import { openTarget } from "./evidence.js";

addTabs(document);
addCopyButtons(document);
addPageCopies(document);
openTarget();
