"""Flows over links with max-min shares: against SimGrid, on the same links, routes, bytes and dependencies."""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
from made_fabrics import leaf_spine, single_switch
from peer import HERE, about, run, seconds_of

from podsim.axes import Floats, Ints
from podsim.hardware.cluster import load_cluster
from podsim.hardware.fabrics import fabric_of
from podsim.network.collectives.direct import direct_all_to_all
from podsim.network.collectives.hierarchical import hierarchical_all_reduce
from podsim.network.collectives.rings import ring_all_reduce
from podsim.network.collectives.table import Table, expand, make_table, row_share
from podsim.network.collectives.trees import double_tree_all_reduce
from podsim.network.play import play, prepare
from podsim.network.play_links import Fabric, make_links

SIZE = 2.0**30
SETTINGS = (
    "--cfg=network/model:CM02", "--cfg=network/crosstraffic:0", "--cfg=maxmin/precision:1e-9",
    "--cfg=surf/precision:1e-12", "--log=root.thres:critical",
)  # fmt: skip


def _cases() -> dict[str, tuple[Table, Fabric]]:
    draws = np.random.default_rng(1)
    routes = np.stack([draws.choice(250, 4, replace=False) for _ in range(500)])
    ends = np.arange(500)
    spray = make_table(
        "spray", "send-recv", {"step": 0, "source": ends, "destination": 500 + ends, "chunk": ends, "own": True},
        ranks=1000, chunks=500, home=ends, goal=500 + ends, sizes=draws.integers(1, 1024, 500) / 1024,
    )  # fmt: skip
    links = make_links(np.rint(draws.uniform(1e9, 2e9, 250)), 0.0, lambda source, _: routes[source])
    tapered = {"inside": 300e9, "outside": 25e9, "taper": 0.5}
    pods = {nodes: fabric_of(load_cluster(f"dgx-a100-80gb:{nodes}")) for nodes in (16, 64)}
    return {
        "ring, 512 on one switch": (ring_all_reduce(512), single_switch(512, 25e9)),
        "ring in random order, 256, half the uplinks": (
            ring_all_reduce(256, draws.permutation(256)), leaf_spine(nodes=256, leaf=32, uplinks=8, **tapered),
        ),
        "hierarchical, 16 DGX A100": (hierarchical_all_reduce(16, 8), pods[16]),
        "hierarchical, 64 DGX A100": (hierarchical_all_reduce(64, 8), pods[64]),
        "double tree of 8 pieces, 64 DGX A100": (double_tree_all_reduce(512, 8), pods[64]),
        "all-to-all, 16 servers, half the uplinks": (
            direct_all_to_all(128), leaf_spine(nodes=16, local=8, leaf=4, **tapered),
        ),
        "500 flows at random on 250 links": (spray, links),
    }  # fmt: skip


def _written_out(full: Table, fabric: Fabric) -> str:
    """The links, lanes and flows of a table without trains, as simgrid_flows.cpp reads them."""
    shares = SIZE * row_share(full, np.arange(len(full.step)), np.zeros(len(full.step), np.int64))
    sizes = np.rint(shares).astype(int)
    assert np.array_equal(sizes, shares), "SimGrid's transfers are whole bytes"
    ends, lane = np.unique(np.stack([full.source, full.destination]), axis=1, return_inverse=True)
    indptr, links = fabric.routes(*ends)
    lines = [" ".join(map(repr, [len(fabric.capacity), *fabric.capacity.tolist()])), str(len(ends.T))]
    for (source, destination), first, last in zip(ends.T, indptr[:-1], indptr[1:], strict=True):
        lines.append(f"{source} {destination} {last - first} {' '.join(map(str, links[first:last]))}")
    waits = _waits(full, lane)
    lines.append(str(len(waits)))
    for i, before in enumerate(waits):
        lines.append(f"{lane[i]} {sizes[i]} {len(before)} {' '.join(map(str, before))}")
    return "\n".join(lines)


def _waits(full: Table, lane: Ints) -> list[set[int]]:
    """The transfers that each waits for: all that wrote what it sends, and the one before it on its lane and channel."""
    writers: dict[tuple[int, int], set[int]] = defaultdict(set)
    sent: dict[tuple[int, int], int] = {}
    waits, arriving, step = [], [], 0
    columns = (full.step, full.source, full.destination, full.chunk, full.count, full.own, full.channel, lane)
    for i, (now, source, destination, chunk, count, own, channel, way) in enumerate(
        zip(*(column.tolist() for column in columns), strict=True)
    ):
        if now != step:  # what was sent in a step is there when the next begins
            for place, writer in arriving:
                writers[place].add(writer)
            arriving, step = [], now
        before = set() if own else set().union(*(writers[source, c] for c in range(chunk, chunk + count)))
        if (way, channel) in sent:
            before.add(sent[way, channel])
        sent[way, channel] = i
        arriving += [((destination, c), i) for c in range(chunk, chunk + count)]
        waits.append(before)
    return waits


def _built(work: Path) -> tuple[Path, Path, str]:
    """(the program, the folder of SimGrid's libraries, its version), from Debian's packages."""
    folder = work / "simgrid"
    (folder / "partial").mkdir(parents=True, exist_ok=True)
    run(
        "apt-get", "-q", "-y", "-o", "Debug::NoLocking=1", "-o", f"Dir::Cache::archives={folder}",
        "--no-install-recommends", "--download-only", "--reinstall", "install", "libsimgrid-dev",
    )  # fmt: skip
    for package in folder.glob("*.deb"):
        run("dpkg-deb", "-x", package, folder / "root")
    [library] = (folder / "root").rglob("libsimgrid.so")
    program, headers = folder / "simgrid_flows", folder / "root" / "usr" / "include"
    run(
        "g++", "-O2", "-std=c++17", f"-I{headers}", HERE / "simgrid_flows.cpp", "-o", program, f"-L{library.parent}",
        "-lsimgrid", f"-Wl,-rpath-link,{library.parent}",
    )  # fmt: skip
    return program, library.parent, library.resolve().name.removeprefix("libsimgrid.so.")


def _simgrid(program: Path, libraries: Path, given: str) -> tuple[float, Floats]:
    """(s of the processor, the median of three runs; the end of each flow, s)."""
    environment = os.environ | {"LD_LIBRARY_PATH": str(libraries)}
    said = [run(program, *SETTINGS, input=given, env=environment).split() for _ in range(3)]
    return statistics.median(float(words[0]) for words in said), np.array(said[0][1:], float)


def against_simgrid(work: Path) -> str:
    """The part of the report on SimGrid."""
    program, libraries, version = _built(work)
    text, ratios = about("simgrid", version=version), []
    for name, (table, fabric) in _cases().items():
        still = replace(fabric, latency=np.zeros(len(fabric.capacity)))
        full, _ = expand(table)
        peer, ends = _simgrid(program, libraries, _written_out(full, still))
        finish = np.zeros(table.ranks)
        np.maximum.at(finish, full.destination, ends)
        np.maximum.at(finish, full.source, ends)
        own, prepared = play(table, SIZE, still), prepare(table, still)
        draws = np.random.default_rng(0).uniform(1 - 1e-15, 1 + 1e-15, len(still.capacity))
        moved = play(table, SIZE, replace(still, capacity=still.capacity * draws))
        apart = [np.abs(other - own.finish).max() / own.seconds for other in (finish, moved.finish)]
        clocks = seconds_of(play, table, SIZE, still), seconds_of(play, prepared, SIZE)
        ratios.append([peer / clock for clock in clocks])
        text += (
            f"| {name} | {len(ends):,} | {abs(finish.max() / own.seconds - 1):.1g} | {apart[0]:.1g} | {apart[1]:.1g} | "
            f"{1e3 * peer:,.3g} ms | {1e3 * clocks[0]:.3g} ms | {1e3 * clocks[1]:.3g} ms | "
            f"{ratios[-1][0]:.3g} | {ratios[-1][1]:.3g} |\n"
        )
    medians = [statistics.median(column) for column in zip(*ratios, strict=True)]
    return text + f"\nMedian ratios: {medians[0]:.3g} for all of it, {medians[1]:.3g} for the simulation.\n"
