"""The traced step: a program for the user's own interpreter (Python 3.9 or later, its torch and transformers).

`memory/trace.py` starts it as a process of its own, under the name `firstfault_traced`; it imports nothing of firstfault, and
nothing of firstfault imports it.
"""
