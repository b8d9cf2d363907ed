"""One worker process: reads tasks from standard input, writes answers to standard output, and can be killed at any time.

A frame is four bytes of length (big-endian) and MessagePack. What goes wrong inside is an answer too.
"""

from __future__ import annotations

import sys
from typing import BinaryIO, Literal

import msgspec
from msgspec.structs import replace

from firstfault.engine.investigate import investigate
from firstfault.errors import FirstfaultError
from firstfault.ingest.capsule import Capsule, encode, handed_capsule
from firstfault.ingest.capsule_reading import bundle_of, offsets_of
from firstfault.ingest.handed import Handed
from firstfault.ingest.redact import Redactor
from firstfault.knowledge.pack import load_pack
from firstfault.knowledge.redaction import redaction_rules
from firstfault.knowledge.schema import Pack
from firstfault.model.diagnosis import Diagnosis
from firstfault.server.remask import masked_again

MEMORY_BYTES = 3 << 30
MAX_FRAME_BYTES = 256 << 20


class Task(msgspec.Struct, frozen=True, tag="diagnose"):
    """A capsule (`firstfault.capsule/1` in JSON) and what was answered of missing facts. `again`: mask both once more."""

    capsule: bytes
    facts: dict[str, str]
    again: bool = False


class Intake(msgspec.Struct, frozen=True, tag="gather"):
    """Files by name, packed ones too, of which a capsule is wanted; `taken` are pseudonyms by kind that it may not use."""

    files: tuple[tuple[str, bytes], ...]
    taken: tuple[tuple[str, str], ...] = ()


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The diagnosis or capsule in JSON, or why there is none: `input` and `limit` are the sender's to mend, `fault` is ours.

    `capsule` and `facts` are those that were diagnosed, where they were masked once more.
    """

    made: bytes = b""
    capsule: bytes = b""
    facts: dict[str, str] = {}
    error: Literal["", "input", "limit", "fault"] = ""
    what: str = ""
    where: str = ""
    hint: str = ""


def answer(task: Task | Intake, pack: Pack) -> Outcome:
    """What the task asks for: a diagnosis, its evidence at the places of the sources, or a capsule."""
    try:
        if isinstance(task, Intake):
            return Outcome(made=encode(gather(task, pack)))
        capsule, facts = msgspec.json.decode(task.capsule, type=Capsule), task.facts
        if not task.again:
            return Outcome(made=msgspec.json.encode(diagnose_capsule(capsule, facts, pack)))
        capsule, facts = masked_again(capsule, facts, redaction_rules(pack))
        made = msgspec.json.encode(diagnose_capsule(capsule, facts, pack))
        return Outcome(made=made, capsule=encode(capsule), facts=facts)
    except FirstfaultError as error:
        return Outcome(error="input", what=error.message, where=error.where, hint=error.hint)
    except msgspec.MsgspecError as error:
        return Outcome(error="input", what=str(error), where="capsule")
    except (MemoryError, RecursionError) as error:
        return Outcome(error="limit", what=type(error).__name__)
    except Exception as error:
        # Whatever a hostile text brings about in us must not end the process that serves others.
        return Outcome(error="fault", what=f"{type(error).__name__}: {error}"[:500])


def diagnose_capsule(capsule: Capsule, facts: dict[str, str], pack: Pack) -> Diagnosis:
    """What `investigate` says of the capsule. FirstfaultError for a capsule or a fact that cannot be read."""
    found = investigate(bundle_of(capsule, pack), pack, facts)
    offsets = offsets_of(capsule)
    evidence = (replace(item, offset=offsets.get((item.source, item.line), item.offset)) for item in found.evidence)
    return replace(found, evidence=tuple(evidence))


def gather(task: Intake, pack: Pack) -> Capsule:
    """The redacted capsule of files. UnreadableInputError if nothing of them is text."""
    handed = [Handed(path=name, data=data, size_bytes=len(data)) for name, data in task.files]
    names = {(kind, f"\0{pseudonym}"): pseudonym for kind, pseudonym in task.taken}
    return handed_capsule(handed, pack, Redactor(redaction_rules(pack), names=names))


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
        outcome = answer(msgspec.msgpack.decode(data, type=Task | Intake), pack)
        answers.write(frame(msgspec.msgpack.encode(outcome)))
        answers.flush()


def _limit_memory() -> None:
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


if __name__ == "__main__":
    serve()
