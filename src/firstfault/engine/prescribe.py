"""Which fixes of an entry fit this run, as changes to the user's own files or commands, and how to see that they worked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from firstfault.engine import edit
from firstfault.knowledge.expression import parse
from firstfault.knowledge.pack import body
from firstfault.model.diagnosis import Fix, Verification

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.engine.blanks import Blanks, FactSource
    from firstfault.knowledge.schema import CodeBlock, Entry, EntryBody, FixRule, Pack, SettingEdit
    from firstfault.model.bundle import Bundle

MAX_FIXES = 4
# What a framework is built on: where it has no block of its own, the block of the next one down is the nearest pattern.
_BUILT_ON: dict[str, tuple[str, ...]] = {
    "transformers": ("transformers", "accelerate", "torch"),
    "accelerate": ("accelerate", "torch"),
    "lightning": ("lightning", "torch"),
    "deepspeed": ("deepspeed", "torch"),
    "megatron": ("megatron", "torch"),
    "torch": ("torch",),
}


def prescribe(
    entry: Entry, known: FactSource, bundle: Bundle, pack: Pack, blanks: Blanks
) -> tuple[tuple[Fix, ...], tuple[Verification, ...]]:
    """Fixes in the order of the entry, those that apply as they are in front; and the verifications that they name."""
    stacks = _stacks(known)
    text = body(pack, entry.id)
    rules = [rule for rule in entry.fixes if _applies(rule, known)]
    fitting = [rule for rule in rules if not rule.stacks or set(rule.stacks) & set(stacks)] or rules
    made = [(rule, _fix(rule, text, stacks, bundle, blanks)) for rule in fitting[:MAX_FIXES]]
    if any(fix.applies and not _adds_to_launch(rule) for rule, fix in made):
        # Fixes are one of each: beside a change of a file, another word for the launch line is shown and not applied as well.
        nowhere = msgspec.structs.replace(bundle, reports=())
        made = [(rule, _fix(rule, text, stacks, nowhere, blanks) if _adds_to_launch(rule) else fix) for rule, fix in made]
    made.sort(key=lambda pair: not pair[1].applies)
    named = dict.fromkeys(rule.verify for rule, _ in made if rule.verify)
    wanted = [rule for name in named for rule in entry.verify if rule.id == name] or list(entry.verify)
    verifications = [Verification(command=blanks.fill(rule.run), expect=blanks.fill(rule.expect)) for rule in wanted]
    return tuple(fix for _, fix in made), tuple(verifications)


def _adds_to_launch(rule: FixRule) -> bool:
    return any(one.add and one.family in ("command", "environment") for one in rule.edit)


def _stacks(known: FactSource) -> tuple[str, ...]:
    framework = known.value("run.framework")
    if isinstance(framework, str) and framework in _BUILT_ON:
        return _BUILT_ON[framework]
    return ("torch", "transformers", "accelerate")


def _applies(rule: FixRule, known: FactSource) -> bool:
    return not rule.when or parse(rule.when).evaluate(known) is True


def _fix(rule: FixRule, text: EntryBody, stacks: Sequence[str], bundle: Bundle, blanks: Blanks) -> Fix:
    title = rule.title or rule.id.replace("-", " ").capitalize()
    risk = blanks.fill_prose(rule.risk)
    if rule.edit:
        changes = [change for one in rule.edit for change in _changes(one, blanks)]
        patch = edit.patch(changes, bundle) if changes else None
        if patch is not None:
            return Fix(title=title, kind="edit", file=patch.path, text=patch.diff, risk=risk, applies=patch.applies)
    block = _block(text.fixes.get(rule.id, ()), stacks)
    pattern = blanks.fill(block.text).rstrip("\n") if block else text.fix_texts.get(rule.id, "").strip()
    return Fix(title=title, kind=rule.kind, text=pattern, risk=risk)


def _changes(rule: SettingEdit, blanks: Blanks) -> list[edit.Change]:
    """A change for each key that the rule names; none while a blank of it is unknown."""
    keys, value, names = (blanks.fill(template) for template in (rule.key, rule.value, rule.rename))
    if any("{" in template and "<" in text for template, text in ((rule.key, keys), (rule.value, value), (rule.rename, names))):
        return []
    renamed = [name.strip() for name in names.split(",")]
    # accelerate itself names keys as `['a', 'b']`.
    keyed = [key.strip("[]'\" ") for key in keys.split(", " if rule.move else ",")]
    if rule.rename and len(renamed) != len(keyed):
        return []
    return [
        edit.Change(
            rule.family, key, value, rule.add, rule.quote, rule.remove, renamed[place] if rule.rename else "", rule.move
        )
        for place, key in enumerate(keyed)
    ]


def _block(blocks: Sequence[CodeBlock], stacks: Sequence[str]) -> CodeBlock | None:
    for stack in (*stacks, ""):
        for block in blocks:
            if block.stack == stack:
                return block
    return blocks[0] if blocks else None
