"""What the lab measured, and predictions next to it: a host, collectives, checkpoints, loaders, training runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from podsim.answers.host import MeasuredHost, MeasuredKernel
from podsim.answers.lab import ComparedCollectives, MeasuredRanks
from podsim.answers.lab_storage import (
    ComparedStorage,
    MeasuredCheckpoint,
    MeasuredCheckpoints,
    MeasuredLoader,
)
from podsim.report.columns import Column, Table, percent, quantity_text, signed_percent, size_text
from podsim.report.screen import Block, Paragraph, Rows
from podsim.units import format_quantity, short_seconds

_DISK = {
    "read": "B/s", "write": "B/s", "read_operations": "1/s", "write_operations": "1/s", "read_latency": "s",
    "write_latency": "s",
}  # fmt: skip
_STORAGE_KINDS = ("compute", "write", "read", "wait", "processor", "rest")
"""parts of a prediction of storage, in their order"""
_FLOPS = {"product": 2.0, "linear": 6.0}
"""FLOP for each element of a product's three sides: once, or forward and backward"""
_PAIRS = Table(indent=0, columns=(Column("", "0"), Column("", "1", align="r")))
_bytes_text = partial(format_quantity, unit="B")
_speed = partial(format_quantity, unit="B/s", digits=3)


def _cores(row: Any) -> float:
    """Share of the processors that ranks and other programs used."""
    return float(row.cpu + row.others)


def host_report(host: MeasuredHost) -> Iterator[Block]:
    """The speed of one rank, of exchanges between ranks, and of the disk."""
    yield f"{host.name}: {host.ranks} ranks on {host.device}, {host.cores} cores; {host.software}, {host.started}"
    yield f"each figure is of one rank while all {host.ranks} are busy; {host.seconds:.0f} s in all"
    yield from ("", Rows(_PAIRS, list(_host_rows(host))), "", Rows(_kernels_table(), host.kernels), "")
    yield _sends(host)
    if host.runtime:
        columns = (Column("PyTorch's own, in a small step", "0"), Column("time", "1", short_seconds))
        yield from ("", Rows(Table(indent=0, columns=columns), list(host.runtime.items())))
    yield ""
    yield (
        f"Mean error of the fitted law over linear layers: {percent(host.error)}; other programs used"
        f" {percent(host.others)} of the processors."
    )
    yield from host.notes


def ranks_report(run: MeasuredRanks) -> Iterator[Block]:
    """Products of each rank, and the bandwidth to its peers."""
    yield f"{len(run.hosts)} ranks, {run.backend}, {run.software}, {run.started}; {_bytes_text(run.size)} messages"
    rows = [
        (rank, host, product, [row.bandwidth for row in run.rows if rank in (row.source, row.destination)])
        for rank, (host, product) in enumerate(zip(run.hosts, run.products, strict=True))
    ]
    columns = (
        Column("rank", "0", ":d"), Column("host", "1"),
        Column("products", "2", partial(format_quantity, unit="FLOP/s", digits=3)),
        Column("slowest pair", lambda row: _speed(min(row[3])), align="r"),
        Column("fastest pair", lambda row: _speed(max(row[3])), align="r"),
    )  # fmt: skip
    yield from ("", Rows(Table(columns=columns), rows))


def _host_rows(host: MeasuredHost) -> Iterator[tuple[str, str]]:
    for precision, peak in host.peaks.items():
        yield f"best product, {precision}", format_quantity(peak, "FLOP/s")
    yield "best stream", format_quantity(host.memory_bandwidth, "B/s")
    yield "kernel that does nothing", format_quantity(host.launch, "s")
    yield "rank to rank", format_quantity(host.link, "B/s")
    yield "4 KiB from rank to rank", format_quantity(host.link_latency, "s")
    if host.images is not None:
        yield "ResNet-50, small images", quantity_text(host.images, "1/s")
    for name, unit in _DISK.items():
        if name in host.disk:
            yield f"disk, {name.replace('_', ' ')}", quantity_text(host.disk[name], unit)
    yield from ((name, quantity_text(rate, "1/s")) for name, rate in host.names.items())


def _kernels_table() -> Table:
    return Table(
        indent=0,
        columns=(
            Column("kernel", "name"),
            Column("type", "precision"),
            Column("shape", lambda row: " x ".join(map(str, row.shape)), align="r"),
            Column("time", "seconds", "s"),
            Column("rate", _kernel_rate, align="r"),
            Column(
                "law",
                lambda row: row.predicted / row.seconds - 1 if row.predicted else None,
                ":+.0%",
                missing="-",
            ),
        ),
    )


def _kernel_rate(row: MeasuredKernel) -> str:
    if row.name in _FLOPS:
        m, n, k = row.shape
        return format_quantity(_FLOPS[row.name] * m * n * k / row.seconds, "FLOP/s")
    return format_quantity(12.0 * row.shape[0] / row.seconds, "B/s") if row.name == "stream" else "-"


def _sends(host: MeasuredHost) -> Block:
    """A line for each collective and number of ranks, a column for each size."""
    if not host.sends:
        return "one rank exchanges nothing"
    times: dict[tuple[str, int], dict[str, float]] = {}
    for row in host.sends:
        times.setdefault((row.collective.replace("_", "-"), row.ranks), {})[f"{row.size:.0f}"] = row.seconds
    sizes = sorted({row.size for row in host.sends})
    columns = (
        Column("exchange", "0"),
        Column("ranks", "1", ":d"),
        *(Column(size_text(size), f"2.{size:.0f}", short_seconds, missing="-") for size in sizes),
    )
    return Rows(Table(indent=0, columns=columns), [(*key, seconds) for key, seconds in times.items()])


def collectives_report(compared: ComparedCollectives) -> Iterator[Block]:
    """A run of collectives next to its predictions, and the parts of each difference."""
    yield f"{compared.collective} over {compared.ranks} ranks, {compared.run}"
    yield Paragraph(f"measured on {compared.machine}", indent="  ")
    yield Paragraph(f"predicted for {compared.cluster}", indent="  ")
    kinds = list(dict.fromkeys(kind for row in compared.rows for kind in row.parts))
    first = (Column("algorithm"), Column("size", "", size_text, align="l"))
    yield from ("", Rows(_compared_table(first, kinds), compared.rows), "", errors_line(compared))
    if not compared.apart:
        yield (
            "Calls were made one after the other, so that one may have begun before the last had ended everywhere; a "
            "prediction is of one call: measure with --apart."
        )
    yield from _omissions("Not predicted", compared.not_predicted)


def _compared_table(first: tuple[Column, ...], kinds: Sequence[str], *more: Column) -> Table:
    """Measured and predicted times, the parts of the prediction, and whether a row can be compared."""
    return Table(
        indent=0,
        columns=(
            *first,
            Column("measured", "", short_seconds),
            Column("predicted", "", short_seconds),
            Column("off by", "difference", signed_percent),
            *(Column(kind, f"parts.{kind}", short_seconds) for kind in kinds),
            *more,
            Column("cores", _cores, percent),
            Column("", lambda row: "" if row.verdict == "comparable" else row.verdict),
        ),
    )


def _omissions(what: str, reasons: Mapping[str, str]) -> Iterator[Block]:
    return (Paragraph(f"{what}: {name}: {why}", indent="  ", first="") for name, why in reasons.items())


def errors_line(compared: ComparedCollectives | ComparedStorage) -> str:
    """The errors of the rows that can be compared."""
    if compared.mean is None or compared.worst is None:
        return "no row can be compared"
    return f"mean {percent(compared.mean)}, worst {percent(compared.worst)} of the rows that can be compared"


def checkpoints_report(run: MeasuredCheckpoints) -> Iterator[Block]:
    """Checkpoints as they were measured."""
    yield (
        f"Checkpoints of {_bytes_text(run.size)} by {run.count} ranks to {run.place} ({run.filesystem}), "
        f"{run.rows[0].repeats} times; {run.writer}, {_bytes_text(run.block)} at once"
    )
    each = run.size / run.count
    columns = (
        Column("", "operation"),
        Column("data", "state"),
        Column("median", "seconds", short_seconds),
        Column("fastest", "", short_seconds),
        Column("slowest", "", short_seconds),
        Column("in all", "bandwidth", _speed),
        Column("a rank", lambda row: each / max(sorted(row.ranks)[len(row.ranks) // 2], 1e-9), _speed),
        Column("slowest rank", lambda row: each / max(*row.ranks, 1e-9), _speed),
        Column("from drives", "from_drive", percent),
        Column("cores", _cores, percent),
    )
    yield from ("", Rows(Table(indent=0, columns=columns), run.rows), "")
    cached = [row.from_drive for row in run.rows if _is_cached(row)]
    if cached:
        yield (
            f"No drive gave the bytes read back ({percent(cached[0])}): {run.filesystem} keeps files in memory, or on "
            "another machine."
        )
    if any(row.operation == "read" for row in run.rows):
        wrong = sum(row.wrong for row in run.rows)
        yield f"{wrong} ranks READ BACK OTHER BYTES" if wrong else "what was read back is what was written"
    yield from _omissions("Not done", run.left_out)


def _is_cached(row: MeasuredCheckpoint) -> bool:
    return row.state == "drive" and row.from_drive is not None and row.from_drive < 0.5


def loader_report(run: MeasuredLoader) -> Iterator[Block]:
    """Epochs as they were measured."""
    cache = f"fsspec's {run.cache_kind} cache in {run.cache_folder}"
    yield (
        f"{run.samples:,} samples, {_bytes_text(run.size)}, from {run.source} ({run.filesystem}); "
        f"{'no cache' if run.cache_kind == 'none' else cache}; {run.workers} workers, batches of {run.batch}; "
        f"{run.consumer}; page cache {run.page_cache}"
    )
    columns = (
        Column("epoch", lambda row: f"{row.epoch + 1}" + ("" if row.whole else " (part)"), align="r"),
        Column("time", "seconds", short_seconds),
        Column("samples/s", "rate", ":,.1f"),
        Column("B/s", "bandwidth", _speed),
        Column("utilisation", "", percent),
        Column("waited", lambda row: row.waited / row.seconds, percent),
        Column("from the store", "store", "B"),
        Column("from the cache", "cache", "B"),
        Column("from drives", "drive", "B"),
        Column("cores", _cores, percent),
    )
    yield from ("", Rows(Table(indent=0, columns=columns), run.rows), "")
    first, *later = [row.rate for row in run.rows if row.whole] or [0.0]
    if later:
        yield f"later epochs run at {sum(later) / len(later) / first:.2f} times the rate of the first"
    if run.stopped:
        yield "interrupted: this is what was measured until then"


def storage_report(compared: ComparedStorage) -> Iterator[Block]:
    """A run of checkpoints or of a loader next to its predictions."""
    cache = f", its cache as {compared.cache}" if compared.cache else ""
    yield f"{compared.what}, {compared.run}"
    yield Paragraph(f"measured on {compared.machine}", indent="  ")
    yield Paragraph(f"predicted for {compared.system}{cache}", indent="  ")
    kinds = [kind for kind in _STORAGE_KINDS if any(kind in row.parts for row in compared.rows)]
    table = _compared_table((Column("", "row"),), kinds, Column("limit"))
    yield from ("", Rows(table, compared.rows), "", errors_line(compared))
    yield from compared.notes
