"""Turns a diagnosis or an entry into text: terminal, JSON, Markdown, HTML, patch."""
