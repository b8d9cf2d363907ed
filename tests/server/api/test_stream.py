"""What comes over a real connection: a body without an end is refused while it comes, and the console goes on."""

from __future__ import annotations

import http.client
import json
import select
import socket
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from server.live_console import live_console

PIECE = b"x" * 65_536
MUCH = 100 << 20
PART = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.log"\r\n\r\n'


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with live_console(tmp_path_factory.mktemp("console"), private=False) as found:
        yield found


def taken_before_the_answer(address: str, kind: str, first: bytes) -> tuple[int, bytes]:
    """How many bytes of a chunked body were sent until the console answered, and the answer."""
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as sender:
        head = f"POST /api/v1/diagnoses HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: {kind}\r\n"
        sender.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        taken, piece = 0, first + PIECE
        while taken < MUCH and not select.select([sender], [], [], 0)[0]:
            sender.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            taken += len(piece)
            piece = PIECE
        return taken, sender.recv(65_536)


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("application/json", b'{"x": "'),
        ("text/plain", b""),
        ("multipart/form-data; boundary=b", PART),
        ("application/x-www-form-urlencoded", b"text="),
    ],
)
def test_a_body_without_an_end_is_not_read_to_its_end(address: str, kind: str, first: bytes) -> None:
    taken, answer = taken_before_the_answer(address, kind, first)
    assert taken < MUCH // 2 and answer.startswith(b"HTTP/1.1 413 ")
    with closing(http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)) as again:
        again.request("POST", "/api/v1/diagnoses", b"ValueError: x\n", {"Content-Type": "text/plain"})
        assert again.getresponse().status in (201, 429)


def test_a_declared_length_is_refused_before_anything_comes(address: str) -> None:
    with closing(http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)) as sender:
        sender.putrequest("POST", "/api/v1/diagnoses")
        for name, value in {"Content-Type": "multipart/form-data; boundary=b", "Content-Length": str(MUCH)}.items():
            sender.putheader(name, value)
        sender.endheaders()
        answer = sender.getresponse()
        assert answer.status == 413
        assert json.loads(answer.read())["hint"]
