"""Limits of the machine that shells and nvidia-smi print."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from firstfault.ingest.limits import read_limits
from reader_lines import context, lines


def read(text: str) -> list[tuple[str, Any]]:
    return [(setting.key, setting.value) for setting in read_limits(lines(textwrap.dedent(text)), context())]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("max locked memory           (kbytes, -l) 65536\n", 65536),
        ("max locked memory           (kbytes, -l) unlimited\n", "unlimited"),
        ("-l: locked-in-memory size (kbytes)  64\n", 64),
        ("Max locked memory         8388608              unlimited            bytes\n", 8388608),
        ("$ ulimit -l\nunlimited\n", "unlimited"),
        ("$ ulimit -l\n64\n", 64),
    ],
)
def test_locked_memory_as_shells_and_the_kernel_print_it(text: str, value: object) -> None:
    assert read(text) == [("limit.locked_memory", value)]


def test_other_limits_and_advice_say_nothing() -> None:
    assert (
        read("max memory size (kbytes, -m) unlimited\n64\nset locked memory to unlimited with `ulimit -l unlimited`\n64\n")
        == []
    )


def test_reasons_of_a_slowdown() -> None:
    found = read(
        """\
        Clocks Event Reasons
            Idle                              : Not Active
            SW Power Cap                      : Not Active
            HW Slowdown                       : Active
                HW Thermal Slowdown           : Active
        """
    )
    assert found == [
        ("gpu.slowdown.sw_power_cap", False),
        ("gpu.slowdown.hw_slowdown", True),
        ("gpu.slowdown.hw_thermal_slowdown", True),
    ]
