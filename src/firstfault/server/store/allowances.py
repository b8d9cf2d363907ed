"""How much of a day's allowance is taken, by key (a digest or an id, never an address)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from sqlalchemy import select

from firstfault.server.store.access import Access
from firstfault.server.store.schema import allowances


class AllowanceSpentError(Exception):
    """Nothing is left of the day's allowance."""


class Allowances:
    """Counts what was taken a day; two that ask at once never both get the last one."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def take(self, keys: str | Sequence[str], day: date, limit: int | None) -> int | None:
        """Take one for every key; how many are left of the fuller one (None without a limit).

        AllowanceSpentError if a key has none left: then nothing is taken. Several keys stand for one person, who must not
        get more by dropping one of them.
        """
        if limit is None:
            return None
        left = limit
        with self._access.write() as connection:
            for key in sorted({keys} if isinstance(keys, str) else set(keys)):
                new = self._access.upsert(allowances).values(key=key, day=day.isoformat(), taken=1)
                row = new.on_conflict_do_update(
                    index_elements=[allowances.c.key, allowances.c.day], set_={"taken": allowances.c.taken + 1}
                )
                taken = connection.execute(row.returning(allowances.c.taken)).scalar_one()
                if taken > limit:
                    # To raise undoes the transaction.
                    raise AllowanceSpentError(f"the allowance of {limit} a day is spent")
                left = min(left, limit - taken)
        return left

    def left(self, keys: str | Sequence[str], day: date, limit: int | None) -> int | None:
        """How many are left (None without a limit)."""
        if limit is None:
            return None
        wanted = {keys} if isinstance(keys, str) else set(keys)
        with self._access.read() as connection:
            found = select(allowances.c.taken).where(allowances.c.key.in_(wanted), allowances.c.day == day.isoformat())
            taken = max(connection.execute(found).scalars(), default=0)
        return max(limit - taken, 0)
