"""What a single line of a Python traceback is: header, frame, mark, exception; plain, rich, loguru and IPython forms."""

from __future__ import annotations

import re

HEADER = re.compile(r"Traceback \(most recent call last\)(?:: ?)?")
"""Matched anywhere in a line: interleaved output glues it behind other text."""
TAIL = re.compile(r'\s*(?:$|File "|Traceback \(|[─-]{2,})')
"""What may follow a header; anything else means that the line only talks about one."""
ESCAPED = re.compile(r"(?:\\n(?:[^\"\\]|\\.)*)")
"""The rest of a traceback inside a string of JSON."""

TRIGGER = re.compile(
    r'Traceback \(most recent|[Ff]ile "|During handling of the above|was the direct cause of|-- Process \d+ terminated'
    r"|Cell In ?\[|^File \S+:\d+|\.py in \w|<ipython-input|rank +: \d|host +: \S|most recent call first"
    r"|forward call that caused|Stack \(most|Traceback of"
)
"""A line without any of these says nothing while no traceback is open."""

FRAME = re.compile(r'File "(?P<path>[^"]{1,1024})", line (?P<line>\d{1,9})(?:, in (?P<function>[\w.<>$-]+)|(?=\s*$))')
CHAIN = re.compile(
    r"(?:During handling of the above exception, another exception occurred"
    r"|The above exception was the direct cause of the following exception)"
)
PROCESS = re.compile(r"-- Process (?P<process>\d{1,9}) terminated with the following error")
REPEATED = re.compile(r"\s*\[Previous line repeated \d+ more times?\]")
CAUGHT = re.compile(r"Caught (?P<type>\w+) in ")
MARKS = re.compile(r"\s*(?:[~^]+[~^ ]*|[│└├┌╰╭].*)\s*$")
"""Carets under the source text (Python 3.11), value trees of loguru."""
CUT = re.compile(
    r"\s*(?:\.{3}|…|<snip\W.*|-{0,3}8<.*|[\[(<]?\s*(?:\.{3}|…)[^\w\s]?\s*.{0,60}[\])>]?|[\[(].{0,60}\b(?:cut|omitted|skipped|removed|truncated|hidden)\b.{0,60}[\])])\s*$"
)
LISTING = re.compile(
    r"from user code:|[Uu]ser stack trace:|forward call that caused the error|Stack \(most recent call last\)"
    r"|\(most recent call first\)|Traceback of \w+"
)
"""Frames that follow such a line are no exception."""
GROUP_HEAD = re.compile(r"\s*(?:\+ )?Exception Group $")
GROUP_MARGIN = re.compile(r"\s*\| ?")
GROUP_RULE = re.compile(r"\s*(?P<deeper>\+-)?\+-{4,}(?: (?P<member>\d+|\.\.\.) -{4,})?\s*$")
REPORT_RANK = re.compile(r"^\s*rank +: (?P<rank>\d{1,9})(?: \(local_rank: (?P<local>\d{1,9})\))?")
REPORT_HOST = re.compile(r"^\s*host +: (?P<host>\S{1,255})")
REPORT_HEAD = re.compile(r"\s*traceback +: $")

BOX_HEAD = re.compile(r"[╭┌+][─-]{2,}.{0,20}$")
BOX_LINE = re.compile(r"\s*[│|](?P<content>.*?)[│|]?\s*$")
BOX_END = re.compile(r"\s*[╰└+][─-]{4,}[╯┘+]\s*$")
BOX_FRAME = re.compile(r"\s*(?P<path>\S.*?):(?P<line>\d{1,9}) in (?P<function>[\w.<>]+)\s*$")
BOX_CODE = re.compile(r"\s*(?P<mark>[❱>])?\s*(?P<line>\d{1,9}) [│|] ?(?P<code>.*)$")
BOX_LOCALS = re.compile(r"\s*[╭│╰|+]")

NOTEBOOK_HEAD = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)\s{2,}$")
NOTEBOOK_FRAME = re.compile(
    r"^(?:(?:Input In|Cell In) ?\[(?P<cell>\d+)\](?:, line (?P<cell_line>\d{1,9}))?(?:, in (?P<cell_function>[\w.<>]+))?.*"
    r"|File (?P<path>\S+?):(?P<line>\d{1,9})(?:, in (?P<function>[\w.<>]+))?.*"
    r"|(?P<old_path>(?:\S+\.py|<ipython-input-[^>]+>)) in (?P<old_function>[\w.<>]+).*)$"
)
NOTEBOOK_CODE = re.compile(r"^(?P<mark>-+>)?\s*(?P<line>\d{1,9}) ?(?P<code>.*)$")

_EXCEPTION = re.compile(r"(?P<type>(?:[^\W\d]\w*\.(?:<locals>\.)?)*[^\W\d]\w*)(?::(?: (?P<message>.*)|\s*)|\s*)$", re.S)
_EXCEPTION_SUFFIX = re.compile(
    r"(?:Error|Exception|Warning|Exit|Interrupt|Iteration|Failure|Failed|Fault|Timeout|Group|Aborted|Abort|Unsupported|NotFound|Denied|Exceeded)$"
)
_LEVELS = frozenset({"CRITICAL", "ERROR", "FATAL", "WARNING", "WARN", "INFO", "DEBUG", "NOTE", "TRACE", "Epoch", "Step"})
_NEW_RECORD = re.compile(
    r"\[?\d{4}-\d\d-\d\d[ T]|\[?\d\d:\d\d:\d\d|\[?[IWEFD]\d{3,4} \d\d:|\[?(?:CRITICAL|ERROR|WARNING|INFO|DEBUG)\b"
    r"|srun: |slurmstepd: |\s*\d{1,3}%\||\[rank\d|terminate called|Exception ignored in|Exception in thread|Fatal Python error"
    r"|\*{10,}|\w*\$ "
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
