"""Predictions for the rows of a table of any kind.

priced = price(load("torchtitan"))
priced.predictions["TT-0013"]        # s
priced.reasons                         # why podsim cannot predict the other rows
"""

from __future__ import annotations

from podsim.accuracy.score import Priced, compare_priced
from podsim.accuracy.tables import Rows
from podsim.answers.comparison import Comparison


def price(rows: Rows, *, cross_validate: bool = True) -> Priced:
    """Predictions of a table's own quantity (`rows.what`) for its rows.

    `cross_validate`: fits to the other folds (needs scipy) predict products on GPUs with many measured sizes, and
    all-reduces in a node of A100. If false, the packaged constants predict them, which were fitted to some of them.
    """
    if rows.kind == "llm":
        from podsim.accuracy.price_llm import price_llm

        return price_llm(rows)
    if rows.kind == "kernels":
        from podsim.accuracy.price_kernels import price_kernels

        return price_kernels(rows, cross_validate=cross_validate)
    if rows.kind == "engines":
        from podsim.accuracy.price_engines import price_engines

        return price_engines(rows)
    if rows.kind == "collectives":
        from podsim.accuracy.price_collectives import price_collectives

        return price_collectives(rows, cross_validate=cross_validate)
    if rows.kind in ("losses", "minutes", "convergence", "batch-steps", "formats") or (
        rows.kind,
        rows.what,
    ) == (
        "mlperf",
        "seconds to train",
    ):
        return _price_learning(rows)
    from podsim.accuracy.price_networks import price_networks

    return price_networks(rows)


def _price_learning(rows: Rows) -> Priced:
    """Predictions of what networks learn: losses, minutes, samples and steps to a target, results by number format."""
    if rows.kind == "batch-steps":
        from podsim.accuracy.price_batches import price_batches

        return price_batches(rows)
    if rows.kind == "formats":
        from podsim.accuracy.price_formats import price_formats

        return price_formats(rows)
    if rows.kind == "losses":
        from podsim.accuracy.price_losses import price_losses

        return price_losses(rows)
    from podsim.accuracy.price_minutes import price_convergence, price_minutes

    return price_convergence(rows) if rows.kind == "convergence" else price_minutes(rows)


def compare_rows(rows: Rows, *, cross_validate: bool = True) -> Comparison:
    """Comparison, with scores, of the rows of one table in its own quantity."""
    return compare_priced(rows, price(rows, cross_validate=cross_validate))
