"""The sources of one text: what people paste mixes a question, a configuration, a command and a log."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from firstfault.ingest.linekind import addresses_somebody, fence_of, prompt_command
from firstfault.ingest.paragraph import command_stop, split_paragraphs
from firstfault.ingest.part import Part, Row, merged, part_of, rows_of, without_blanks
from firstfault.ingest.sniff import SAMPLE_BYTES, sniff, structured_kind
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.bundle import SourceKind

MAX_PASTE_BYTES = 256 << 10
"""A longer text is a log (or what its beginning says), cut only at prompts and fences."""

_LOG_NAME = lazy_pattern(r"\.(?:log|out|err|stderr|stdout)(?:\.\d+)?(?:\.(?:gz|zst))?$", re.IGNORECASE)
_CONFIG_NAME = lazy_pattern(r"\.(?:ya?ml|json|toml|ini|cfg|conf)$", re.IGNORECASE)
_CUT = lazy_pattern(
    rb"^(?: {0,3}(?:```|~~~)|(?:\([^)\n]{1,40}\) ?)?(?:\$ |[\w.-]+@|\[[\w.-]+@|root:|(?:bash|sh|zsh)-))",
    re.MULTILINE,
    needs=(b"```", b"~~~", b"$ ", b"@", b"root:", b"sh-"),
)

_SHOWS_FILE = lazy_pattern(r"(?:sudo )?(?:cat|head|tail|less|more|bat)\b(?: +-\S+(?: +\d+)?)* +(?P<file>[^\s|;&<>]+)")
_OUTPUT_KINDS: tuple[tuple[re.Pattern[str], SourceKind], ...] = (
    # What these print was written by people: titles, messages of commits, manuals, commands typed before.
    (
        lazy_pattern(
            r"(?:git|gh|glab|history|man|help)\b|(?:echo|printf) (?!.*\$\?).*['\"]"
            r"|(?:cat|less|more|head|tail|grep|rg)\b.*\.(?:md|rst|adoc|html?)\b"
        ),
        "prose",
    ),
    (lazy_pattern(r"(?:sudo )?nvidia-smi\b"), "nvidia_smi"),
    (lazy_pattern(r"(?:sudo )?(?:dmesg\b|journalctl .*(?:-k\b|--dmesg\b))"), "kernel"),
    (lazy_pattern(r"(?:sacct|scontrol|squeue|sstat|seff)\b"), "slurm"),
    (lazy_pattern(r"kubectl (?:.* )?(?:describe|get)\b"), "kubernetes"),
    (
        lazy_pattern(
            r"(?:\S+/)?(?:pip3? (?:list|freeze)|conda list|uv pip|env|printenv|python[\d.]* -m torch.utils.collect_env)\b"
        ),
        "environment",
    ),
    (lazy_pattern(r"accelerate env\b"), "environment"),
    (lazy_pattern(r"(?:sudo )?(?:ls|df|du|free|quota|lscpu|lspci|ulimit|systemctl|ibstat|ip|ps|which|echo)\b"), "unknown"),
)
_UNCUT = frozenset({"python", "binary", "error_file", "deepspeed_config", "arguments", "vitals"})
_INFO_NAMES = {"yaml": "fence.yaml", "yml": "fence.yaml", "json": "fence.json", "python": "fence.py", "py": "fence.py"}
_SHELL_INFO = frozenset({"bash", "sh", "shell", "zsh", "console", "shell-session", "terminal"})


def split(data: bytes, name: str, *, emitted: Collection[int] = ()) -> tuple[Part, ...]:
    """The parts of a text in order; they cover it without gap or overlap.

    A log (by its name, or too long for a paste) is cut only at shell prompts and fences. `emitted` are the offsets of lines
    that begin with a known message.
    """
    cuts = _CUT.search(data) is not None
    is_log = bool(_LOG_NAME.search(name)) or len(data) > MAX_PASTE_BYTES
    if not cuts:
        kind = sniff(name, data[:SAMPLE_BYTES])
        if is_log or kind not in ("log", "prose", "unknown") or _CONFIG_NAME.search(name):
            whole_echo = kind == "unknown" and bool(_CONFIG_NAME.search(name))
            return (_whole(data, kind, echo=whole_echo),)
    elif script := _script_kind(name, data):
        return (_whole(data, script),)
    rows = rows_of(data, emitted, log=is_log)
    if not rows:
        return (Part(kind="empty", start=0, stop=0),)
    parts: list[Part] = []
    for fenced, info, chosen in _fences(rows):
        parts.extend(_fenced(data, chosen, info) if fenced else _unfenced(data, chosen, is_log))
    return tuple(merged(without_blanks(data, parts)))


def is_log_name(name: str) -> bool:
    """True for a file that is called a log."""
    return _LOG_NAME.search(name) is not None


def _whole(data: bytes, kind: SourceKind, *, echo: bool = False) -> Part:
    rows = [Row(0, len(data), "", "other")]
    return part_of(kind, rows, echo=echo)


def _script_kind(name: str, data: bytes) -> SourceKind | None:
    """Scripts and code hold fences and dollar signs of their own."""
    kind = sniff(name, data[:SAMPLE_BYTES])
    return kind if kind in _UNCUT or data.startswith(b"#!") else None


def _fences(rows: Sequence[Row]) -> list[tuple[bool, str, Sequence[Row]]]:
    """Stretches outside and inside of Markdown fences, fence lines outside. An unclosed fence runs to the end."""
    stretches: list[tuple[bool, str, Sequence[Row]]] = []
    outside_from, index = 0, 0
    while index < len(rows):
        opening = fence_of(rows[index].text) if rows[index].kind == "fence" else None
        if opening is None:
            index += 1
            continue
        first = index + 1
        closing = next((at for at in range(first, len(rows)) if _closes(rows[at], opening["marks"])), len(rows))
        if closing > first:
            stretches.append((False, "", rows[outside_from:first]))
            stretches.append((True, opening["info"].strip().lower(), rows[first:closing]))
            outside_from = closing
        index = closing + 1
    stretches.append((False, "", rows[outside_from:]))
    return [stretch for stretch in stretches if stretch[2]]


def _closes(row: Row, marks: str) -> bool:
    found = fence_of(row.text) if row.kind == "fence" else None
    return bool(found and found["marks"].startswith(marks) and not found["info"].strip())


def _fenced(data: bytes, rows: Sequence[Row], info: str) -> list[Part]:
    """What stands in one fence: a session, a configuration, code, or output."""
    language = re.split(r"[\s{:,]", info, maxsplit=1)[0]
    if any(row.kind == "prompt" for row in rows):
        return _session(data, rows, in_log=True)
    first = next((index for index, row in enumerate(rows) if row.kind != "blank"), 0)
    content = data[rows[0].start : rows[-1].stop]
    kind = structured_kind(_INFO_NAMES.get(language, ""), content)
    if kind is not None:
        return [part_of(kind, rows)]
    if rows[first].kind == "command":
        stop = command_stop(rows, first)
        rest = [part_of("log", rows[stop:])] if stop < len(rows) else []
        return [part_of("command", rows[:stop]), *rest]
    if language in _SHELL_INFO and not any(row.kind == "log" for row in rows):
        return [part_of("command", rows)]
    if language in ("yaml", "yml", "json", "toml", "ini", "diff"):
        return [part_of("unknown", rows, echo=True)]
    return [part_of("log" if any(row.kind == "log" for row in rows) else "unknown", rows)]


def _unfenced(data: bytes, rows: Sequence[Row], is_log: bool) -> list[Part]:
    if any(row.kind == "prompt" for row in rows):
        return _session(data, rows, in_log=is_log)
    if is_log:
        return [part_of("log", rows)]
    return _fence_lines_apart(data, rows)


def _fence_lines_apart(data: bytes, rows: Sequence[Row]) -> list[Part]:
    """Running text whose first and last row may be fence lines: those are the writer's."""
    first = 1 if rows[0].kind == "fence" else 0
    last = len(rows) - 1 if rows[-1].kind == "fence" and len(rows) > first else len(rows)
    parts = [part_of("prose", rows[:first])] if first else []
    if last > first:
        parts += split_paragraphs(data, rows[first:last])
    if last < len(rows):
        parts.append(part_of("prose", rows[last:]))
    return parts


def _session(data: bytes, rows: Sequence[Row], *, in_log: bool) -> list[Part]:
    """Commands behind prompts, each with what it printed; before the first one stands text of any kind."""
    parts: list[Part] = []
    index = next(at for at, row in enumerate(rows) if row.kind == "prompt")
    if index:
        parts += [part_of("log", rows[:index])] if in_log else _fence_lines_apart(data, rows[:index])
    while index < len(rows):
        command = prompt_command(rows[index].text) or ""
        stop = index
        while stop < len(rows) - 1 and rows[stop].text.rstrip().endswith("\\"):
            stop += 1
        stop += 1
        parts.append(part_of("command", rows[index:stop]))
        index = next((at for at in range(stop, len(rows)) if rows[at].kind == "prompt"), len(rows))
        if index > stop:
            parts += _output(data, rows[stop:index], command, in_log=in_log)
    return parts


def _output(data: bytes, rows: Sequence[Row], command: str, *, in_log: bool) -> list[Part]:
    """What `command` printed, and the words somebody wrote below it."""
    stop = len(rows) if in_log else _words_from(rows)
    shown, words = rows[:stop], rows[stop:]
    parts: list[Part] = []
    if shown:
        file = _SHOWS_FILE.match(command)
        name = file["file"].rpartition("/")[2] if file else ""
        config = _CONFIG_NAME.search(name) is not None
        kind = structured_kind(name, data[shown[0].start : shown[-1].stop])
        if kind is None or kind in ("empty", "command"):
            usual: SourceKind = next((kind for pattern, kind in _OUTPUT_KINDS if pattern.match(command)), "log")
            kind = "unknown" if config else usual
        parts.append(part_of(kind, shown, echo=config and kind == "unknown", name=name))
    if words:
        parts += split_paragraphs(data, words)
    return parts


def _words_from(rows: Sequence[Row]) -> int:
    """The index of the paragraph from which only sentences and fence lines follow, with somebody spoken to among them."""
    last = max((at for at, row in enumerate(rows) if row.kind not in ("prose", "blank", "fence", "other")), default=-1)
    for at in range(last + 1, len(rows)):
        if rows[at].kind == "fence" or (rows[at].kind != "blank" and at and rows[at - 1].kind == "blank"):
            words = rows[at:]
            spoken = any(row.kind == "fence" or (row.kind == "prose" and addresses_somebody(row.text)) for row in words)
            return at if spoken else len(rows)
    return len(rows)
