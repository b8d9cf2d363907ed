"""Keys of this console, made when they are first needed."""

from __future__ import annotations

import secrets

from sqlalchemy import select

from firstfault.server.store.access import Access
from firstfault.server.store.schema import secrets as table

KEY_BYTES = 32


class Keys:
    """Random keys by name, the same for all processes of a console and after a restart."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._known: dict[str, bytes] = {}

    def get(self, name: str) -> bytes:
        """The key of that name; it never changes."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._find_or_make(name)
        return known

    def _find_or_make(self, name: str) -> bytes:
        one = select(table.c.value).where(table.c.name == name)
        with self._access.read() as connection:
            found = connection.execute(one).scalar_one_or_none()
        if found is None:
            with self._access.write() as connection:
                made = self._access.upsert(table).values(name=name, value=secrets.token_bytes(KEY_BYTES))
                connection.execute(made.on_conflict_do_nothing())
            with self._access.read() as connection:
                found = connection.execute(one).scalar_one()
        return bytes(found)
