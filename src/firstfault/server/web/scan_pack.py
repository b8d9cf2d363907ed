"""What a browser needs to scan and to redact as the engine does: signals, rules and names as one JSON file."""

from __future__ import annotations

import hashlib

import msgspec

from firstfault.ingest.discover import NEVER_TEXT, SKIPPED_FOLDERS
from firstfault.knowledge.redaction import redaction_rules
from firstfault.knowledge.schema import Pack
from firstfault.scan.scanner import TRIGGERS
from firstfault.server.web.javascript import javascript

SCHEMA = "firstfault.scan-pack/1"


class ScanPack(msgspec.Struct, frozen=True):
    """The file and its name, which changes with its content: it may be kept for ever."""

    name: str
    data: bytes


def scan_pack(pack: Pack) -> ScanPack:
    """The signals that are events and the redaction rules, their expressions in JavaScript's form, and what a folder skips."""
    data = msgspec.json.encode(
        {
            "schema": SCHEMA,
            "signals": [
                {
                    "id": signal.id,
                    "role": signal.role,
                    "literal": signal.literal,
                    "pattern": javascript(signal.pattern),
                    "then": [javascript(part) for part in signal.then],
                    "holes": signal.holes,
                }
                for signal in pack.signals
                if signal.role != "progress"
            ],
            "triggers": {literal.decode(): ending for literal, ending in TRIGGERS.items()},
            "redaction": [
                {
                    "id": rule.id,
                    "kind": rule.kind,
                    "pattern": javascript(rule.pattern),
                    "ignore_case": rule.ignore_case,
                    "literals": rule.literals,
                    "follows": javascript(rule.follows),
                    "unless": javascript(rule.unless),
                    "holds": [javascript(part) for part in rule.holds],
                }
                for rule in redaction_rules(pack)
            ],
            "never_text": NEVER_TEXT,
            "skipped_folders": sorted(SKIPPED_FOLDERS),
        }
    )
    return ScanPack(f"scan-pack-{hashlib.sha256(data).hexdigest()[:16]}.json", data)


_served: dict[int, ScanPack] = {}


def served_pack(pack: Pack) -> ScanPack:
    """`scan_pack`, made once for the pack that a console serves."""
    key = id(pack)
    if key not in _served:
        _served.clear()
        _served[key] = scan_pack(pack)
    return _served[key]
