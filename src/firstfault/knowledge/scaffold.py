"""Writes the skeleton of a new entry: it compiles, and the lint names everything that is left to fill."""

from __future__ import annotations

import json
from pathlib import Path

from firstfault.errors import UsageError
from firstfault.lazy_pattern import lazy_pattern
from firstfault.version import __version__

_ID = lazy_pattern(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")

_SKELETON = """\
+++
id       = {id}
title    = {title}
{refines}category = {category}
role     = "initiating"
status   = "preview"
since    = {since}
tags     = []
aliases  = []
says     = "<fill: the cause in one sentence, with this run's numbers as {{fact}}>"

[[requires]]
if   = 'fill.requirement'
says = "<fill: what must be true>"

[[evidence]]
if       = 'fill.evidence'
says     = "<fill: what shows this cause and no sibling>"
decisive = true

[[fix]]
id     = "fill-fix"
title  = "<fill: what the change does>"
for    = ["torch"]
kind   = "edit"
verify = "fill-verification"
risk   = "<fill: what it costs>"

[[verify]]
id     = "fill-verification"
run    = "<fill: a command>"
expect = "<fill: what it must show, with a number>"
+++

# {heading}

## In short

<fill: what it costs and what to decide, for whoever pays>

## Why it happens

<fill: the mechanism, with names and versions>

## Fix

### fill-fix

```diff torch
-<fill: the line as it is>
+<fill: the line as it should be>
```

## Verify

<fill: what proves that the fix holds>

## Sources

- <fill: upstream documentation or source files, with versions>

## Tests

```log wins expect={heading_id}
<fill: a log that this entry must win>
```

```log near-miss expect=undetermined
<fill: a log that looks alike and that a sibling, or nothing, must win>
```
"""


def new_entry(root: Path, entry_id: str, category: str, refines: str | None, title: str) -> Path:
    """The path of a new skeleton `encyclopedia/<category>/<id>.md` below `root`; UsageError if it cannot be made."""
    for name, value in (("id", entry_id), ("category", category), *((("parent", refines),) if refines else ())):
        if not _ID.match(value):
            raise UsageError(f"the {name} of an entry is lower case with dashes, not {value!r}")
    if not title.strip() or not title.isprintable():
        raise UsageError("an entry needs a title of one line")
    encyclopedia = root / "encyclopedia"
    if not encyclopedia.is_dir():
        raise UsageError("there is no encyclopedia here", where=str(encyclopedia), hint="run it in a source tree of firstfault")
    existing = next(encyclopedia.glob(f"*/{entry_id}.md"), None)
    if existing:
        raise UsageError(f"the entry `{entry_id}` exists already", where=str(existing))
    if refines and not any(encyclopedia.glob(f"*/{refines}.md")):
        raise UsageError(f"the parent `{refines}` is no entry")
    path = encyclopedia / category / f"{entry_id}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(_skeleton(entry_id, category, refines, title.strip()), encoding="utf-8")
    return path


def _skeleton(entry_id: str, category: str, refines: str | None, title: str) -> str:
    # A JSON string is a TOML basic string.
    return _SKELETON.format(
        id=json.dumps(entry_id),
        title=json.dumps(title, ensure_ascii=False),
        refines=f"refines  = {json.dumps(refines)}\n" if refines else "",
        category=json.dumps(category),
        since=json.dumps(".".join(__version__.split(".")[:2])),
        heading=title,
        heading_id=entry_id,
    )
