"""The version, in a module of its own so that `--version` and the build read it without importing anything."""

__version__ = "0.1.0"
