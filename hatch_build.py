"""Compiles `encyclopedia/` and `signals/` into the one pack that a wheel carries; an editable install reads the sources."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PackHook(BuildHookInterface[Any]):
    """Adds `firstfault/knowledge/pack.msgpack` to standard wheels."""

    PLUGIN_NAME = "custom"
    _folder: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the pack; an error in a data file ends the build and names file and line."""
        if self.target_name != "wheel" or version == "editable":
            return
        sys.path.insert(0, str(Path(self.root) / "src"))
        from firstfault.knowledge.pack import compile_pack, encode_pack

        data = encode_pack(compile_pack(Path(self.root)))
        self._folder = tempfile.TemporaryDirectory()
        packed = Path(self._folder.name) / "pack.msgpack"
        packed.write_bytes(data)
        build_data["force_include"][str(packed)] = "firstfault/knowledge/pack.msgpack"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the compiled file once the wheel holds it."""
        if self._folder:
            self._folder.cleanup()
