"""People: who asks, how they sign in, and how much they may ask."""
