"""GPUs, their memory and their processes, as nvidia-smi prints them: the table, `-L`, and CSV queries."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.ingest.context import Context
from firstfault.ingest.lines import Line
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Setting
from firstfault.units import parse_size

MAX_GPUS = 256
MAX_PROCESSES = 2_000

_TRIGGER = lazy_pattern(r"MiB|GPU-|UUID|memory\.|Bus-Id|bus_id|\|\s+\d+\s")
_LISTED = lazy_pattern(
    r"^GPU (?P<index>\d{1,3}): (?P<name>.{2,80}?) \(UUID: (?P<uuid>(?:GPU|MIG)-[\w-]{8,60})\)", needs="(UUID: "
)
_TABLE_GPU = lazy_pattern(
    r"^\|\s{1,3}(?P<index>\d{1,3})\s+(?P<name>\S.*?)\s{1,20}(?:(?:On|Off|N/A)\s*)?\|\s*(?P<bus>[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)",
    needs="|",
)
_MEMORY = lazy_pattern(r"(?P<used>\d{1,9})\s?MiB\s*/\s*(?P<total>\d{1,9})\s?MiB", needs="MiB")
_ROW_GPU = lazy_pattern(
    r"^\|?\s*(?P<index>\d{1,3})\s{2,}(?P<name>[A-Z]\S*(?: \S+)*?)\s{2,}.*?\d+\s?MiB\s*/\s*\d+\s?MiB", needs="/"
)
_ROW_PID = lazy_pattern(r"\bpid (?P<pid>\d{1,9})\b", needs="pid ")
_TABLE_PROCESS = lazy_pattern(
    r"^\|\s+(?P<index>\d{1,3})\s+(?:(?:N/A|\d+)\s+(?:N/A|\d+)\s+)?(?P<pid>\d{1,9})\s+[CGM+]{1,3}\s+(?P<name>\S.*?)\s+"
    r"(?P<memory>\d{1,9}MiB|N/A)\s*\|",
    needs="|",
)
_INCOMPLETE = lazy_pattern(r"\bGPUs? \d{1,3} ?(?:to|-|\.\.+|…) ?\d|device handle for|is lost\b")
"""People shorten lists, and a lost GPU is missing from them: then the number of GPUs is not what is listed."""
_CSV_HEAD = lazy_pattern(
    r"^\s*(?:index|gpu_uuid|uuid|pid|name|gpu_name|gpu_bus_id|pci\.bus_id|timestamp|memory\.\w+)\b[^|]*, ?\w"
)


def read_nvidia_smi(lines: Sequence[Line], ctx: Context) -> tuple[Setting, ...]:
    """Settings `gpu.count` and, for each GPU, name, uuid, bus_id, memory and processes (family environment)."""
    reader = _Gpus(ctx)
    for line in lines:
        if _INCOMPLETE.search(line.text):
            reader.complete = False
        elif reader.columns or _TRIGGER.search(line.text) or _CSV_HEAD.match(line.text):
            reader.read(line)
    return reader.settings()


class _Gpus:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._found: dict[str, Setting] = {}
        self._seen: dict[int, Line] = {}
        self._current: int | None = None
        self._uuids: dict[str, int] = {}
        self._processes = 0
        self.columns: list[str] = []
        self.complete = True

    def read(self, line: Line) -> None:
        """Read one line."""
        text = line.text
        if self.columns and "," in text and not _CSV_HEAD.match(text):
            self._csv_row([part.strip() for part in text.split(",")], line)
        elif _CSV_HEAD.match(text):
            self.columns = [part.split("[")[0].strip() for part in text.split(",")]
        elif listed := _LISTED.match(text):
            self._gpu(int(listed["index"]), line, name=listed["name"], uuid=listed["uuid"])
        elif table := _TABLE_GPU.match(text):
            self._current = int(table["index"])
            self._gpu(self._current, line, name=table["name"], bus_id=table["bus"].lower())
        elif process := _TABLE_PROCESS.match(text):
            memory = parse_size(process["memory"]) if process["memory"] != "N/A" else None
            self._process(int(process["index"]), int(process["pid"]), memory, line)
        elif row := _ROW_GPU.match(text):
            # One line a GPU, as people shorten the table.
            index = int(row["index"])
            self._gpu(index, line, name=row["name"])
            self._memory(index, text, line)
            if pid := _ROW_PID.search(text):
                self._process(index, int(pid["pid"]), None, line)
        elif self._current is not None:
            self._memory(self._current, text, line)
            self._current = None
        if self.columns and "," not in text:
            self.columns = []

    def _memory(self, index: int, text: str, line: Line) -> None:
        if found := _MEMORY.search(text):
            self._add(f"gpu.{index}.memory_used_bytes", int(found["used"]) << 20, line)
            self._add(f"gpu.{index}.memory_total_bytes", int(found["total"]) << 20, line)

    def _csv_row(self, values: list[str], line: Line) -> None:
        row = dict(zip(self.columns, values, strict=False))
        uuid = row.get("gpu_uuid") or row.get("uuid") or ""
        index = int(row["index"]) if row.get("index", "").isdecimal() and len(row["index"]) < 4 else self._uuids.get(uuid)
        if row.get("pid", "").isdecimal() and len(row["pid"]) < 10:
            used = _size(row.get("used_gpu_memory") or row.get("used_memory") or "")
            self._process(uuid if index is None else index, int(row["pid"]), used, line)
            return
        if index is None:
            return
        self._gpu(index, line, name=row.get("name") or row.get("gpu_name"), uuid=uuid or None)
        for column, key in (("memory.used", "memory_used_bytes"), ("memory.total", "memory_total_bytes")):
            size = _size(row.get(column, ""))
            if size is not None:
                self._add(f"gpu.{index}.{key}", size, line)

    def _gpu(
        self, index: int, line: Line, *, name: str | None = None, uuid: str | None = None, bus_id: str | None = None
    ) -> None:
        if len(self._seen) >= MAX_GPUS:
            return
        self._seen.setdefault(index, line)
        if uuid:
            self._uuids[uuid] = index
        for key, value in (("name", name), ("uuid", uuid), ("bus_id", bus_id)):
            if value:
                self._add(f"gpu.{index}.{key}", value, line)

    def _process(self, gpu: int | str, pid: int, memory_bytes: int | None, line: Line) -> None:
        self._processes += 1
        if self._processes <= MAX_PROCESSES:
            self._add(f"gpu.{gpu}.process.{pid}", memory_bytes, line)

    def _add(self, key: str, value: int | str | None, line: Line) -> None:
        self._found[key] = Setting(
            family="environment",
            key=key,
            value=value,
            span=self._ctx.span(line),
            text=line.text.strip()[:500],
            source_id=self._ctx.source_id,
        )

    def settings(self) -> tuple[Setting, ...]:
        """What was read; the last reading of a GPU counts. GPUs are counted only if none is missing from the list."""
        if self.complete and self._seen and sorted(self._seen) == list(range(len(self._seen))):
            self._add("gpu.count", len(self._seen), self._seen[0])
        return tuple(self._found.values())


def _size(text: str) -> int | None:
    """Bytes of `611 MiB`, or of a bare number under `nounits` (MiB)."""
    try:
        return int(text) << 20 if text.isdecimal() and len(text) < 10 else parse_size(text)
    except ValueError:
        return None
