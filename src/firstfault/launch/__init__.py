"""What a launch command will really start, as far as settings alone decide it."""
