"""`--gpus`: the number of GPUs of a machine, as a number or as what nvidia-smi printed there."""

from __future__ import annotations

from typing import Any

import click

MAX_GPUS = 1_024


class GpuCount(click.IntRange):
    """A number from 0 on, or a file that holds the output of nvidia-smi (table, `-L` or CSV)."""

    name = "N|FILE"

    def __init__(self) -> None:
        super().__init__(0, MAX_GPUS)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; fails where it is out of range or the file does not show it."""
        if not isinstance(value, str) or value.lstrip("+-").isdecimal():
            return int(super().convert(value, param, ctx))
        from firstfault.cli.request import read_file

        text = read_file(value)
        if text is None:
            self.fail(f"{value} is neither a number nor a file that can be read", param, ctx)
        found = _listed(text, value)
        if found is None:
            self.fail(f"{value} is no complete output of nvidia-smi", param, ctx)
        return found


def _listed(text: str, path: str) -> int | None:
    """The GPUs that the output lists; None where it lists none or not all."""
    from firstfault.ingest.context import Context
    from firstfault.ingest.lines import Line
    from firstfault.ingest.nvidia_smi import read_nvidia_smi
    from firstfault.model.bundle import Source

    rows = text.splitlines()
    source = Source(id=path, path=path, kind="environment", size_bytes=len(text), lines=len(rows))
    lines = [Line(text=row, raw=row, offset=0, number=number) for number, row in enumerate(rows, 1)]
    settings = read_nvidia_smi(lines, Context(source=source))
    return next((one.value for one in settings if one.key == "gpu.count" and isinstance(one.value, int)), None)
