"""The command line: one module a command; `main` is the only place that turns an error into text and an exit code."""
