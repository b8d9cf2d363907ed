"""The byte engine: finds the literals of all signals in a stream and confirms them; the only code that touches every byte."""
