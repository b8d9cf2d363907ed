"""Where the bytes of a training step go: by formula, by a traced step, and from a snapshot. torch is never imported here."""
