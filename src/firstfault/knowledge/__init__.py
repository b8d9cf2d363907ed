"""What firstfault knows: signals, facts, the causal table and the encyclopedia, read from data files and compiled into one pack."""
