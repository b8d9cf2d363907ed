"""The commands by name. Nothing else, so that it costs nothing to know them."""

from __future__ import annotations

DEFAULT = "diagnose"
COMMANDS = {
    "diagnose": "Name the first fault of a failed run, why, and the fix (the default).",
    "why": "Say why a rank is, or is not, the one that failed first.",
    "explain": "Show an entry of the encyclopedia.",
    "plan": "Say what a launch command will really start.",
    "memory": "Say what holds the memory in a CUDA memory snapshot.",
    "compare": "Say what differs between two commands or runs, and what of it explains the failure.",
    "forecast": "Say where the memory of a training step goes, and whether it fits.",
    "serve": "Serve the console: paste a log in a browser, keep the history.",
    "admin": "Look after a console: accounts, invitations, expiry, export.",
    "demo": "Diagnose one of the bundled failed runs.",
    "encyclopedia": "Check, extend and compile the encyclopedia.",
    "case": "Make a labelled case of what was diagnosed wrongly, with secrets and names masked.",
    "bench": "Hold the answers against labelled investigations.",
}
"""Every command with its one line of help, so that `--help` imports none of them."""
