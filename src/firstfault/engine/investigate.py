"""From a bundle to its diagnosis: the only place that knows the order of the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.engine.align import align
from firstfault.engine.answer import read_answers
from firstfault.engine.attribute import attribute
from firstfault.engine.blanks import Blanks
from firstfault.engine.compose import Composer
from firstfault.engine.derive import derive
from firstfault.engine.handed_over import shows_run
from firstfault.engine.hearsay import as_hearsay, doubted, taken_at_word
from firstfault.engine.live_votes import live_suspicion, with_records
from firstfault.engine.lookup import Known
from firstfault.engine.match import walk, without_question
from firstfault.engine.missing import missing_facts
from firstfault.engine.prescribe import prescribe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from firstfault.engine.match import Walk
    from firstfault.knowledge.schema import Pack
    from firstfault.model.bundle import Bundle
    from firstfault.model.diagnosis import Diagnosis

_NO_ANSWERS: dict[str, str] = {}


class Examined(NamedTuple):
    """The diagnosis, and what it was made of: everything known, and the way through the tree."""

    diagnosis: Diagnosis
    known: Known
    walk: Walk


def investigate(bundle: Bundle, pack: Pack, answers: Mapping[str, str] = _NO_ANSWERS) -> Diagnosis:
    """What failed first in `bundle`, why, and what to do.

    `answers` are facts by name (`--fact`); UsageError if one is wrong.
    """
    return examine(bundle, pack, answers).diagnosis


def examine(bundle: Bundle, pack: Pack, answers: Mapping[str, str] = _NO_ANSWERS) -> Examined:
    """The same with what the diagnosis was made of."""
    answered = read_answers(answers, pack)
    told = taken_at_word(bundle)
    aligned = with_records(align(told or bundle))
    attribution = attribute(aligned, pack.causal, suspicion=live_suspicion(aligned))
    attribution = doubted(attribution) if told else attribution
    known = Known(derive(aligned, attribution, pack, answered), aligned, attribution, pack)
    walked = walk(known, pack, attribution, shows_output=shows_run(bundle))
    walked = as_hearsay(walked) if told else walked
    first = attribution.initiating[0].span.source if attribution.initiating else None
    blanks = Blanks(known, bundle, first, attribution.suspects)
    missing = missing_facts(walked, known, pack, blanks)
    walked = without_question(walked) if not missing else walked
    finding = walked.finding
    fixes, verifications = prescribe(finding.entry, known, bundle, pack, blanks) if finding else ((), ())
    diagnosis = Composer(aligned, attribution, known, walked, pack).compose(missing, fixes, verifications)
    return Examined(diagnosis, known, walked)
