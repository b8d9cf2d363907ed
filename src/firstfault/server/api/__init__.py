"""The API below `/api/v1`: what the pages do, for programs."""
