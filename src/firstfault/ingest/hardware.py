"""What the kernel says of the machine: uncorrected PCIe errors of a GPU, machine checks, memory that cannot be corrected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from firstfault.ingest.context import Context
from firstfault.ingest.lines import Line
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Fact
from firstfault.model.span import SourceSpan

PRODUCES = ("gpu.aer_uncorrected", "host.machine_check")

MAX_REPORTS = 1_000
_SHOWN = 4

_BUS = r"(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})(?:\.\d)?"
TRIGGER = lazy_pattern(r"PCIe Bus Error: sev|AER: |\[Hardware Error\]|EDAC MC\d|due to hardware memory corruption|NVRM: Xid")

# Linux says `Uncorrected` up to 6.7 and `Uncorrectable` later; a root port names the device that it received the error of.
_AER_OWN = lazy_pattern(
    r"(?P<driver>[\w-]{1,40}) " + _BUS + r": (?:AER: )?PCIe Bus Error: severity=Uncorrect(?:ed|able)", needs="PCIe Bus Error"
)
_AER_RECEIVED = lazy_pattern(
    r"AER: (?:Multiple )?Uncorrect(?:ed|able) \([\w-]{1,20}\) error (?:message )?received(?: from)?:? " + _BUS, needs="AER: "
)
_XID_BUS = lazy_pattern(r"NVRM: Xid \((?:PCI:)?" + _BUS, needs="NVRM: Xid")
# Bit 61 of the status says that the hardware could not correct it (Intel and AMD alike).
_MCE_STATUS = lazy_pattern(
    r"Machine Check(?: Exception)?: \w{1,16} Bank \d{1,3}: (?P<status>[0-9a-f]{16})\b", needs="Machine Check"
)
_UNCORRECTED_BIT = 1 << 61
_UNCORRECTED = lazy_pattern(
    r"\bMC\d{1,3}_STATUS\[[^\]]{0,100}\bUE\b|\[Hardware Error\]: Uncorrected\b|EDAC MC\d{1,3}: \d{1,9} UE "
    r"|(?:Sending SIGBUS to|MCE 0x[0-9a-f]{1,16}: Killing) \S{1,64}:\d{1,9} due to hardware memory corruption"
)
# Firmware that reads the errors itself (APEI) prints the severity first, then the section that it concerns.
_SEVERITY = lazy_pattern(r"\[Hardware Error\]: event severity: (?P<severity>\w+)", needs="event severity: ")
_SECTION = lazy_pattern(r"\[Hardware Error\]: +section_type: (?P<section>[\w ]{1,40})", needs="section_type: ")
_SEVERE = frozenset({"fatal", "recoverable"})


class _Report(NamedTuple):
    host: str | None
    bus: str
    span: SourceSpan


def read_hardware(lines: Sequence[Line], ctx: Context) -> tuple[Fact, ...]:
    """Whether a GPU's PCIe link and the machine's memory and processors reported what could not be corrected.

    Corrected errors say nothing. A PCIe error counts if the device is the NVIDIA driver's, or has an Xid in the same text.
    """
    reader = _Hardware(ctx)
    for line in lines:
        if TRIGGER.search(line.text):
            reader.read(line)
    return reader.facts()


class _Hardware:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._gpus: set[str] = set()
        self._pcie: list[_Report] = []
        self._checks: list[_Report] = []
        self._severe = False

    def read(self, line: Line) -> None:
        """Read one line that may be of interest."""
        text = line.text
        if xid := _XID_BUS.search(text):
            self._gpus.add(xid["bus"].lower())
        elif own := _AER_OWN.search(text):
            if own["driver"] == "nvidia":
                self._gpus.add(own["bus"].lower())
            self._note(self._pcie, line, own["bus"].lower())
        elif received := _AER_RECEIVED.search(text):
            self._note(self._pcie, line, received["bus"].lower())
        elif status := _MCE_STATUS.search(text):
            if int(status["status"], 16) & _UNCORRECTED_BIT:
                self._note(self._checks, line)
        elif _UNCORRECTED.search(text):
            self._note(self._checks, line)
        elif severity := _SEVERITY.search(text):
            self._severe = severity["severity"] in _SEVERE
        elif (section := _SECTION.search(text)) and self._severe and "PCIe" not in section["section"]:
            self._note(self._checks, line)

    def _note(self, reports: list[_Report], line: Line, bus: str = "") -> None:
        if len(reports) < MAX_REPORTS:
            reports.append(_Report(line.place.host or self._ctx.place.host, bus, self._ctx.span(line)))

    def facts(self) -> tuple[Fact, ...]:
        """The facts of the whole text. Errors of several GPUs decide nothing: whose is meant is not known here."""
        found = []
        pcie = [report for report in self._pcie if report.bus in self._gpus]
        if len({report.bus for report in pcie}) == 1:
            found.append(_fact("gpu.aer_uncorrected", f"PCIe errors of {pcie[0].bus}", pcie))
        if self._checks:
            found.append(_fact("host.machine_check", "errors that could not be corrected", self._checks))
        return tuple(found)


def _fact(name: str, what: str, reports: Sequence[_Report]) -> Fact:
    hosts = sorted({report.host for report in reports if report.host})
    origin = f"{what} on {hosts[0]}" if len(hosts) == 1 else what
    return Fact(name=name, value=True, origin=origin, spans=tuple(report.span for report in reports[:_SHOWN]))
