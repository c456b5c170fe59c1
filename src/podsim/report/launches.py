"""A file that starts a plan, and the content of one that was read."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.answers.launched import PlanRead, Recipe
from podsim.report.predictions import layout, prediction_report
from podsim.report.screen import Block, Paragraph, raw


def launch_report(launch: PlanRead | Recipe) -> Iterator[Block]:
    """The text that starts a plan; or a plan that was read, what was assumed, and its prediction if there is one."""
    if isinstance(launch, Recipe):
        yield raw(launch.text)
        return
    plan = launch.plan
    length = f", {plan['sequence']} tokens a sequence" if plan["sequence"] else ""
    texts = [
        (f"{launch.tool}: {launch.gpus} GPUs", "bold"),
        (
            f"{layout(plan)}; {plan['global_batch']} sequences a step{length}, {plan['precision']}, {plan['software']}",
            "",
        ),
    ]
    if launch.shape:
        names = ("layers", "hidden", "heads", "ffn", "vocab")
        texts.append(("Model: " + ", ".join(f"{name} {launch.shape[name]}" for name in names), ""))
    if launch.ignored:
        texts.append((f"Ignored, for no law depends on them: {'; '.join(launch.ignored)}", "dim"))
    texts += [(f"Assumed: {text}", "dim") for text in launch.assumptions]
    yield from (Paragraph(text, style, indent="  ", first="") for text, style in texts)
    if launch.prediction is not None:
        yield ""
        yield from prediction_report(launch.prediction)
