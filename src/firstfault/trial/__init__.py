"""Holds diagnoses against labels: labelled investigations and the scoreboard made of them. Nothing else reads a label."""
