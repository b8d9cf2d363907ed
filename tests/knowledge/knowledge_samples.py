"""Small data files of the knowledge, for tests that need a whole tree of them."""

from pathlib import Path

EXPLAINS = """
[[class]]
id = "device_oom"
prior = "initiating"
weight = 8
text = "OutOfMemoryError"

[[class]]
id = "silent_end"
prior = "collateral"
weight = 0
text = "a log that stops"
derived = true
"""

FACTS = """
[fault.class]
type = "enum"
values_from = "classes"
values = ["none"]
says = "class of the first event"
ask = "Which event came first?"
obtain = "firstfault {log_dir}"
cost = "seconds"
producer = "engine/attribute"

[oom.phase]
type = ["forward", "optimizer"]
says = "the part of the step"
ask = "Which frames?"
obtain = "the whole traceback"
cost = "seconds"
producer = "engine/derive/frames"

[oom.requested_bytes]
type = "bytes"
says = "asked for"
ask = "How much?"
obtain = "the message"
cost = "seconds"
producer = "signals"

[script.retain_graph]
type = "bool"
says = "retain_graph is set"
ask = "Is it?"
obtain = "cat {script}"
cost = "seconds"
producer = "engine/derive/frames"
"""

SIGNALS = """
[[signal]]
id = "torch.cuda.oom"
role = "initiating"
class = "device_oom"
text = 'CUDA out of memory. Tried to allocate {requested:size}.'
facts = { "oom.requested_bytes" = "{requested}" }
sample = [{ line = 'CUDA out of memory. Tried to allocate 12 MiB.', requested = 12582912 }]
"""

ENTRY = """+++
id       = "{id}"
title    = "Title of {id}"
{refines}category = "memory"
role     = "initiating"
status   = "stable"
since    = "0.1"
says     = "The {{oom.phase}} asked for {{oom.requested_bytes}}."

[[requires]]
if   = '{requires}'

[[evidence]]
if       = '{evidence}'
says     = "{{oom.requested_bytes}} were asked for."
decisive = true

[[fix]]
id     = "less"
for    = ["torch"]
verify = "runs"

[[verify]]
id     = "runs"
run    = "{{log}}"
expect = "three steps"
+++

# Title of {id}

## In short

It costs a restart.

## Why it happens

Memory is finite.

## Fix

Ask for less.

### less

Halve it.

```diff torch
-batch = 8
+batch = 4
```

## Verify

It runs.

## Sources

- torch 2.13

## Tests

```log wins expect={id}:established
CUDA out of memory. Tried to allocate 12 MiB.
```

```log near-miss expect=none
all is well
```
"""


def entry_text(entry_id, requires, *, refines=None, evidence="oom.requested_bytes > 0"):
    parent = f'refines  = "{refines}"\n' if refines else ""
    return ENTRY.format(id=entry_id, requires=requires, refines=parent, evidence=evidence)


ENTRIES = {
    "cuda-oom": entry_text("cuda-oom", 'fault.class in ["device_oom", "silent_end"]'),
    "oom-forward": entry_text("oom-forward", 'oom.phase == "forward"', refines="cuda-oom"),
    "oom-optimizer": entry_text(
        "oom-optimizer", 'oom.phase == "optimizer"', refines="cuda-oom", evidence="script.retain_graph"
    ),
}


def write_tree(root: Path, *, facts=FACTS, explains=EXPLAINS, signals=SIGNALS, entries=ENTRIES) -> Path:
    """A source tree of the knowledge below `root`."""
    (root / "signals").mkdir(parents=True)
    (root / "signals" / "torch.toml").write_text(signals, encoding="utf-8")
    folder = root / "encyclopedia" / "memory"
    folder.mkdir(parents=True)
    (root / "encyclopedia" / "facts.toml").write_text(facts, encoding="utf-8")
    (root / "encyclopedia" / "explains.toml").write_text(explains, encoding="utf-8")
    for name, text in entries.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return root
