"""Every text of others that reaches another language stays a text there, or is refused: the table of sinks."""

from __future__ import annotations

from pathlib import Path

import pytest
from sink_table import BATCHES, HOSTILE, LINKED, MARK, PLAIN, REFUSING, SINKS, TOOLED

from podsim.errors import PodsimError


@pytest.mark.parametrize("sink", SINKS)
def test_a_hostile_text_stays_a_text_or_is_refused(
    sink: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    failed = []
    for name, text in {"plain": PLAIN, **HOSTILE}.items():
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        try:
            SINKS[sink](text, folder)
        except PodsimError as problem:
            if name == "plain" or sink not in REFUSING:
                failed.append(f"{name}: refused: {problem}")
        except Exception as problem:
            failed.append(f"{name}: {type(problem).__name__}: {str(problem)[:300]}")
    assert not failed, "\n".join(failed)
    assert not [*tmp_path.rglob(MARK)]


@pytest.mark.parametrize("sink", BATCHES)
def test_all_hostile_texts_stay_texts(sink: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    BATCHES[sink](tuple(HOSTILE.values()), tmp_path)
    assert not [*tmp_path.rglob(MARK)]


@pytest.mark.parametrize(
    "mark", [pytest.param(mark, marks=getattr(pytest.mark, mark), id=mark) for mark in TOOLED]
)
def test_a_program_reads_all_hostile_texts_as_texts(mark: str, tmp_path: Path) -> None:
    TOOLED[mark](tuple(HOSTILE.values()), tmp_path)


@pytest.mark.parametrize("sink", LINKED)
def test_no_output_goes_through_a_link(sink: str, tmp_path: Path) -> None:
    LINKED[sink](tmp_path)
