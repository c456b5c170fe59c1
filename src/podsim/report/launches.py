"""What a launch file says, for a terminal; and notes beside one that is written."""

from __future__ import annotations

import sys

from podsim.report.predictions import layout, prediction_report
from podsim.report.screen import show
from podsim.report.table import console, paragraph
from podsim.results.launched import PlanRead, Recipe


def print_recipe(recipe: Recipe) -> None:
    """Print the text itself, so that it can be piped to where it is run; notes go to standard error."""
    sys.stdout.write(recipe.text)
    for note in recipe.notes:
        sys.stderr.write(f"podsim: note: {note}\n")


def print_read(found: PlanRead) -> None:
    """Print a plan that was read, what was ignored and assumed, and its prediction if there is one."""
    from rich.text import Text

    out = console()

    def say(text: str, style: str = "") -> None:
        for line in paragraph(text, out.width, indent="  ", first=""):
            out.print(Text(line, style=style))

    say(f"{found.tool}: {found.gpus} GPUs", "bold")
    plan = found.plan
    length = f", {plan['sequence']} tokens a sequence" if plan["sequence"] else ""
    say(
        f"{layout(plan)}; {plan['global_batch']} sequences a step{length}, {plan['precision']}, {plan['software']}"
    )
    if found.shape:
        told = ", ".join(
            f"{name} {found.shape[name]}" for name in ("layers", "hidden", "heads", "ffn", "vocab")
        )
        say(f"Model: {told}")
    if found.ignored:
        say(f"Ignored, for no law depends on them: {'; '.join(found.ignored)}", "dim")
    for text in found.assumptions:
        say(f"Assumed: {text}", "dim")
    if found.prediction is not None:
        print()
        show(prediction_report(found.prediction))
