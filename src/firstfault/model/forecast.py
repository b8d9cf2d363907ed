"""Where the memory of a training step goes, as it is printed in JSON (`firstfault.forecast/1`). All sizes are bytes."""

from __future__ import annotations

from typing import Literal

import msgspec

FORECAST_SCHEMA = "firstfault.forecast/1"

FitVerdict = Literal["fits", "tight", "does not fit", "unknown"]
Tier = Literal["formula", "trace", "measured"]
PhaseName = Literal[
    "load",
    "forward",
    "gather",
    "loss",
    "backward",
    "optimizer",
    "accumulation",
    "evaluation",
    "evaluation gather",
    "checkpoint save",
]
Scalar = bool | int | float | str | None


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """A size that is known up to its band, in bytes."""

    lo: int
    mid: int
    hi: int


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """What lies on the device at the peak of a phase (`weights`, `logits` ...), in bytes, and the product behind it."""

    name: str
    bytes: int
    why: str = ""


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """The peak of one phase on one device.

    `allocated` is what live tensors take, `reserved` adds what the caching allocator holds besides, `total` what nvidia-smi
    shows: reserved, the CUDA context and the buffers of the communication library. `components` sum to `allocated.mid`.
    """

    name: PhaseName
    device: str
    allocated: Band
    reserved: Band
    total: Band
    components: tuple[Component, ...] = ()


class Assumption(msgspec.Struct, frozen=True, kw_only=True):
    """A value that the forecast rests on and that no input gave, or where it came from."""

    fact: str
    value: Scalar
    source: str


class MissingFact(msgspec.Struct, frozen=True, kw_only=True):
    """A value that would narrow the forecast, why, and the command or option that gives it."""

    fact: str
    why: str
    command: str


class FirstOom(msgspec.Struct, frozen=True, kw_only=True):
    """The first request that the device cannot serve: in which phase, for what, and how much was there already, in bytes."""

    phase: PhaseName
    device: str
    request: int
    what: str
    allocated: int
    reserved: int
    limit: int


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the run: edit, cost, and the bytes that the device must then have (live tensors and context).

    `saved` is the difference to the run as it is, and may be negative.
    """

    title: str
    edit: str
    cost: str
    peak: int
    saved: int
    verdict: FitVerdict


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """Peaks by phase and device, whether they fit, and every value that was assumed.

    `peak` is the phase with the most live bytes (an index into `phases`), `limit` the memory of one device in bytes, None
    where no device was named. `changes` are single changes, the one that saves most first; `fit` the cheapest ones that
    together fit, where asked for.
    """

    schema: str = FORECAST_SCHEMA
    tier: Tier = "formula"
    model: str
    parameters: int
    trainable_parameters: int
    device: str = ""
    limit: int | None = None
    verdict: FitVerdict = "unknown"
    phases: tuple[Phase, ...] = ()
    peak: int = 0
    first_oom: FirstOom | None = None
    assumptions: tuple[Assumption, ...] = ()
    missing: tuple[MissingFact, ...] = ()
    changes: tuple[Change, ...] = ()
    fit: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
