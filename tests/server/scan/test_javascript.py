from __future__ import annotations

import hashlib
import re

import pytest

from firstfault.server.web.javascript import javascript
from server.scan.sides import STATIC


@pytest.mark.parametrize(
    ("python", "browser"),
    [
        (r"a(?P<rank>\d+)\s.$", "a(?<rank>\\d+)[ \\t\\n\\r\\f\\v][^\\n](?=\\n?$)"),
        (r"[\s.$]\S", "[ \\t\\n\\r\\f\\v.$][^ \\t\\n\\r\\f\\v]"),
        (r"[]a][^]b]", r"[\]a][^\]b]"),
        (r"\[.\Z", r"\[[^\n]$"),
    ],
)
def test_what_javascript_reads_otherwise_is_written_otherwise(python, browser):
    assert javascript(python) == browser


def test_what_cannot_be_said_is_refused():
    with pytest.raises(ValueError, match="class"):
        javascript(r"[\S]")


def test_vendored_files_are_those_of_the_list():
    rows = re.findall(r"^\| `(\S+)` .*`([0-9a-f]{64})` \|$", (STATIC / "vendor" / "VENDOR.md").read_text("utf-8"), re.MULTILINE)
    assert rows
    for name, digest in rows:
        assert hashlib.sha256((STATIC / "vendor" / name).read_bytes()).hexdigest() == digest
