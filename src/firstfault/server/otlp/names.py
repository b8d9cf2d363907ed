"""Pseudonyms of a run that outlive the process: kept by a keyed digest of the value, never by the value."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping, MutableMapping

_Key = tuple[str, str]


class DigestNames(MutableMapping[_Key, str]):
    """Pseudonyms by kind and value, stored by digest. `take_new` gives those that were added since it was called last.

    To iterate gives digests in the place of values: they cannot be told.
    """

    def __init__(self, secret: bytes, known: Mapping[bytes, str]) -> None:
        self._secret = secret
        self._names = dict(known)
        self._new: dict[bytes, str] = {}

    def __getitem__(self, key: _Key) -> str:
        return self._names[self._digest(key)]

    def __setitem__(self, key: _Key, name: str) -> None:
        digest = self._digest(key)
        self._names[digest] = self._new[digest] = name

    def __delitem__(self, key: _Key) -> None:
        del self._names[self._digest(key)]

    def __iter__(self) -> Iterator[_Key]:
        return ((name.rpartition("-")[0], digest.hex()) for digest, name in self._names.items())

    def __len__(self) -> int:
        return len(self._names)

    def values(self) -> list[str]:  # type: ignore[override]  # a list is what a view is asked for here
        """The pseudonyms."""
        return list(self._names.values())

    def take_new(self) -> dict[bytes, str]:
        """Digest and pseudonym of what was added; it is not given again."""
        new, self._new = self._new, {}
        return new

    def _digest(self, key: _Key) -> bytes:
        return hmac.digest(self._secret, "\0".join(key).encode("utf-8", "surrogatepass"), "sha256")[:16]
