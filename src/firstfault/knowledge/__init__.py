"""What firstfault knows: signals, facts, the causal table and entries, read from data files and compiled into one pack."""
