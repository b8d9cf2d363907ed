from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

import msgspec
import pytest

from diagnosis_samples import TITLES, established
from firstfault.knowledge import pack as pack_module
from firstfault.knowledge.schema import CausalTable, CodeBlock, Entry, EntryBody, Pack
from firstfault.model.diagnosis import Diagnosis


class Engine:
    """Stands for reading and investigating: remembers what it was handed, and answers what it is told to."""

    def __init__(self) -> None:
        self.answer: Diagnosis = established()
        self.error: BaseException | None = None
        self.inputs: list[str] = []
        self.facts: dict[str, str] = {}
        self.stdin = b""

    def gather(self, inputs: list[str], pack: Pack, *, stdin: object = None) -> object:
        self.inputs = list(inputs)
        if stdin is not None:
            self.stdin = stdin.read()  # type: ignore[attr-defined]
        if self.error:
            raise self.error
        return object()

    def investigate(self, bundle: object, pack: Pack, answers: dict[str, str]) -> Diagnosis:
        self.facts = dict(answers)
        return self.answer


def small_pack() -> Pack:
    """A pack with one entry a title, and a body."""
    body = EntryBody(
        sections={"In short": "Short words.\n", "Fix": "\n"},
        fixes={"a-fix": (CodeBlock(language="diff", stack="torch", text="-a\n+b\n"),)},
    )
    entries = {key: Entry(id=key, title=title, category="memory", role="initiating") for key, title in TITLES.items()}
    causal = CausalTable(classes=(), explains=())
    bodies = {key: msgspec.Raw(msgspec.msgpack.encode(body)) for key in entries}
    return Pack(signals=(), facts={}, causal=causal, entries=entries, bodies=bodies)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The command line without reading and investigating."""
    fake = Engine()
    for name, attribute in (("firstfault.ingest.bundle", "gather"), ("firstfault.engine.investigate", "investigate")):
        module = ModuleType(name)
        setattr(module, attribute, getattr(fake, attribute))
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(pack_module, "load_pack", small_pack)
    for variable in ("NO_COLOR", "FIRSTFAULT_TRACEBACK"):
        monkeypatch.delenv(variable, raising=False)
    return fake


@pytest.fixture
def call(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command line in this process: exit code, standard output, standard error."""
    from firstfault.cli.main import run

    def _call(*arguments: str) -> tuple[int, str, str]:
        capfdbinary.readouterr()
        code = run(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return _call
