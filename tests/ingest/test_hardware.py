from __future__ import annotations

import pytest

from firstfault.ingest.hardware import PRODUCES, read_hardware
from firstfault.ingest.kernel import read_kernel
from firstfault.model.event import Place
from reader_lines import context, lines

GPU = "nvidia 0000:98:00.0"


def facts(text: str, host: str | None = None) -> dict[str, object]:
    found = read_hardware(lines(text, Place(host=host)), context("dmesg.txt", "kernel"))
    assert {fact.name for fact in found} <= set(PRODUCES)
    assert all(fact.spans for fact in found)
    return {fact.name: fact.value for fact in found}


@pytest.mark.parametrize(
    "text",
    [
        f"{GPU}: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)",
        f"{GPU}: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer, (Requester ID)",
        f"{GPU}: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
        "NVRM: Xid (PCI:0000:98:00): 79, GPU has fallen off the bus.\n"
        "pcieport 0000:97:01.0: AER: Uncorrected (Fatal) error received: 0000:98:00.0",
        "pcieport 0000:97:01.0: AER: Uncorrectable (Fatal) error message received from 0000:98:00.0\n"
        "NVRM: Xid (PCI:0000:98:00): 79, GPU has fallen off the bus.",
    ],
)
def test_uncorrected_errors_of_a_gpu(text: str) -> None:
    assert facts(text) == {"gpu.aer_uncorrected": True}


@pytest.mark.parametrize(
    "text",
    [
        "pcieport 0000:97:01.0: AER: Uncorrected (Fatal) error received: 0000:5e:00.0",
        "mlx5_core 0000:5e:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
        f"{GPU}: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)",
        "pcieport 0000:97:01.0: AER: Corrected error received: 0000:98:00.0",
        f"{GPU}: PCIe Bus Error: severity=Uncorrected\nnvidia 0000:9b:00.0: PCIe Bus Error: severity=Uncorrected",
    ],
)
def test_other_devices_corrected_errors_and_several_gpus_decide_nothing(text: str) -> None:
    assert facts(text) == {}


@pytest.mark.parametrize(
    "text",
    [
        "mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00000000800400",
        "mce: [Hardware Error]: CPU 1: Machine Check: 0 Bank 5: bea0000000000108",
        "[Hardware Error]: CPU:2 (17:31:0) MC17_STATUS[Over|UE|MiscV|AddrV|PCC|TCC|-]: 0xfea0000000000108",
        "[Hardware Error]: Uncorrected, software restartable error.",
        "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_Ha#0_Chan#0_DIMM#0",
        "Memory failure: 0x3ae1f: Sending SIGBUS to python:2231 due to hardware memory corruption",
        "{1}[Hardware Error]: event severity: fatal\n{1}[Hardware Error]:   section_type: memory error",
    ],
)
def test_what_the_machine_could_not_correct(text: str) -> None:
    assert facts(text) == {"host.machine_check": True}


@pytest.mark.parametrize(
    "text",
    [
        "mce: [Hardware Error]: Machine check events logged\n[Hardware Error]: Corrected error, no action required.",
        "[Hardware Error]: CPU:2 (17:31:0) MC17_STATUS[Over|CE|MiscV|AddrV|-]: 0xdc2041000000011b",
        "mce: [Hardware Error]: CPU 5: Machine Check: 0 Bank 1: 9c00080001010135",
        "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#0_DIMM#0",
        "{1}[Hardware Error]: event severity: corrected\n{1}[Hardware Error]:   section_type: memory error",
        "{1}[Hardware Error]: event severity: fatal\n{1}[Hardware Error]:   section_type: PCIe error",
    ],
)
def test_corrected_errors_say_nothing(text: str) -> None:
    assert facts(text) == {}


def test_the_origin_names_bus_and_host() -> None:
    (found,) = read_hardware(
        lines(f"{GPU}: PCIe Bus Error: severity=Uncorrected (Fatal)", Place(host="node-3")), context("dmesg.txt", "kernel")
    )
    assert "0000:98:00" in found.origin
    assert "node-3" in found.origin


def test_the_process_that_owned_the_page_ends_by_sigbus() -> None:
    text = "[ 9.1] Memory failure: 0x3ae1f: Sending SIGBUS to python:2231 due to hardware memory corruption"
    (found,), known = read_kernel(lines(text), context("dmesg.txt", "kernel"))
    assert (found.place.pid, found.code, found.reporter) == (2231, -7, "kernel")
    assert {fact.name for fact in known} == {"host.machine_check"}
