"""Tables for `podsim collective`: by the name of an algorithm, from a user's file, or all of a collective."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from math import log2
from typing import Any

from podsim.errors import PodsimError, TableError, unknown_name
from podsim.foreign_files import read_text
from podsim.network.collectives import ALGORITHMS, Table, hierarchical, prove, rings, tori

MOST_TRANSFERS = 4_000_000
"""rows of a table that are built for a comparison"""
_MOST_ASKED = 16_000_000
"""rows of a table that is asked for by name: some 8 GB"""
_MOST_TEXT = 64 << 20
"""characters of a user's file"""
_SMALL = (128, 256)
"""The numbers of ranks whose tables serve to estimate larger ones."""


def _server_builders() -> dict[str, Callable[[int, int], Table]]:
    """Algorithms that know servers: (servers, ranks in each) to table."""
    return {
        "multi-ring": lambda nodes, local: rings.multi_ring_all_reduce(rings.rail_orders(nodes, local)),
        "hierarchical": hierarchical.hierarchical_all_reduce,
        "server ring": hierarchical.server_ring_all_reduce,
        "hierarchical all-to-all": hierarchical.hierarchical_all_to_all,
    }


ON_TORI: dict[str, Callable[[tori.Axes], Table]] = {
    "torus": tori.torus_all_reduce,
    "torus reduce-scatter": tori.torus_reduce_scatter,
    "torus all-gather": tori.torus_all_gather,
    "torus all-to-all": tori.torus_all_to_all,
}
"""Algorithms that know a torus, which only slices of one have."""


def _builders(collective: str, axes: tori.Axes | None) -> dict[str, Callable[[int], Table]]:
    return {
        algorithm.name: algorithm.build
        for algorithm in ALGORITHMS
        if algorithm.collective == collective and (axes is not None or algorithm.name not in ON_TORI)
    }


def _estimated_size(name: str, build: Callable[[int], Table], ranks: int) -> float:
    """Rows or chunks of the table for a number of ranks, to two digits, extrapolated without building it."""
    if ranks <= _SMALL[1]:
        return 0.0
    tables = [build(count) for count in _SMALL]
    rows = [max(len(table.step), table.chunks) for table in tables]
    power = log2(rows[1] / rows[0])
    return float(f"{rows[1] * (ranks / _SMALL[1]) ** power:.2g}")


def _build(name: str, build: Callable[[int], Table], nodes: int, local: int, axes: tori.Axes | None) -> Table:
    if axes is not None and name in ON_TORI:
        return ON_TORI[name](axes)
    servers = _server_builders().get(name)
    return replace(servers(nodes, local) if servers else build(nodes * local), name=name)


def all_tables(
    collective: str, nodes: int, local: int, axes: tori.Axes | None = None
) -> tuple[list[Table], dict[str, str]]:
    """(a table of each algorithm, those left out and why); `axes`: those of the torus that joins the ranks."""
    tables, left_out = [], {}
    for name, build in _builders(collective, axes).items():
        size = _estimated_size(name, build, nodes * local)
        if size > MOST_TRANSFERS:
            left_out[name] = (
                f"about {size:,.0f} rows for {nodes * local:,} ranks; up to {MOST_TRANSFERS:,} are compared"
            )
        else:
            tables.append(_build(name, build, nodes, local, axes))
    return tables, left_out


def table_of(
    algo: str | Table, collective: str, nodes: int, local: int, axes: tori.Axes | None = None
) -> Table:
    """The table of an algorithm by name ("ring", "double-tree"), of a file, or given; a user's table is proved first.

    A file is FILE.py:FUNCTION, a function of the number of ranks. Raises PodsimError for an unknown name, naming all,
    and TableError for a table that does not do what its collective promises.
    """
    if not isinstance(algo, str):
        return _check_proof(algo, collective, nodes * local)
    if ".py:" in algo:
        return _check_proof(_read_python(algo, nodes * local), collective, nodes * local)
    known = _builders(collective, axes)
    wanted = re.sub(r"[-_\s]+", " ", algo.strip().lower())
    for name, build in known.items():
        plain = name.replace("-", " ")
        if wanted in (plain, plain.removesuffix(collective.replace("-", " ")).strip()):
            size = _estimated_size(name, build, nodes * local)
            if size > _MOST_ASKED:
                raise PodsimError(
                    f"algorithm {name!r} over {nodes * local:,} ranks has about {size:,.0f} rows; at most "
                    f"{_MOST_ASKED:,} are built: take fewer --ranks"
                )
            return _build(name, build, nodes, local, axes)
    if axes is None and wanted in {"torus", *(name.replace("-", " ") for name in ON_TORI)}:
        raise PodsimError(
            f"algorithm {wanted!r} goes along the axes of a torus, and none joins these ranks; take another one or a "
            "slice of TPUs, as --on v5e-16"
        )
    raise PodsimError(
        f"{unknown_name(f'algorithm of {collective}', algo[:80], ('nccl', *known))}; "
        "FILE.py:FUNCTION is read, too"
    )


def _read_python(reference: str, ranks: int) -> Table:
    """The table of a user's function for the number of ranks."""
    path, _, function = reference.rpartition(":")
    names: dict[str, Any] = {"__name__": "podsim_user_table", "__file__": path}
    source = read_text(path, most=_MOST_TEXT, error=TableError, is_lenient=True)
    try:
        exec(compile(source, path, "exec"), names)
        build = names.get(function)
        made = build(ranks) if callable(build) else None
    except PodsimError:
        raise
    except Exception as error:  # a user's file may raise anything; what it is goes into the message
        raise TableError(f"{reference[-200:]}: {type(error).__name__}: {error}") from None

    if not isinstance(made, Table):
        fault = f"returns {type(made).__name__}" if callable(build) else "is no function of that file"
        raise TableError(
            f"{reference[-200:]}: {function} {fault}; it must return a podsim.network.collectives.Table"
        )
    return made


def _check_proof(table: Table, collective: str, ranks: int) -> Table:
    if (table.collective, table.ranks) != (collective, ranks):
        raise TableError(
            f"{table.name}: a table of {table.collective} over {table.ranks} ranks; asked for is {collective} "
            f"over {ranks}"
        )
    prove(table)
    return table
