"""Where a rule stops holding, by bisection: the largest batch in time, the most streams, the largest rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from podsim.answers.served import ServedBatch


def largest_number(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The largest whole number up to `high` for which a rule holds that stops holding at some number.

    It is taken to hold at `low`, which is not tried.
    """
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def largest_value(holds: Callable[[float], bool], most: float, steps: int) -> float:
    """The largest value up to `most` for which such a rule holds, or a little less.

    steps: halvings of the interval. Where the rule holds for no value that is tried, the least of them.
    """
    low, high = 0.0, most
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low or high


def best_batch(
    rows: Sequence[ServedBatch], row_of: Callable[[int], ServedBatch], largest: int, *, is_limited: bool
) -> ServedBatch | None:
    """The batch with the greatest throughput among those that fit and are in time; None where none is.

    is_limited: whether there is a limit of the latency; then the largest batch in time is sought between the rows, too,
    as larger ones take longer. largest: the largest batch that fits.
    """

    def is_usable(row: ServedBatch) -> bool:
        return row.fits and row.in_time

    usable = [row for row in rows if is_usable(row)]
    if is_limited and usable:
        most = min(max(row.batch for row in rows), largest)
        last = largest_number(lambda batch: is_usable(row_of(batch)), usable[-1].batch, most)
        usable.append(row_of(last))
    return max(usable, key=lambda row: row.throughput, default=None)
