"""Launch plans of a command, a configuration and a number of GPUs, for the tests of the launch room."""

from __future__ import annotations

from typing import Any

from firstfault.ingest.command import read_command
from firstfault.ingest.configs import read_accelerate, read_deepspeed
from firstfault.launch.processes import PRODUCES, plan_facts
from firstfault.model.fact import Fact, Setting
from firstfault.model.span import SourceSpan
from reader_lines import context, lines


def gpus(count: int) -> Setting:
    return Setting(family="environment", key="gpu.count", value=count, span=SourceSpan("env.txt", 1, 0), text=f"{count} GPUs")


def facts(
    command: str = "", *, config: str = "", name: str = "conf.yaml", count: int | None = None, deepspeed: str = ""
) -> dict[str, Fact]:
    settings = list(read_command(lines(command), context("job.sh", "command")))
    settings += read_accelerate(config, context(name, "accelerate_config"))[0] if config else ()
    settings += read_deepspeed(deepspeed, context("ds.json", "deepspeed_config"))[0] if deepspeed else ()
    if count is not None:
        settings.append(gpus(count))
    found = plan_facts(settings)
    assert {fact.name for fact in found} <= set(PRODUCES)
    assert all(fact.spans for fact in found)
    return {fact.name: fact for fact in found}


def values(*args: Any, **kwargs: Any) -> dict[str, Any]:
    return {name: fact.value for name, fact in facts(*args, **kwargs).items()}


def yaml(kind: str, *more: str) -> str:
    return "\n".join((f"compute_environment: LOCAL_MACHINE\ndistributed_type: {kind}\nnum_machines: 1", *more)) + "\n"


ACCELERATE = "accelerate launch --config_file conf.yaml"
