"""`podsim storage fail`: a storage system that loses servers."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown
from podsim.answers.storage import FailRow
from podsim.options.question import option, question
from podsim.options.storage_options import MountedOptions
from podsim.storage.catalog import load_storage
from podsim.storage.fail import fail_row
from podsim.storage.stripe import damage, net_capacity


@dataclass(frozen=True, kw_only=True)
class StorageFailOptions(MountedOptions):
    """Servers that fail."""

    servers: int = option(3, "Servers lost at once, at most.")
    fill: float = option(0.5, "Share of the net space in use, for the rebuild.")


@dataclass(frozen=True, kw_only=True)
class FailRun(Answer, view=View(rows="rows")):
    """Lost servers of a storage system, from none to the requested number."""

    system: str
    clients: int
    stripe: str
    """The stripe, as data + parity."""
    net: float = shown("net capacity")
    """B. The net capacity."""
    fill: float = shown("in use")
    """share. The share of the space in use."""
    rows: tuple[FailRow, ...]
    notes: tuple[str, ...]


@question(StorageFailOptions, status=lambda run: int(not run.rows[-1].reads))
def storage_fail(options: StorageFailOptions) -> FailRun:
    """Reads, writes and danger with none to `servers` servers lost at once, a share `fill` of the net space in use.

    Raises StorageError for more servers than there are, and for a system whose protection is not known.
    """
    system, clients = load_storage(options.on, options.overrides, client=options.client)
    damage(system, options.servers, fill=options.fill)
    rows = tuple(fail_row(system, clients, failed, options.fill) for failed in range(options.servers + 1))
    stripe = system.stripe
    return FailRun(
        system=system.name, clients=clients, stripe=f"{stripe.data}+{stripe.parity}" if stripe else "",
        net=net_capacity(system), fill=options.fill, rows=rows,
        notes=(
            "not measured anywhere: the law of podsim.storage.stripe, on what the servers were shown to do",
            "rebuilding takes the bandwidth that clients leave; its times are those of an otherwise idle system",
        ),
    )  # fmt: skip
