"""What `forecast --from LOG` and `--snapshot FILE` read of a real run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from firstfault.errors import UsageError

if TYPE_CHECKING:
    from firstfault.memory.measurement import Measurement


def read_measurement(tier: str, log: str | None, snapshot: str | None) -> Measurement | None:
    """The measurement to correct a forecast by; None where none is given. UsageError where options contradict each other,
    UnreadableInputError where the input holds no measurement."""
    if log and snapshot:
        raise UsageError("--from and --snapshot are two measurements", hint="Give one of them.")
    if not (log or snapshot):
        if tier == "2":
            raise UsageError("--tier 2 needs a measurement", hint="--from LOG (an out-of-memory message) or --snapshot FILE")
        return None
    if tier not in ("auto", "2"):
        raise UsageError(f"--tier {tier} uses no measurement", hint="Leave --tier out, or leave the measurement out.")
    if snapshot:
        from firstfault.cli.memory import read_report
        from firstfault.memory.measurement import of_report

        return of_report(read_report(Path(snapshot)), snapshot)
    import firstfault
    from firstfault.memory.measurement import of_facts

    facts = firstfault.diagnose([str(log)]).facts
    return of_facts({name: fact.get("value") for name, fact in facts.items()}, str(log))
