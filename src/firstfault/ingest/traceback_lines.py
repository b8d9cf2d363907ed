"""What a single line of a Python traceback is: header, frame, mark, exception; plain, rich, loguru and IPython forms."""

from __future__ import annotations

import re

from firstfault.lazy_pattern import lazy_pattern

HEADER = lazy_pattern(r"Traceback \(most recent call last\)(?:: ?)?")
"""Matched anywhere in a line: interleaved output glues it behind other text."""
TAIL = lazy_pattern(r'\s*(?:$|File "|Traceback \(|[─-]{2,})')
"""What may follow a header; anything else means that the line only talks about one."""
ESCAPED = lazy_pattern(r"(?:\\n(?:[^\"\\]|\\.)*)", needs="\\n")
"""The rest of a traceback inside a string of JSON."""

TRIGGER = lazy_pattern(
    r'Traceback \(most recent|[Ff]ile "|During handling of the above|was the direct cause of|-- Process \d+ terminated'
    r"|Cell In ?\[|^File \S+:\d+|\.py in \w|<ipython-input|rank +: \d|host +: \S|most recent call first"
    r"|forward call that caused|Stack \(most|Traceback of"
)
"""A line without any of these says nothing while no traceback is open."""

FRAME = lazy_pattern(r'File "(?P<path>[^"]{1,1024})", line (?P<line>\d{1,9})(?:, in (?P<function>[\w.<>$-]+)|(?=\s*$))')
CHAIN = lazy_pattern(
    r"(?:During handling of the above exception, another exception occurred"
    r"|The above exception was the direct cause of the following exception)",
    needs="above exception",
)
PROCESS = lazy_pattern(r"-- Process (?P<process>\d{1,9}) terminated with the following error", needs="-- Process ")
REPEATED = lazy_pattern(r"\s*\[Previous line repeated \d+ more times?\]", needs="[Previous line repeated ")
CAUGHT = lazy_pattern(r"Caught (?P<type>\w+) in ", needs="Caught ")
MARKS = lazy_pattern(r"\s*(?:[~^]+[~^ ]*|[│└├┌╰╭].*)\s*$")
"""Carets under the source text (Python 3.11), value trees of loguru."""
CUT = lazy_pattern(
    r"\s*(?:\.{3}|…|<snip\W.*|-{0,3}8<.*|[\[(<]?\s*(?:\.{3}|…)[^\w\s]?\s*.{0,60}[\])>]?|[\[(].{0,60}\b(?:cut|omitted|skipped|removed|truncated|hidden)\b.{0,60}[\])])\s*$"
)
IGNORED = lazy_pattern(r"Exception ignored (?:in|while|on)\b", needs="Exception ignored ")
"""What Python prints above an exception that it cannot hand to anybody (finalizers, callbacks, threads at exit)."""
LISTING = lazy_pattern(
    r"from user code:|[Uu]ser stack trace:|forward call that caused the error|Stack \(most recent call last\)"
    r"|\(most recent call first\)|Traceback of \w+"
)
"""Frames that follow such a line are no exception."""
GROUP_HEAD = lazy_pattern(r"\s*(?:\+ )?Exception Group $", needs="Exception Group ")
GROUP_MARGIN = lazy_pattern(r"\s*\| ?")
GROUP_RULE = lazy_pattern(r"\s*(?P<deeper>\+-)?\+-{4,}(?: (?P<member>\d+|\.\.\.) -{4,})?\s*$")
REPORT_RANK = lazy_pattern(r"^\s*rank +: (?P<rank>\d{1,9})(?: \(local_rank: (?P<local>\d{1,9})\))?", needs="rank ")
REPORT_HOST = lazy_pattern(r"^\s*host +: (?P<host>\S{1,255})", needs="host ")
REPORT_HEAD = lazy_pattern(r"\s*traceback +: $", needs="traceback ")

BOX_HEAD = lazy_pattern(r"[╭┌+][─-]{2,}.{0,20}$")
BOX_LINE = lazy_pattern(r"\s*[│|](?P<content>.*?)[│|]?\s*$")
BOX_END = lazy_pattern(r"\s*[╰└+][─-]{4,}[╯┘+]\s*$")
BOX_FRAME = lazy_pattern(r"\s*(?P<path>\S.*?):(?P<line>\d{1,9}) in (?P<function>[\w.<>]+)\s*$")
BOX_CODE = lazy_pattern(r"\s*(?P<mark>[❱>])?\s*(?P<line>\d{1,9}) [│|] ?(?P<code>.*)$")
BOX_LOCALS = lazy_pattern(r"\s*[╭│╰|+]")

NOTEBOOK_HEAD = lazy_pattern(r"^(?P<type>[A-Za-z_][\w.]*)\s{2,}$")
NOTEBOOK_FRAME = lazy_pattern(
    r"^(?:(?:Input In|Cell In) ?\[(?P<cell>\d+)\](?:, line (?P<cell_line>\d{1,9}))?(?:, in (?P<cell_function>[\w.<>]+))?.*"
    r"|File (?P<path>\S+?):(?P<line>\d{1,9})(?:, in (?P<function>[\w.<>]+))?.*"
    r"|(?P<old_path>(?:\S+\.py|<ipython-input-[^>]+>)) in (?P<old_function>[\w.<>]+).*)$"
)
NOTEBOOK_CODE = lazy_pattern(r"^(?P<mark>-+>)?\s*(?P<line>\d{1,9}) ?(?P<code>.*)$")

_EXCEPTION = lazy_pattern(r"(?P<type>(?:[^\W\d]\w*\.(?:<locals>\.)?)*[^\W\d]\w*)(?::(?: (?P<message>.*)|\s*)|\s*)$", re.S)
_EXCEPTION_SUFFIX = lazy_pattern(
    r"(?:Error|Exception|Warning|Exit|Interrupt|Iteration|Failure|Failed|Fault|Timeout|Group|Aborted|Abort|Unsupported|NotFound|Denied|Exceeded)$"
)
_LEVELS = frozenset({"CRITICAL", "ERROR", "FATAL", "WARNING", "WARN", "INFO", "DEBUG", "NOTE", "TRACE", "Epoch", "Step"})
_NEW_RECORD = lazy_pattern(
    r"\[?\d{4}-\d\d-\d\d[ T]|\[?\d\d:\d\d:\d\d|\[?[IWEFD]\d{3,4} \d\d:|\[?(?:CRITICAL|ERROR|WARNING|INFO|DEBUG)\b"
    r"|srun: |slurmstepd: |\s*\d{1,3}%\||\[rank\d|terminate called|Exception ignored (?:in|while|on)\b"
    r"|Exception in thread|Fatal Python error"
    r"|\*{10,}|\w*\$ |={3,} ?\w|\[\d{1,4}\][+-] |\{'[\w/]{1,60}': |(?i:step|iter|iteration|epoch)[ =:\[]{1,3}\d"
)


def exception_of(text: str, *, expected: bool) -> tuple[str, str] | None:
    """Type and first message line of `Type: message`; `expected` if the line stands right behind a frame."""
    found = _EXCEPTION.match(text)
    if not found:
        return None
    name = found["type"]
    last = name.rpartition(".")[2]
    if last in _LEVELS:
        return None
    if not _EXCEPTION_SUFFIX.search(last):
        named_like_a_class = "." in name or last[0].isupper()
        if not (expected and named_like_a_class):
            return None
    return name, (found["message"] or "").rstrip()


def begins_record(text: str) -> bool:
    """True if the line is an own log record, and so no part of an exception's message."""
    return _NEW_RECORD.match(text) is not None


def indentation(text: str) -> int:
    """Number of leading blanks."""
    return len(text) - len(text.lstrip())
