"""One worker process: reads capsules from standard input, writes answers to standard output, and can be killed at any time.

A frame is four bytes of length (big-endian) and MessagePack. What goes wrong inside is an answer too.
"""

from __future__ import annotations

import sys
from typing import BinaryIO, Literal

import msgspec
from msgspec.structs import replace

from firstfault.engine.investigate import investigate
from firstfault.errors import FirstfaultError
from firstfault.ingest.capsule import Capsule
from firstfault.ingest.capsule_reading import bundle_of, offsets_of
from firstfault.knowledge.pack import load_pack
from firstfault.knowledge.schema import Pack
from firstfault.model.diagnosis import Diagnosis

MEMORY_BYTES = 3 << 30
MAX_FRAME_BYTES = 256 << 20


class Task(msgspec.Struct, frozen=True):
    """A capsule (`firstfault.capsule/1` in JSON) and what was answered of missing facts."""

    capsule: bytes
    facts: dict[str, str]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The answer in JSON, or why there is none: `input` is the sender's to mend, `fault` is ours."""

    diagnosis: bytes = b""
    error: Literal["", "input", "fault"] = ""
    what: str = ""
    where: str = ""
    hint: str = ""


def answer(task: Task, pack: Pack) -> Outcome:
    """The diagnosis of a capsule, its evidence at the places of the sources."""
    try:
        capsule = msgspec.json.decode(task.capsule, type=Capsule)
        return Outcome(diagnosis=msgspec.json.encode(diagnose_capsule(capsule, task.facts, pack)))
    except FirstfaultError as error:
        return Outcome(error="input", what=error.message, where=error.where, hint=error.hint)
    except msgspec.MsgspecError as error:
        return Outcome(error="input", what=str(error), where="capsule")
    except Exception as error:
        # Whatever a hostile text brings about in us must not end the process that serves others.
        return Outcome(error="fault", what=f"{type(error).__name__}: {error}"[:500])


def diagnose_capsule(capsule: Capsule, facts: dict[str, str], pack: Pack) -> Diagnosis:
    """What `investigate` says of the capsule. FirstfaultError for a capsule or a fact that cannot be read."""
    found = investigate(bundle_of(capsule, pack), pack, facts)
    offsets = offsets_of(capsule)
    evidence = (replace(item, offset=offsets.get((item.source, item.line), item.offset)) for item in found.evidence)
    return replace(found, evidence=tuple(evidence))


def read_frame(stream: BinaryIO) -> bytes | None:
    """The next frame; None at the end of the stream."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    return stream.read(int.from_bytes(head, "big"))


def frame(data: bytes) -> bytes:
    """Data with its length before it."""
    return len(data).to_bytes(4, "big") + data


def serve() -> None:
    """Answer task after task until standard input ends."""
    _limit_memory()
    pack = load_pack()
    tasks, answers = sys.stdin.buffer, sys.stdout.buffer
    # What is printed by accident must not be taken for an answer.
    sys.stdout = sys.stderr
    while (data := read_frame(tasks)) is not None:
        outcome = answer(msgspec.msgpack.decode(data, type=Task), pack)
        answers.write(frame(msgspec.msgpack.encode(outcome)))
        answers.flush()


def _limit_memory() -> None:
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


if __name__ == "__main__":
    serve()
