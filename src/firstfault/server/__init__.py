"""The web console and its API around the same engine: needs the extra `server`."""
