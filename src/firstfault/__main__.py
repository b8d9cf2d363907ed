"""`python -m firstfault` is the command `firstfault`."""

from firstfault.cli.main import main

main()
