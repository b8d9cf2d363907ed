"""What handlers are given by name: `services` and `principal`."""

from __future__ import annotations

from litestar.di import NamedDependency

from firstfault.server.records import Principal
from firstfault.server.services import Services

GivenServices = NamedDependency[Services]
GivenPrincipal = NamedDependency[Principal]
