"""How many diagnoses a principal has left today, and how fast he may ask."""

from __future__ import annotations

from datetime import UTC, datetime

from firstfault.server.accounts.throttle import Throttle
from firstfault.server.records import Principal
from firstfault.server.services import Services
from firstfault.server.settings import Settings, Tier

UNLIMITED = Tier(diagnoses_a_day=None, submission_bytes=64 << 20, requests_a_minute=1_000_000)


def tier_of(principal: Principal, settings: Settings) -> Tier:
    """What the principal's tier allows; everything on a private console."""
    if settings.private:
        return UNLIMITED
    return settings.tiers.get(principal.tier) or settings.tiers.get(settings.new_accounts_are) or Tier()


def take_one(principal: Principal, address: str, services: Services) -> int | None:
    """Take one diagnosis of today's; how many are left (None: without limit). AllowanceSpentError if there is none."""
    keys, today = _keys(principal, address), datetime.now(UTC).date()
    return services.store.allowances.take(keys, today, tier_of(principal, services.settings).diagnoses_a_day)


def left(principal: Principal, address: str, services: Services) -> int | None:
    """How many diagnoses are left today (None: without limit)."""
    keys, today = _keys(principal, address), datetime.now(UTC).date()
    return services.store.allowances.left(keys, today, tier_of(principal, services.settings).diagnoses_a_day)


def _keys(principal: Principal, address: str) -> list[str]:
    if principal.account_id is not None:
        return [f"account:{principal.account_id}"]
    if principal.owner.kind != "anonymous":
        return [f"{principal.owner.kind}:{principal.owner.id}"]
    # Who throws his cookie away is still at the same address.
    return [f"guest:{principal.owner.id}", f"address:{address}"]


class Rates:
    """Requests a minute by principal, each tier with its own rate."""

    def __init__(self) -> None:
        self._by_rate: dict[int, Throttle] = {}

    def take(self, principal: Principal, address: str, settings: Settings) -> None:
        """Count a request; ThrottledError for one too many."""
        if settings.private:
            return
        rate = tier_of(principal, settings).requests_a_minute
        throttle = self._by_rate.setdefault(rate, Throttle(per_minute=rate, burst=rate))
        throttle.take(address if principal.owner.kind == "anonymous" else f"{principal.owner.kind}:{principal.owner.id}")
