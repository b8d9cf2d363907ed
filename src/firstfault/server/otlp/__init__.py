"""Log records over OTLP/HTTP: scanned and redacted as they come; only evidence and the last line of each stream are kept."""
