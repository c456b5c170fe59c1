"""Random legal plans, and the laws that each of them keeps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random

from plan_laws import LAWS, broken_laws
from random_plans import scenes

ALWAYS, SOME = 6, 12
"""laws that every scene is held to, and laws of the others, drawn for each"""


def tries(seed: int, count: int) -> Iterator[str | None]:
    """For each plan the laws that it breaks, in a sentence; None for a plan that keeps all."""
    return islice(_tries(seed), count)


def _tries(seed: int) -> Iterator[str | None]:
    for scene in scenes(seed):
        laws = (*LAWS[:ALWAYS], *Random(f"laws of {scene.name}").sample(LAWS[ALWAYS:], SOME))
        try:
            yield from broken_laws(scene, laws)
        except Exception as error:  # whatever it raises is a failure
            yield f"{type(error).__name__}: {error}: {scene.say(0)}"
