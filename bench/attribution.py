"""Whose failure was first: how often firstfault names the labelled rank, beside simpler ways to guess it.

    python bench/attribution.py                       the labelled cases of this repository
    python bench/attribution.py DIR [DIR ...] --only f-
    python bench/attribution.py DIR --renamed --seed 3   also the same cases with other ranks, hosts, labels, file orders, zones

Judged are the cases in which one rank of several started the failure. The yardsticks read the same events: the entry that
torchelastic calls `Root Cause (first observed failure)` (of several nodes, the earliest), the first line that reports an error
(by its time where all have one, else in the order of the files), and the last such line. A label may list the ranks that only
follow (`collateral_ranks`): each must be named among the consequences, and not as one that may have started it. Below stand the
shares that are asked for, and how many of the cases of communication (of any number of ranks) get the right entry. The exit
code is 1 if an established rank is wrong.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import yaml
from renamings import RENAMINGS
from robustness import read_files

from firstfault.engine.align import Aligned, align
from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather
from firstfault.knowledge.pack import load_pack
from firstfault.knowledge.schema import Pack
from firstfault.model.bundle import Bundle
from firstfault.model.diagnosis import Diagnosis
from firstfault.model.event import Event
from firstfault.trial.judgement import judge
from firstfault.trial.label import LABEL_FILE, Case, read_cases

_CASES = Path(__file__).resolve().parent.parent / "cases"
_GUESSES = ("firstfault", "torchelastic's root cause", "first error line", "last error line")
_AS_IT_IS = "as it is"
_RECORDED = "f-"


@dataclass(frozen=True)
class Named:
    """Which rank each way names in one telling of a case; `collateral` counts (named as such, labelled)."""

    case: str
    told: str
    wanted: int
    guesses: tuple[int | None, ...]
    certainty: str
    collateral: tuple[int, int]

    @property
    def wrong(self) -> bool:
        """True if an established rank is not the labelled one."""
        return self.certainty == "established" and self.guesses[0] not in (None, self.wanted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path, default=[_CASES], help="of labelled cases (default: cases/)")
    parser.add_argument("--only", default="", metavar="PREFIX", help="only cases whose name begins so")
    parser.add_argument("--renamed", action="store_true", help="also with other ranks, hosts, labels, orders and time zones")
    parser.add_argument("--seed", type=int, default=0, help="of the renamings (default 0)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    given = parser.parse_args()
    cases = [case for folder in given.folders for case in read_cases(folder) if case.name.startswith(given.only)]
    judged = [case for case in cases if isinstance(case.label.initiating_rank, int) and not case.label.undecidable]
    judged = [case for case in judged if not case.label.rank_optional]
    with multiprocessing.Pool(given.jobs) as pool:
        work = partial(tellings, renamed=given.renamed, seed=given.seed)
        found = [named for one in pool.imap(work, judged, chunksize=2) for named in one]
    print(table(found))
    print(targets(found, communication([case for folder in given.folders for case in read_cases(folder)])))
    raise SystemExit(any(named.wrong for named in found))


def tellings(case: Case, *, renamed: bool, seed: int) -> list[Named]:
    """The case as it is, and, if asked for, each renaming that changes it; nothing for a run of one rank."""
    pack = _pack()
    bundle = gather([case.input], pack)
    aligned = align(bundle)
    world = max(aligned.world_size or 0, len(aligned.ranks), _stated(case).get("world_size") or 0)
    wanted = case.label.initiating_rank
    if world < 2 or not isinstance(wanted, int):
        return []
    followers = [rank for rank in _stated(case).get("collateral_ranks") or () if isinstance(rank, int)]
    out = [_named(case, _AS_IT_IS, wanted, followers, aligned, investigate(bundle, pack))]
    for name, rename in RENAMINGS.items() if renamed else ():
        files = read_files(case.input, bundle)
        changed = rename(files, world, random.Random(f"{seed} {case.name} {name}"))
        if changed is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            root = _written(Path(folder) / case.input.name, case.input, files.texts, changed.files.texts)
            one_by_one = name == "files in another order"
            other = gather([root / path for path in changed.files.texts] if one_by_one else [root], pack)
        told = [changed.ranks.get(rank, rank) for rank in (wanted, *followers)]
        out.append(_named(case, name, told[0], told[1:], align(other), investigate(other, pack)))
    return out


def _written(root: Path, original: Path, old: Mapping[str, str], new: Mapping[str, str]) -> Path:
    """A copy of `original` in which the texts `new` stand in place of `old`."""
    shutil.copytree(original, root)
    for path in old:
        (root / path).unlink()
    for path, text in new.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode("utf-8", "surrogateescape"))
    return root


def _named(case: Case, told: str, wanted: int, followers: Iterable[int], aligned: Aligned, answer: Diagnosis) -> Named:
    first = answer.initiating
    ranks = set(first.ranks) | {first.rank} - {None} if first else set()
    rank = next(iter(ranks)) if len(ranks) == 1 else None
    consequences = {one.rank for one in answer.collateral}
    traced = aligned.ranks | {found.place.rank for found in aligned.exits}
    followers = [follower for follower in followers if follower in traced]
    right = sum(follower in consequences and follower not in ranks for follower in followers)
    errors = [event for event in aligned.events if _is_error(event)]
    guesses = (rank, _root_cause(aligned), *_first_and_last(errors, aligned.bundle))
    certainty = first.certainty if first else "undetermined"
    return Named(case.name, told, wanted, guesses, certainty, (right, len(followers)))


def _root_cause(aligned: Aligned) -> int | None:
    first = [found for found in aligned.exits if found.first_observed and found.place.rank is not None]
    timed = [found for found in first if found.place.time is not None]
    chosen = min(timed, key=lambda found: found.place.time.seconds if found.place.time else 0) if timed else None
    return chosen.place.rank if chosen else first[0].place.rank if first else None


def _is_error(event: Event) -> bool:
    return event.fault_class is not None and event.role not in ("context", "progress") and not event.quoted


def _first_and_last(errors: Sequence[Event], bundle: Bundle) -> tuple[int | None, int | None]:
    order = {report.source.id: number for number, report in enumerate(bundle.reports)}
    errors = [event for event in errors if event.place.rank is not None]
    clocks = {event.place.time.kind if event.place.time else None for event in errors}
    if len(clocks) == 1 and None not in clocks:
        ordered = sorted(errors, key=lambda event: event.place.time.seconds if event.place.time else 0)
    else:
        ordered = sorted(errors, key=lambda event: (order.get(event.source_id, 0), event.span.offset))
    return (ordered[0].place.rank, ordered[-1].place.rank) if ordered else (None, None)


def table(found: Sequence[Named]) -> str:
    """A row for each telling, then the cases whose rank is not named."""
    rows = [
        f"{'':<24}{'cases':>6}" + "".join(f"{guess:>27}" for guess in _GUESSES) + f"{'collateral':>14}{'wrong established':>19}"
    ]
    for told in (_AS_IT_IS, *RENAMINGS):
        named = [one for one in found if one.told == told]
        if not named:
            continue
        rights = [sum(one.guesses[way] == one.wanted for one in named) for way in range(len(_GUESSES))]
        cells = "".join(f"{right:>18} {100 * right / len(named):>6.1f} %" for right in rights)
        right, followers = (sum(one.collateral[part] for one in named) for part in (0, 1))
        shown = f"{100 * right / followers:.1f} %" if followers else "-"
        rows.append(f"{told:<24}{len(named):>6}{cells}{shown:>14}{sum(one.wrong for one in named):>19}")
    missed = [one for one in found if one.guesses[0] != one.wanted]
    rows += [f"{one.told}: {one.case}: {one.guesses[0]}, not {one.wanted} ({one.certainty})" for one in missed]
    return "\n".join(rows)


def communication(cases: Sequence[Case]) -> tuple[int, int]:
    """(right entry, cases) of the decidable cases of the category communication, whatever their number of ranks."""
    credits = [
        judge(case, investigate(gather([case.input], _pack()), _pack())).credit
        for case in cases
        if case.label.category == "communication" and not case.label.undecidable and not case.label.negative
    ]
    return sum(credit == 1 for credit in credits), len(credits)


def targets(found: Sequence[Named], of_communication: tuple[int, int]) -> str:
    """What is asked for beside what was measured on the cases as they are."""
    plain = [one for one in found if one.told == _AS_IT_IS]
    recorded = [one for one in plain if one.case.startswith(_RECORDED)]
    named = [(sum(one.guesses[0] == one.wanted for one in ones), len(ones)) for ones in (plain, recorded)]
    followed = (sum(one.collateral[0] for one in plain), sum(one.collateral[1] for one in plain))
    rows = (
        ("one rank of several", 93, named[0]),
        ("one rank of several, recordings", 95, named[1]),
        ("collateral ranks named as such", 95, followed),
        ("communication, right entry", 85, of_communication),
    )
    return "\n".join(
        f"{what:<33}{right:>5} of {count:<5}{100 * right / count:>6.1f} %  (asked: {asked} %)"
        for what, asked, (right, count) in rows
        if count
    )


def _stated(case: Case) -> dict[str, object]:
    stated = yaml.safe_load((case.input.parent / LABEL_FILE).read_text(encoding="utf-8"))
    return stated if isinstance(stated, dict) else {}


@lru_cache(maxsize=1)
def _pack() -> Pack:
    return load_pack()


if __name__ == "__main__":
    main()
