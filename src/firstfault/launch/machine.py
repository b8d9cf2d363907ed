"""Facts of the machine and the software on it that a listing states outright."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.model.fact import Fact, Setting

PRODUCES = ("host.ram_bytes", "lib.torch_has_cuda")


def machine_facts(settings: Sequence[Setting]) -> tuple[Fact, ...]:
    """Memory of the host (the smallest that is stated) and whether the torch build has CUDA, where its version says so."""
    facts: list[Fact] = []
    sizes = [
        (setting.value, setting)
        for setting in settings
        if setting.family == "environment" and setting.key == "host.ram_bytes" and isinstance(setting.value, int)
    ]
    if sizes:
        size, setting = min(sizes, key=lambda pair: pair[0])
        facts.append(Fact(name="host.ram_bytes", value=size, origin="memory of the host", spans=(setting.span,)))
    builds = [setting for setting in settings if setting.family == "package" and setting.key == "torch"]
    kinds = {_build_kind(str(setting.value)) for setting in builds}
    if kinds in ({"cpu"}, {"cuda"}):
        facts.append(
            Fact(
                name="lib.torch_has_cuda",
                value=kinds == {"cuda"},
                origin="version of torch",
                spans=tuple(setting.span for setting in builds),
            )
        )
    return tuple(facts)


def _build_kind(version: str) -> str:
    """`cuda` for `2.5.1+cu121`, `cpu` for `2.5.1+cpu`; a version without such a part may be either."""
    local = version.partition("+")[2]
    if local.startswith("cpu"):
        return "cpu"
    return "cuda" if local.startswith("cu") else ""
