"""What keeps the house readable: figures that only fall, rooms behind their questions, names that say what they hold."""

from __future__ import annotations

import ast
import subprocess
from collections import Counter

import pytest
from scripts import house

LONGEST_LAW = 250
NAMES_TO_AVOID = ("found", "one", "told", "place", "whole")
"""Names that no variable of a function bears: what it holds has a noun."""
OWN_QUESTIONS = {
    "compare", "emulate", "exporter", "measure", "measure_checkpoint", "measure_ddp", "measure_host",
    "measure_loader", "measure_ranks", "measure_serving", "measure_tables", "measure_transfer", "scale_ladder",
    "scale_sharpness", "train", "verify",
}  # fmt: skip
"""Questions about what ran: they alone reach the lab and acceptance."""
EXCEPTIONS = {
    ("podsim.cli.emulation", "podsim.lab.emulated_links"),
}
"""Other modules that reach the lab."""


@pytest.fixture(scope="module")
def kept() -> house.Records:
    return house.records(house.FILE.read_text("utf-8"))


def test_no_figure_of_the_source_is_worse(kept: house.Records) -> None:
    worse = house.worse(house.read_figures(), kept)
    assert not worse, "\n".join(worse)


def test_no_question_loads_or_runs_more(kept: house.Records) -> None:
    worse = house.worse(house.run_figures(), kept)
    assert not worse, "\n".join(worse)


def test_a_figure_rises_only_by_a_decision(kept: house.Records) -> None:
    """Against the commit before: needs git and that commit."""
    before = _git("show", "HEAD~1:house.toml")
    if not before:
        pytest.skip("git does not have the parent commit, or it has no house.toml")
    earlier = house.records(before)
    now = {name: record["lowest"] for name, record in kept.items()}
    for problem in house.worse({name: now[name] for name in now.keys() & earlier.keys()}, earlier):
        name = problem.partition(" is ")[0]
        number = kept[name].get("decision", 0)
        assert number != earlier[name].get("decision", 0), f"{problem}: name the decision that says why"
        assert list((house.ROOT / "docs" / "decisions").glob(f"{number:04}-*.md")), problem
    gone = {name for name in earlier.keys() - kept.keys() if house.is_held(name)}
    assert not gone


def test_house_toml_changes_alone() -> None:
    files = _git("show", "--name-only", "--format=", "HEAD").split()
    assert "house.toml" not in files or files == ["house.toml"]


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=house.ROOT, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def test_no_modules_import_one_another() -> None:
    assert not house.circles()


def test_only_their_questions_reach_the_lab_and_acceptance() -> None:
    reaches = {
        (name, other)
        for name in house.modules()
        for other in house.imports(name).top | house.imports(name).inner
        if other.startswith(("podsim.lab.", "podsim.acceptance."))
        and not name.startswith(("podsim.lab", "podsim.acceptance"))
        and not (name.startswith("podsim.questions.") and name.rpartition(".")[2] in OWN_QUESTIONS)
    }
    assert reaches == EXCEPTIONS


def test_every_question_of_the_lab_reaches_it() -> None:
    questions = {
        name.rpartition(".")[2]
        for name in house.modules()
        if name.startswith("podsim.questions.")
        and any(
            other.startswith(("podsim.lab.", "podsim.acceptance."))
            for other in house.imports(name).top | house.imports(name).inner
        )
    }
    assert not OWN_QUESTIONS - questions, "take these from the list"


def test_the_law_of_a_step_is_short() -> None:
    path, _ = house.modules()["podsim.training.step"]
    assert house.lines_of(path) <= LONGEST_LAW


def test_file_names_are_unique() -> None:
    """A question of `questions/` may share the name of the noun that it asks about."""
    files = [path for path, _ in house.modules().values() if "questions" not in path.parts]
    counts = Counter(path.name for path in files if path.name != "__init__.py")
    assert not [name for name, count in counts.items() if count > 1]


def test_variables_have_nouns() -> None:
    vague = [
        f"{name}:{node.lineno} {node.id}"
        for name in house.modules()
        for function in house.content(name).functions
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in NAMES_TO_AVOID
    ]
    assert not vague
