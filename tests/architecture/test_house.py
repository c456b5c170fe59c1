"""What keeps the house readable: no circles, imports at the top, a law that is short."""

from __future__ import annotations

import house_figures as house

MOST_INNER_IMPORTS = 120
LONGEST_LAW = 250


def test_no_modules_import_one_another() -> None:
    assert not house.circles()


def test_imports_stand_at_the_top() -> None:
    assert len(house.imports_inside_functions()) <= MOST_INNER_IMPORTS


def test_the_law_of_a_step_is_short() -> None:
    path, _ = house.modules()["podsim.training.step"]
    assert len(path.read_text("utf-8").splitlines()) <= LONGEST_LAW
