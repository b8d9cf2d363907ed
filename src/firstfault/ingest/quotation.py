"""Whether a message was printed by the run or is repeated by somebody: in a post, words and marks around it tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.ingest.linekind import addresses_somebody, is_log, is_prose
from firstfault.ingest.prefix import parse_prefix
from firstfault.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from firstfault.ingest.lines import Line
    from firstfault.model.bundle import SourceReport
    from firstfault.model.event import Event
    from firstfault.scan.result import Hit

MAX_NEIGHBOURS = 40
"""Lines of a paragraph that are looked at on each side."""

_ITEM = lazy_pattern(r"\s*(?:[-*+] |\d{1,3}[.)] |\|)")
# Who speaks of himself or to somebody; a lone I is also the level of a log line, and `us` a unit.
_SPEAKER = lazy_pattern(
    r"\b(?:I (?=[a-z])|(?:[Ww]e|[Oo]ur|[Yy]ou|[Yy]our|[Mm]y|[Tt]hey|[Tt]heir|[Aa]nyone|[Aa]nybody|[Ss]omebody)\b)",
    needs=(
        *("I ", "We", "we", "Our", "our", "You", "you", "My", "my", "They", "they", "Their", "their"),
        *("nyone", "nybody", "omebody"),
    ),
)
_BULLET = lazy_pattern(r"\s*(?:[-*+] |\d{1,3}[.)] )(?=[\w.]{1,80}(?:Error|Exception)\b)")
_RAISED = lazy_pattern(r"\b\w{1,80}(?:Error|Exception|Warning)\b")
_THROWN = lazy_pattern(r"\b\w{1,80}(?:Error|Exception)\b")
"""A warning is printed without a traceback, so a line of one is no quotation for lacking it."""
_NAME = r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Failed|Failure|Timeout|Iteration): +"
_NAMED = lazy_pattern(rf"(?:{_NAME})+$")
"""The exception whose message follows."""
_RAISES = lazy_pattern(rf"{_NAME}|(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)\s*$")
_MARKED = lazy_pattern(
    r"\s*(?:>|#|//|/\*|\||[-*+] |\d{1,3}[.)] |[*_~`\"'“”«‘(<@]|[-=]{1,2}> ?|-- |[-+] |\.\. |\.\.\. |\[[^\]\n]*\]\("
    r"|[-+]?\s*[\"']|\S+\.(?:md|rst|adoc|html?):\d+:)"
)
"""What Markdown, mails, chats, code and comments begin a line with."""
_FRAMED = lazy_pattern(r"\s*(?:[>|«“‘`]|<\w+>|([\"'*_~]{1,2})\S.*\1[.,]?\s*$)", needs=tuple(">|«“‘`\"'*_~"))
_EMPHASIZED = lazy_pattern(r"\s*(\*\*|__|~~)\S.*\1\s*$", needs=("**", "__", "~~"))
_COMMENT = lazy_pattern(r"\s*(?:/\*|//|#) ")
_SHOWN = lazy_pattern(
    r"\s*(?:\+ )?(?:(?:echo|printf|grep|rg) |raise \w|assert |print\(|log(?:ger|ging)?\.\w+\()",
    needs=("echo ", "printf ", "grep ", "rg ", "raise ", "assert ", "print(", "log"),
)
"""A command or a statement that would show the message; a frame's own code is no message anyway."""
_OPENED = lazy_pattern(r"[\"'`“«‘(*_~>]$")


def is_repeated(hit: Hit) -> bool:
    """True for a message that a person repeats in any text: no program prints one as a bullet or behind words like `our`."""
    if _SHOWN.match(hit.text) or _EMPHASIZED.match(hit.text):
        return True
    in_code = hit.text.count("`", 0, hit.start) % 2 == 1 and _ITEM.match(hit.text) is not None
    raised = _RAISED.search(hit.text, 0, hit.start)
    # The message itself may speak to its reader: only what stands before the name of its exception is somebody's.
    return (
        in_code
        or _BULLET.match(hit.text) is not None
        or (raised is not None and _SPEAKER.search(hit.text, 0, raised.start()) is not None)
    )


def is_marked(hit: Hit) -> bool:
    """True for a message that a post shows as a quotation: behind the marks of a writer, of code, or of somebody's sentence."""
    start = parse_prefix(hit.text).rest_start
    before = hit.text[start : hit.start]
    before = before[: found.start()] if (found := _NAMED.search(before)) else before
    if not start and _FRAMED.match(hit.text):
        return True
    if not before.strip():
        return False
    if _OPENED.search(before) or (not start and _MARKED.match(before)):
        return True
    # A line that begins with the name of an exception is one: what it asks of its reader (`please try`) is the library's.
    return not start and not _RAISES.match(hit.text) and is_prose(before + "x.") and addresses_somebody(hit.text)


def alone_of(hits: Iterable[Hit], lines: Sequence[Line], *, spoken: bool) -> frozenset[int]:
    """The offsets of hit lines in a post that begin with words of a sentence, or that no other line of output stands beside.

    `spoken` is false for a mere session at prompts: the output of a command may be one line.
    """
    found = list(hits)
    at = {line.offset: index for index, line in enumerate(lines)}
    struck = {hit.offset for hit in found}
    return frozenset(
        hit.offset
        for hit in found
        if _is_bare(hit, spoken=spoken) or (spoken and not _is_among(at.get(hit.offset), lines, struck))
    )


def doubtful_lines(numbers: Iterable[int], lines: Sequence[Line], *, spoken: bool) -> frozenset[int]:
    """Those of the line `numbers` that somebody may have quoted: framed by marks, or (`spoken`) without output beside them."""
    at = {line.number: index for index, line in enumerate(lines)}
    doubtful = set()
    for number in set(numbers) & at.keys():
        line = lines[at[number]]
        if _FRAMED.match(line.raw) or _COMMENT.match(line.raw) or (spoken and not _is_among(at[number], lines, frozenset())):
            doubtful.add(number)
    return frozenset(doubtful)


def _is_bare(hit: Hit, *, spoken: bool) -> bool:
    """True if the line has no prefix of a log, and the name of an exception, or (`spoken`) any words, stand before its message.

    An exception that a run printed has a traceback above it.
    """
    prefix = parse_prefix(hit.text)
    if prefix.place.time is not None:
        return False
    before = hit.text[prefix.rest_start : hit.start]
    if _NAMED.search(before) or _RAISES.match(hit.text, hit.start):
        return True
    return spoken and not prefix.kind and bool(before.strip())


def _is_among(index: int | None, lines: Sequence[Line], struck: frozenset[int] | set[int]) -> bool:
    """True if the paragraph of the line holds another line that a program printed."""
    if index is None:
        return True
    own = parse_prefix(lines[index].raw).kind
    for step in (-1, 1):
        for near in range(index + step, index + step * MAX_NEIGHBOURS, step):
            if not 0 <= near < len(lines) or not lines[near].raw.strip():
                break
            line = lines[near]
            kind = parse_prefix(line.raw).kind
            if (kind and kind == own) if line.offset in struck else (kind or is_log(line.raw)):
                return True
    return False


def without_rivals(reports: Sequence[SourceReport]) -> list[SourceReport]:
    """The reports of one post in which a bare exception is a quotation where another one has its traceback.

    A run prints both or neither that way; a lone line of a kernel or of a launcher stays a witness.
    """
    if not any(_is_traced(event, report) for report in reports for event in report.events):
        return list(reports)
    return [
        replace(
            report, events=tuple(replace(event, quoted=True) if _is_bare_exception(event) else event for event in report.events)
        )
        if any(event.alone for event in report.events)
        else report
        for report in reports
    ]


def _is_traced(event: Event, report: SourceReport) -> bool:
    if event.traceback is None or event.quoted or event.role != "initiating":
        return False
    return any(block.frames for block in report.tracebacks[event.traceback].blocks)


def _is_bare_exception(event: Event) -> bool:
    return event.alone and _THROWN.search(event.text) is not None
