"""Sizes of real runs, checked before anything is trained."""

from __future__ import annotations

from podsim.options.question import options_of


def out_of_bounds(options: object) -> list[str]:
    """A line for each option whose number is outside the bounds that it states."""
    return [
        f"{name}={value}: give {known.least} to {known.most}"
        for name, known in options_of(type(options)).items()
        if known.most is not None and not known.least <= (value := getattr(options, name)) <= known.most
    ]
