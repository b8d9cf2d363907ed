"""The pages: server-rendered, usable without script."""
