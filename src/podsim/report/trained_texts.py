"""What a training run says beyond its losses: accuracy before and after pruning, the gradient noise scale."""

from __future__ import annotations

from podsim.answers.trained import MeasuredTraining


def accuracy_text(run: MeasuredTraining) -> str:
    """The accuracy on a sample, before and after pruning."""
    shares = {name: f"{share:.2%}".replace("%", " %") for name, share in run.accuracy.items()}
    kept = (
        f"pruned 2:4 after step {run.prune_at}, {shares['kept']} of the magnitude kept"
        if "kept" in shares
        else ""
    )
    if "end" not in shares:
        return kept
    if "dense" not in shares:
        return f"accuracy {shares['end']}" + f"; {kept}" * bool(kept)
    points = 100 * (run.accuracy["end"] - run.accuracy["dense"])
    end = f"{shares['end']} after retraining ({points:+.2f} points)"
    return f"accuracy {shares['dense']} dense, {shares['pruned']} {kept}, {end}"
