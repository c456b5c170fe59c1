"""The site of a machine: its building, and its electricity."""

from __future__ import annotations

from math import isfinite

from podsim.errors import PlanError, raise_all
from podsim.fleet.power_catalog import figures
from podsim.records import dataclass

KWH = 3.6e6


@dataclass(frozen=True, kw_only=True)
class Site:
    """The site of a machine, with its prices."""

    pue: float
    carbon: float
    """The carbon intensity of electricity, in kg/J."""
    electricity: float
    """The price of electricity, in USD/J."""
    assumptions: tuple[str, ...]


def read_site(pue: float | None, carbon: float | None, electricity: float | None) -> Site:
    """The site from a user's values (kg and USD per kWh), with defaults of the catalog as stated assumptions.

    Raises PlanError with all impossible values.
    """
    default = {name: getattr(figures(), name) for name in ("pue", "carbon", "electricity")}
    given = {"pue": pue, "carbon": carbon, "electricity": electricity}
    bounds = {"pue": (1.0, 5.0, ""), "carbon": (0.0, 5.0, " kg/kWh"), "electricity": (0.0, 10.0, " USD/kWh")}
    wrong = [
        f"{name}={value:g}: a site has {bounds[name][0]:g} to {bounds[name][1]:g}{bounds[name][2]}"
        for name, value in given.items()
        if value is not None and not (isfinite(value) and bounds[name][0] <= value <= bounds[name][1])
    ]
    raise_all(wrong, PlanError)
    assumptions = [
        f"{name} {default[name].value:g}{bounds[name][2]}: {default[name].source} ({default[name].date})"
        for name, value in given.items()
        if value is None
    ]
    return Site(
        pue=default["pue"].value if pue is None else pue,
        carbon=(default["carbon"].value if carbon is None else carbon) / KWH,
        electricity=(default["electricity"].value if electricity is None else electricity) / KWH,
        assumptions=tuple(assumptions),
    )
