"""What came back: when two answers are about the same failure."""
