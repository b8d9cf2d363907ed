"""Two commands or runs held against each other: what differs, and what of it explains that they end otherwise."""
