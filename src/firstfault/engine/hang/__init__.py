"""Hangs: which rank did not arrive, from what the ranks show of their collectives. Pure functions of the records."""
