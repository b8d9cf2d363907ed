"""Reads what was handed over: identifies each source, finds rank, host and clock, and turns it into a report, once."""
