"""What a row of a table measured, in SI: only units are converted here, no law of the model is used."""

from __future__ import annotations

from collections.abc import Callable

from podsim.accuracy.columns import RATES
from podsim.accuracy.measured_tables import Row
from podsim.errors import TableError, unknown_name
from podsim.results.comparison import QUANTITIES, Measurement


def _scaled(column: str, factor: float) -> Callable[[Row], float | None]:
    """Reader of a column that is `factor` SI units a unit."""

    def read(row: Row) -> float | None:
        value = row.number(column)
        return None if value is None else value * factor

    return read


def _step_seconds(row: Row) -> float | None:
    """Seconds of a step: as the source gives them, or the tokens of a step over a rate of tokens."""
    given = row.number("step_time_s")
    batch, length = row.number("global_batch"), row.number("seq_len")
    if given is not None or not batch or not length:
        return given
    rate = row.number("tokens_per_s")
    if rate is None:
        each, gpus = row.number("tokens_per_s_per_gpu"), row.number("n_gpus")
        rate = each * gpus if each and gpus else None
    return batch * length / rate if rate else None


def _token_rate(row: Row) -> float | None:
    """Tokens per second and GPU."""
    each, rate, gpus = (row.number(name) for name in ("tokens_per_s_per_gpu", "tokens_per_s", "n_gpus"))
    return rate / gpus if each is None and rate and gpus else each


def _throughput(row: Row) -> float | None:
    """1/s of a throughput in the row's own unit; raises TableError on an unknown one."""
    value, unit = row.number("throughput"), row.text("unit")
    if value is None:
        return None
    if unit not in RATES:
        raise TableError(f"row {row.id}: {unknown_name('unit', unit, RATES)}")
    return value * RATES[unit]


def _collective_seconds(row: Row) -> float | None:
    """Seconds of a collective; from nccl-tests' algbw = size / time where no time was printed."""
    time, size, rate = row.number("time_us"), row.number("size_bytes"), row.number("algbw_GBps")
    if time is None and size and rate:
        return size / (rate * 1e9)
    return None if time is None else time * 1e-6


_READERS: dict[tuple[str, str], Callable[[Row], float | None]] = {
    ("llm", "seconds per step"): _step_seconds,
    ("llm", "tokens/s per GPU"): _token_rate,
    ("llm", "FLOP/s per GPU"): _scaled("tflops_per_gpu", 1e12),
    ("llm", "bytes"): _scaled("memory_gb", 1e9),
    ("vision", "samples/s"): _throughput,
    ("vision", "seconds"): _scaled("latency_ms", 1e-3),
    ("vision", "seconds to train"): _scaled("time_to_train_h", 3600.0),
    ("mlperf", "samples/s"): _scaled("throughput_samples_s", 1.0),
    ("mlperf", "seconds to train"): _scaled("minutes_score", 60.0),
    ("kernels", "seconds"): _scaled("latency_ms", 1e-3),
    ("kernels", "FLOP/s per GPU"): _scaled("tflops", 1e12),
    ("kernels", "B/s"): _scaled("bus_gb_per_s", 1e9),
    ("collectives", "seconds"): _collective_seconds,
    ("collectives", "B/s"): _scaled("busbw_GBps", 1e9),
}
_MACHINE = {
    "llm": ("n_gpus", "gpu", "node_type", "interconnect"),
    "vision": ("n_gpus", "gpu", "node_type"),
    "mlperf": ("n_accelerators", "accelerator", "system"),
    "kernels": ("gpu",),
    "collectives": ("gpus", "gpu", "system", "nics"),
}


def quantities(kind: str) -> tuple[str, ...]:
    """Quantities that rows of a kind can hold."""
    return tuple(what for name, what in _READERS if name == kind)


def measurement(row: Row, what: str) -> Measurement | None:
    """What the row measured of a quantity, in SI; None where its source did not give it.

    Raises TableError on a quantity that rows of this kind never hold.
    """
    reader = _READERS.get((row.kind, what))
    if reader is None:
        known = quantities(row.kind)
        kind = "quantity" if what not in QUANTITIES else f"quantity of a table of kind {row.kind!r}"
        raise TableError(unknown_name(kind, what, known))
    value = reader(row)
    if value is None:
        return None
    machine = " ".join(text for column in _MACHINE[row.kind] if (text := row.text(column)))
    return Measurement(id=row.id, what=what, value=value, source=row.source, role=row.role, machine=machine)
