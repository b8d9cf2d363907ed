"""What damaged logs do to the answers: labelled cases before and after each perturbation of `perturbations.py`.

    python bench/robustness.py                      the labelled cases of this repository
    python bench/robustness.py DIR --only f- --seed 3 --jobs 4
    python bench/robustness.py DIR --keep FOLDER    and keep the copies whose established answer is wrong

A damaged log may leave a failure undecided: that is honest. The one thing that must not happen is an established answer that
is wrong, and the exit code is 1 if one is. An entry above the labelled one in the tree, or one that the label lists as more
general, is not wrong: evidence was taken away.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from perturbations import PERTURBATIONS, CaseFiles

from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather
from firstfault.knowledge.pack import load_pack
from firstfault.knowledge.schema import Pack
from firstfault.model.bundle import Bundle
from firstfault.trial.judgement import Judgement, judge
from firstfault.trial.label import Case, read_cases

_CASES = Path(__file__).resolve().parent.parent / "cases"
_LOG_KINDS = frozenset({"log", "slurm"})
_UNPERTURBED = "as it is"


@dataclass(frozen=True)
class Outcome:
    """One judged copy of a case; `wrong` is true if an established answer is."""

    perturbation: str
    judgement: Judgement
    wrong: bool


@dataclass(frozen=True)
class Order:
    """What a worker needs to judge one case."""

    case: Case
    seed: int
    keep: Path | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=_CASES, help="of labelled cases (default: cases/)")
    parser.add_argument("--only", default="", metavar="PREFIX", help="only cases whose name begins so")
    parser.add_argument("--seed", type=int, default=0, help="of all choices: whose clock, which order (default 0)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--keep", type=Path, help="a folder for the copies whose established answer is wrong")
    given = parser.parse_args()
    cases = [case for case in read_cases(given.folder) if case.name.startswith(given.only)]
    orders = [Order(case, given.seed, given.keep) for case in cases]
    with multiprocessing.Pool(given.jobs) as pool:
        outcomes = [outcome for judged in pool.imap(outcomes_of, orders, chunksize=4) for outcome in judged]
    print(table(outcomes))
    raise SystemExit(any(outcome.wrong for outcome in outcomes))


def outcomes_of(order: Order) -> list[Outcome]:
    """The case as it is, then every copy that a perturbation changes."""
    case, pack = order.case, _pack()
    bundle = gather([case.input], pack)
    files = read_files(case.input, bundle)
    judgement = judge(case, investigate(bundle, pack))
    outcomes = [Outcome(_UNPERTURBED, judgement, is_wrong(judgement, case, pack))]
    for name, perturb in PERTURBATIONS.items():
        changed = perturb(files, random.Random(f"{order.seed} {case.name} {name}"))
        if changed is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / case.input.name
            _write(copy, case.input, files, changed)
            judgement = judge(case, investigate(gather([copy], pack), pack))
            outcomes.append(Outcome(name, judgement, is_wrong(judgement, case, pack)))
            if outcomes[-1].wrong and order.keep is not None:
                shutil.copytree(copy, order.keep / name.replace(" ", "-") / case.name / "input", dirs_exist_ok=True)
    return outcomes


def is_wrong(judgement: Judgement, case: Case, pack: Pack) -> bool:
    """True for an established answer that is neither right nor more general than the right one."""
    if not judgement.false_established:
        return False
    label = case.label
    general = {*label.partial, *ancestors(filter(None, label.exact), pack)}
    return label.negative or judgement.entry not in general


def ancestors(entries: Iterable[str], pack: Pack) -> set[str]:
    """All entries above `entries`, on every way that leads there."""
    above: set[str] = set()
    waiting = list(entries)
    while waiting:
        entry = pack.entries.get(waiting.pop())
        parents = {*entry.also_under, *filter(None, (entry.refines,))} - above if entry else set()
        above |= parents
        waiting += parents
    return above


def table(outcomes: Sequence[Outcome]) -> str:
    """A row for each perturbation, and below it the cases whose established answer is wrong."""
    before = {outcome.judgement.case: outcome.judgement for outcome in outcomes if outcome.perturbation == _UNPERTURBED}
    rows = [f"{'':<22}{'cases':>6}{'right entry':>15}{'right rank':>15}{'healthy':>12}{'asked':>14}{'wrong established':>19}"]
    wrong: list[str] = []
    for name in (_UNPERTURBED, *PERTURBATIONS):
        after = [outcome for outcome in outcomes if outcome.perturbation == name]
        pairs = [(before[outcome.judgement.case], outcome.judgement) for outcome in after]
        decidable = [pair for pair in pairs if pair[0].kind == "decidable"]
        cells = (
            _cell([(b.credit == 1, a.credit == 1) for b, a in decidable], 15),
            _cell([(bool(b.rank_right), bool(a.rank_right)) for b, a in decidable], 15),
            _cell([(b.credit, a.credit) for b, a in pairs if b.kind == "negative"], 12),
            _cell([(b.asked_right or 0, a.asked_right or 0) for b, a in pairs if b.kind == "undecidable"], 14),
        )
        rows.append(f"{name:<22}{len(pairs):>6}{''.join(cells)}{sum(outcome.wrong for outcome in after):>19}")
        wrong += [f"{name}: {o.judgement.case}: {o.judgement.entry}, not {o.judgement.wanted}" for o in after if o.wrong]
    return "\n".join([*rows, *(["", "established and wrong", *wrong] if wrong else [])])


def _cell(pairs: Sequence[tuple[float, float]], width: int) -> str:
    if not pairs:
        return f"{'-':>{width}}"
    return f"{f'{sum(b for b, _ in pairs):g} > {sum(a for _, a in pairs):g}':>{width}}"


def read_files(root: Path, bundle: Bundle) -> CaseFiles:
    """The text files below `root`. Which of them are logs is what the reader took them for."""
    logs = {report.source.path for report in bundle.reports if report.source.kind in _LOG_KINDS}
    texts = {}
    for path in sorted(root.rglob("*")):
        content = path.read_bytes() if path.is_file() else b"\0"
        if b"\0" not in content:
            texts[path.relative_to(root).as_posix()] = content.decode("utf-8", "surrogateescape")
    return CaseFiles(texts, frozenset(path for path in texts if logs & {path, str(root / path)}))


def _write(copy: Path, root: Path, files: CaseFiles, changed: CaseFiles) -> None:
    """A copy of `root` with the changed texts, without the files that were taken away."""
    shutil.copytree(root, copy)
    for path in files.texts:
        if path not in changed.texts:
            (copy / path).unlink()
        elif changed.texts[path] != files.texts[path]:
            (copy / path).write_bytes(changed.texts[path].encode("utf-8", "surrogateescape"))


@lru_cache(maxsize=1)
def _pack() -> Pack:
    return load_pack()


if __name__ == "__main__":
    main()
