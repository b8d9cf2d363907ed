"""The sentences that every surface says alike: what was read, the verdict, who was first, what to ignore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.diagnosis import Alternative, Collateral, Diagnosis, Evidence, Fix, Initiating, Missing
from firstfault.units import format_duration, format_size

EXIT_CODES = {"no_failure": 0, "established": 1, "likely": 1, "undetermined": 3}
DECISIVE = 5
_VERDICT_WORDS = {"established": "FAILED", "likely": "FAILED", "undetermined": "UNDETERMINED", "no_failure": "NO FAILURE"}
_MOST_CITED = 2
_DIGITS = lazy_pattern(r"\d+")
_SINCE_BOOT = lazy_pattern(r"\[?\s*\d+\.\d+\]?")
_EPOCH = lazy_pattern(r"1\d{9}(?:\.\d+)?")
_CLOCK = lazy_pattern(r"(\d{4}-\d\d-\d\d)?[T ]?(\d\d:\d\d:\d\d)(?:[.,](\d+))?")
_PROCESSES = ("run.world_size", "launch.processes", "launch.world_size_seen")
_ONLY_A_BLANK = lazy_pattern(r"<your [a-z ]+>")
OWN_ERROR = "the rank's own first error"
_STEPS = lazy_pattern(r"""(?:"[^"]*"|'[^']*'|`[^`]*`|\([^()]*\)|;(?! )|[^;])+""")
RUN_AGAIN = "start the run again, as before"
_FROM_STDIN = frozenset({"-", "stdin", "<stdin>"})


class CollateralGroup(msgspec.Struct, frozen=True):
    """Consequences of one kind: on which ranks, what they are, what explains them, and the lines that show them."""

    ranks: tuple[int, ...]
    what: str
    explained_by: str
    evidence: tuple[str, ...]


def exit_code(diagnosis: Diagnosis) -> int:
    """The exit status that this answer gives to a shell."""
    return EXIT_CODES[diagnosis.verdict]


def what_was_read(diagnosis: Diagnosis, *, here: bool = True) -> list[str]:
    """`4 ranks`, `6 files`, `212,418 lines`, `0.9 s`, and if it was read `here`, `nothing left this machine`."""
    sources = diagnosis.sources
    paths = {source.path for source in sources}
    noun = "source" if paths & _FROM_STDIN else "file"
    ranks = ranks_seen(diagnosis)
    parts = [_count(len(ranks), "rank")] if ranks else []
    parts.append(_count(len(paths), noun))
    lines = sum(source.lines for source in sources)
    parts.append(_count(lines, "line") if lines else format_size(sum(source.bytes for source in sources)))
    parts.append(format_duration(diagnosis.elapsed_s) if diagnosis.elapsed_s >= 0.05 else "under 0.1 s")
    return [*parts, "nothing left this machine"] if here else parts


def ranks_seen(diagnosis: Diagnosis) -> set[int]:
    """All ranks that the answer speaks of or that a source belongs to."""
    ranks = {source.rank for source in diagnosis.sources} | {mark.rank for mark in diagnosis.timeline}
    if diagnosis.initiating:
        ranks |= {diagnosis.initiating.rank, *diagnosis.initiating.ranks}
    return {rank for rank in ranks if rank is not None}


def verdict_word(diagnosis: Diagnosis) -> str:
    """FAILED, UNDETERMINED or NO FAILURE."""
    return _VERDICT_WORDS[diagnosis.verdict]


def title(diagnosis: Diagnosis) -> str:
    """The title of the answer, also where there is no entry."""
    if diagnosis.title:
        return diagnosis.title
    return "Nothing in what was read failed" if diagnosis.verdict == "no_failure" else "What was read does not decide the cause"


def who_was_first(initiating: Initiating) -> str:
    """`rank 2 (node-1) failed first, at 10:41:07.3`, or that all failed alike, or who is suspected."""
    ranks = initiating.ranks or (() if initiating.rank is None else (initiating.rank,))
    if initiating.relation == "symmetric":
        text = f"{ranks_text(ranks)} failed alike" if ranks else "all ranks failed alike"
    elif initiating.relation == "several":
        text = f"{ranks_text(ranks)} may have failed first" if ranks else "what failed first is not known"
    elif initiating.rank is not None:
        verb = {"established": "failed first", "likely": "probably failed first", "undetermined": "may have failed first"}
        text = f"rank {initiating.rank}{f' ({initiating.host})' if initiating.host else ''} {verb[initiating.certainty]}"
    elif initiating.host:
        text = f"it began on {initiating.host}"
    elif initiating.certainty == "undetermined":
        text = "which rank failed first is not known"
    else:
        text = "no line says which rank it was"
    if initiating.time and (clock := moment(initiating.time)):
        text += f", at {clock}"
    if initiating.attempt:
        text += f", in attempt {initiating.attempt}"
    return text


def verdict_of_rank(diagnosis: Diagnosis) -> list[str]:
    """Who was first and how sure that is; nothing for a run of one process, which has nobody to compare."""
    initiating = diagnosis.initiating
    if initiating is None:
        return []
    if names_somebody(initiating):
        # Where only the host is known, no rank is claimed.
        named = initiating.rank is not None or initiating.ranks or initiating.relation == "symmetric"
        return [who_was_first(initiating), f"{'rank' if named else 'host'}: {initiating.certainty}"]
    several = len(ranks_seen(diagnosis)) > 1 or any(_known_number(diagnosis, name) > 1 for name in _PROCESSES)
    if several or initiating.certainty == "undetermined":
        return [who_was_first(initiating)]
    clock = moment(initiating.time or "")
    return [f"at {clock}"] if clock else []


def moment(time: str) -> str:
    """A printed time as people read it: the clock, with its date if one was printed; empty for the time since boot."""
    if _SINCE_BOOT.fullmatch(time.strip()):
        return ""
    if _EPOCH.fullmatch(time.strip()):
        from datetime import UTC, datetime

        return f"{datetime.fromtimestamp(float(time), UTC):%Y-%m-%d %H:%M:%S} UTC"
    found = _CLOCK.search(time)
    if not found:
        return time
    date, clock, fraction = found.groups()
    fraction = (fraction or "")[:3].rstrip("0")
    return f"{date + ' ' if date else ''}{clock}{'.' + fraction if fraction else ''}"


def _known_number(diagnosis: Diagnosis, name: str) -> int:
    fact = diagnosis.facts.get(name)
    value = fact.get("value") if isinstance(fact, dict) else None
    return value if isinstance(value, int) else 0


def names_somebody(initiating: Initiating) -> bool:
    """True if there is a rank or a host whose certainty can be told."""
    has_place = initiating.rank is not None or bool(initiating.ranks) or initiating.host is not None
    return has_place or initiating.relation == "symmetric"


def ranks_text(ranks: Iterable[int]) -> str:
    """`rank 2`, `ranks 0, 1`, `ranks 0-3, 7`."""
    numbers = sorted(set(ranks))
    return f"{'rank' if len(numbers) == 1 else 'ranks'} {rank_list(numbers)}"


def rank_list(numbers: Sequence[int]) -> str:
    """`0-3, 7`: three or more in a row are joined."""
    parts: list[str] = []
    start = 0
    for index, number in enumerate(numbers):
        if index + 1 < len(numbers) and numbers[index + 1] == number + 1:
            continue
        run = numbers[start : index + 1]
        parts += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(one) for one in run]
        start = index + 1
    return ", ".join(parts)


def collateral_groups(items: Iterable[Collateral], titles: Mapping[str, str]) -> list[CollateralGroup]:
    """Consequences of one kind and one explanation (numbers aside) together, in the order of their first mention."""
    groups: dict[tuple[str, str], list[Collateral]] = {}
    for item in items:
        what = item.what or titles.get(item.entry, item.entry)
        groups.setdefault((what, _DIGITS.sub("#", item.explained_by)), []).append(item)
    return [_collateral_group(what, group) for (what, _), group in groups.items()]


def _collateral_group(what: str, group: Sequence[Collateral]) -> CollateralGroup:
    explained_by = group[0].explained_by
    if any(item.explained_by != explained_by for item in group):
        explained_by += ", and alike"
    return CollateralGroup(
        ranks=tuple(sorted({item.rank for item in group if item.rank is not None})),
        what=what,
        explained_by=explained_by,
        evidence=tuple(dict.fromkeys(key for item in group for key in item.evidence)),
    )


def explained_mostly(groups: Sequence[CollateralGroup]) -> str:
    """What explains most of the consequences: said once, above them."""
    said = [group.explained_by for group in groups]
    others = [text for text in said if text != OWN_ERROR] or said
    return max(dict.fromkeys(others), key=others.count, default="")


def follows_from(group: CollateralGroup, mostly: str) -> str:
    """What a group follows from, where that is not what most follow from."""
    return "" if group.explained_by == mostly else f"after {group.explained_by}"


def question(missing: Missing) -> str:
    """The question in words; its name if the list of facts has no words for it."""
    return missing.ask or missing.fact


def steps(command: str) -> str:
    """One command a line: `a; b` outside of quotes is two."""
    return "\n".join(part.strip() for part in _STEPS.findall(command) if part.strip("; "))


def decides(missing: Missing) -> str:
    """What the answer decides, without the question."""
    return missing.why.removeprefix(missing.ask).strip()


def answering(missing: Missing, inputs: str) -> list[str]:
    """The commands that take an answer: a word where a word is enough, otherwise a file."""
    file = f"firstfault diagnose {inputs} --answer FILE"
    if not missing.values:
        return [file]
    value = missing.values[0] if len(missing.values) == 1 or missing.values == ("yes", "no") else "VALUE"
    return [f"firstfault diagnose {inputs} --fact {missing.fact}={value}", file]


def answer_note(missing: Missing) -> str:
    """What may stand in place of the value."""
    if missing.values == ("yes", "no"):
        return "=no if the answer is no"
    return f"VALUE is one of: {', '.join(missing.values)}" if len(missing.values) > 1 else ""


def later_questions(missing: Sequence[Missing]) -> str:
    """The next questions, two at most."""
    return " ".join(question(item) for item in missing[1:3])


def is_command(text: str) -> bool:
    """False if all that is known of the command is that it is the user's own."""
    return not _ONLY_A_BLANK.fullmatch(text.strip())


def fix_word(diagnosis: Diagnosis) -> str:
    """What is undetermined has no fix: what it has is a next step."""
    return "Next step" if diagnosis.verdict == "undetermined" else "Fix"


class Places:
    """Names lines of evidence shortly: the folder that all of them share is said once."""

    def __init__(self, evidence: Iterable[Evidence]) -> None:
        self.evidence = {item.id: item for item in evidence}
        self.folder = _common_folder({item.source for item in self.evidence.values()})

    def of(self, item: Evidence) -> str:
        """`file:line` below the common folder."""
        return f"{item.source[len(self.folder) :]}:{item.part or item.line}"

    def named(self, keys: Iterable[str]) -> list[str]:
        """The place of each piece of evidence, each place once."""
        return list(dict.fromkeys(self.of(self.evidence[key]) for key in keys if key in self.evidence))

    def cited(self, keys: Iterable[str]) -> list[str]:
        """The same, and after some places only how many more there are."""
        names = self.named(keys)
        more = len(names) - _MOST_CITED
        return [*names[:_MOST_CITED], f"{more} more"] if more > 1 else names


def weights(diagnosis: Diagnosis) -> dict[str, int]:
    """For each piece of evidence the largest weight of the reasons that stand on it."""
    result: dict[str, int] = {}
    for reason in diagnosis.reasons:
        for key in reason.evidence:
            result[key] = max(result.get(key, 0), reason.weight)
    return result


def in_reading_order(diagnosis: Diagnosis) -> list[Evidence]:
    """The failure itself, then what decides, then the rest; lines that only mark the timeline or collateral are left out."""
    weight = weights(diagnosis)
    first = diagnosis.initiating.evidence if diagnosis.initiating else ()
    others = {key for item in diagnosis.others for key in item.evidence}
    elsewhere = {key for item in diagnosis.collateral for key in item.evidence}
    elsewhere |= {mark.evidence for mark in diagnosis.timeline if mark.evidence}
    elsewhere -= {*first, *weight, *others}
    # Where nothing else is shown, as in a run without failure, the marks are the evidence.
    shown = [item for item in diagnosis.evidence if item.id not in elsewhere] or list(diagnosis.evidence)
    return sorted(shown, key=lambda item: (item.id not in first, -weight.get(item.id, 0)))


def weight_word(weight: int) -> str:
    """`decisive`, or `for 3`."""
    return "decisive" if weight >= DECISIVE else f"for {weight}"


def possible(diagnosis: Diagnosis) -> list[Alternative]:
    """The entries that are still possible beside the answer."""
    return [item for item in diagnosis.alternatives if item.verdict == "possible" and item.entry != diagnosis.entry]


def ruled_out(diagnosis: Diagnosis) -> list[Alternative]:
    """The entries that something speaks against so strongly that they are out."""
    return [item for item in diagnosis.alternatives if item.verdict == "ruled_out" and item.entry != diagnosis.entry]


def against_the_answer(diagnosis: Diagnosis) -> list[str]:
    """What speaks against the answer itself; empty if nothing was found."""
    return [text for item in diagnosis.alternatives if item.entry == diagnosis.entry for text in item.against]


def named(entry: str, titles: Mapping[str, str]) -> str:
    """The title of an entry with its id, or the id alone."""
    found = titles.get(entry, "")
    return f"{found} ({entry})" if found else entry


def fix_heading(fix: Fix) -> str:
    """`train.yaml: Set the maximum length`."""
    return f"{fix.file}: {fix.title}" if fix.file and fix.title else fix.file or fix.title


def undecided_between(diagnosis: Diagnosis) -> str:
    """The sentence before the list of causes that are still possible."""
    count = len(possible(diagnosis))
    if count == 0:
        return ""
    if count == 1:
        return "One cause is possible, and nothing read so far confirms it:"
    words = {2: "Two", 3: "Three", 4: "Four", 5: "Five", 6: "Six"}
    return f"{words.get(count, str(count))} causes are possible:"


def _common_folder(sources: Iterable[str]) -> str:
    """The folder of all sources with its slash, empty if they share none."""
    folders = [source.split("/")[:-1] for source in sources]
    if not folders:
        return ""
    shared = []
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    folder = "/".join(shared)
    return f"{folder}/" if folder else ""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
