"""What `podsim measure collective` is asked for, as a job of ranks."""

from __future__ import annotations

import os

from podsim.errors import LabError, PodsimError, raise_all
from podsim.lab.emulated_links import emulated_links
from podsim.lab.library import LIBRARY
from podsim.lab.measured_collectives import Job
from podsim.lab.options import unknown_backend, wrong_ranks
from podsim.lab.ranks import MOST_RANKS, Place
from podsim.lab.usage import cores
from podsim.lab.wires import gpus_here
from podsim.network.bus import bus_factor
from podsim.network.collectives import Table
from podsim.network.collectives.algorithms import servers
from podsim.network.collectives.lookup import all_tables, table_of
from podsim.network.sizes import DIVIDED, ELEMENT, collective_name, read_sizes
from podsim.options.measure_options import MeasureCollectiveOptions
from podsim.options.question import options_of

_SIZES = options_of(MeasureCollectiveOptions)["sizes"].default


def collective_job(options: MeasureCollectiveOptions, place: Place | None) -> Job:
    """What is to be run; all that is wrong with the numbers in one PodsimError."""
    name, backend = collective_name(options.collective), options.backend
    world, each = ranks_of(place, options.ranks, options.local)
    wrong = [
        f"--{key} {value:g}; it must be at least {least:g}"
        for key, least in (("iters", 1), ("warmup", 1), ("limit", 0.001), ("timeout", 1))
        if not (value := getattr(options, key)) >= least
    ]
    wrong += unknown_backend(backend)
    raise_all(wrong)
    tables, library, left_out = _chosen(options.algo, name, world, each)
    tables = _with_room(tables, left_out, world, place, backend)
    if library and name not in LIBRARY:
        library, left_out["library"] = False, f"PyTorch's {name} is not run; {', '.join(LIBRARY)} are"
    if not tables and not library:
        raise PodsimError("; ".join(f"{left}: {why}" for left, why in left_out.items()))
    return Job(
        collective=name, ranks=world, local=each, tables=tables, library=library,
        sizes=_sizes(options.sizes, name, world), iterations=options.iters, warmup=options.warmup,
        limit=options.limit, in_place=options.in_place, apart=options.apart, timeout=options.timeout,
        backend=backend, emulated=emulated_links(os.environ), left_out=left_out,
        factors=_factors(name, world),
    )  # fmt: skip


def ranks_of(place: Place | None, ranks: int | None, local: int | None) -> tuple[int, int]:
    """(ranks, ranks of a server)."""
    started = place.world if place is not None else None
    world = ranks if ranks is not None else started or usual_ranks()
    if wrong := wrong_ranks(world, started):
        raise PodsimError(*wrong)
    default = place.local if place is not None else servers(world)[1]
    each = default if local is None else local
    if each < 1 or world % each:
        raise PodsimError(f"--local {each} does not divide {world} ranks into equal servers")
    return world, each


def usual_ranks() -> int:
    """Ranks that are forked by default: one a core, from two to the eight of a server."""
    return min(max(cores(), 2), 8)


def _sizes(text: str, name: str, ranks: int) -> tuple[int, ...]:
    """The sizes in B. Default sizes are rounded down to what the ranks can divide equally."""
    if text != _SIZES or name not in DIVIDED:
        return read_sizes(text, name, ranks)
    part = ELEMENT * ranks
    return tuple(size - size % part for size in read_sizes(text, "all-reduce", ranks))


def _with_room(
    tables: tuple[Table, ...], left_out: dict[str, str], ranks: int, place: Place | None, backend: str
) -> tuple[Table, ...]:
    """The tables whose switches get a process, and, over NCCL, a GPU; why not of the others goes into `left_out`.

    Raises LabError for NCCL without a GPU for each rank.
    """
    most, why = 0, "its switch needs a process of its own, which only ranks forked by podsim get"
    if place is None and (backend == "nccl" or any(table.switches for table in tables)):
        gpus = gpus_here() if backend != "gloo" else 0
        most, why = MOST_RANKS, f"its switch needs a process of its own; at most {MOST_RANKS} are forked"
        if backend == "nccl" and gpus < ranks:
            raise LabError(
                f"--backend nccl needs a GPU for each of {ranks} ranks; this machine has {gpus}: take gloo"
            )
        if gpus >= ranks:
            most, why = gpus, f"its switch needs a GPU of its own; there are {gpus}: --backend gloo runs it"
    left_out |= {table.name: why for table in tables if table.switches and table.nodes > most}
    return tuple(table for table in tables if table.name not in left_out)


def _chosen(algo: str, name: str, ranks: int, local: int) -> tuple[tuple[Table, ...], bool, dict[str, str]]:
    """(tables, whether the library's own is run, what is left out and why)."""
    wanted = [word.strip() for word in algo.split(",") if word.strip()]
    if not wanted:
        raise PodsimError("--algo is empty; give all, library, or names such as ring,tree")
    tables: dict[str, Table] = {}
    left_out: dict[str, str] = {}
    for word in wanted:
        if word == "all":
            available, out = all_tables(name, ranks // local, local)
            tables |= {table.name: table for table in available}
            left_out |= out
        elif word == "nccl":
            raise PodsimError(
                "--algo nccl: what the library itself does, NCCL on GPUs, is called library here"
            )
        elif word != "library":
            table = table_of(word, name, ranks // local, local)
            tables[table.name] = table
    return tuple(tables.values()), bool({"all", "library"} & set(wanted)), left_out


def sum_table(all_reduce: str, nodes: int, local: int) -> Table | None:
    """The table of an all-reduce that ranks run among themselves; None for the library's own.

    Raises LabError for one that needs a switch, and PodsimError for an unknown one.
    """
    if all_reduce == "library":
        return None
    table = table_of(all_reduce, "all-reduce", nodes, local)
    if table.switches:
        raise LabError(f"{table.name}: its switch needs a process of its own, and all of these have work")
    return table


def _factors(name: str, ranks: int) -> dict[str, float]:
    """What nccl-tests makes of a size: the factor of the bus bandwidth, and into how many parts it counts it."""
    return {"bus": float(bus_factor(name, ranks)), "parts": float(ranks) if name in DIVIDED else 1.0}
