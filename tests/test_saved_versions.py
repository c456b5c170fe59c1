"""Files that an older or a later podsim wrote: every format that podsim writes and reads again, and what it says."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import podsim
from podsim.acceptance.trend_checks import read_earlier
from podsim.answers.saved_run import read_run
from podsim.errors import PodsimError
from podsim.graphs.op_graph_json import read_value
from podsim.lab.checkpoint_files import MANIFEST, begin, commit, opened
from podsim.lab.sparse.sparse_train import checkpoint_step
from podsim.launching.experiment_file import read_experiment
from podsim.launching.plan_file import read_plan_file
from podsim.learning.loss_catalog import find_law, law_text, read_law
from podsim.studies.answer_store import open_store, point_key

Case = tuple[Callable[[Path, Any], Path], Callable[[Path], Any], Any, Any]


def _json(name: str, value: dict[str, Any], *keys: str) -> Callable[[Path, Any], Path]:
    """What writes a JSON file with another version at some keys; without one, if it is None."""

    def write(folder: Path, version: Any) -> Path:
        said = json.loads(json.dumps(value))
        place = said
        for key in keys[:-1]:
            place = place.setdefault(key, {})
        if version is not None:
            place[keys[-1]] = version
        path = folder / name
        path.write_text(json.dumps(said) + "\n")
        return path

    return write


def _experiment(folder: Path, version: Any) -> Path:
    path = folder / "experiment.toml"
    head = "" if version is None else f'podsim = "{version}"\n'
    path.write_text(f'{head}model = "gpt2"\non = "dgx-a100:1"\n[plan]\ntp = 2\n')
    return path


def _store(folder: Path, version: Any) -> Path:
    path = folder / "store"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA application_id = {0x706F6400 + version}")
    connection.execute("CREATE TABLE IF NOT EXISTS other (a)")
    connection.close()
    return path


def _open_store(path: Path) -> None:
    with open_store(path) as store:
        store.known(["a"])


def _tables(path: Path) -> int:
    return checkpoint_step(path.parent, [4], 2)


def _checkpoint(folder: Path, version: Any) -> Path:
    place = begin(folder, 1)
    (place / "a").write_text("a")
    commit(folder, 1, layout={})
    manifest = next(folder.rglob(MANIFEST))
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"version": version}))
    return folder


RUN = {"format": "podsim-run", "kind": "ranks"}
RANKED = {"ranked": [{"prediction": {"gpus": 8, "plan": {"tp": 2}}}], "arguments": {"model": "gpt2"}}
TABLES = {"format": "podsim-tables", "step": 3, "rows": [4], "width": 2}
LAW = json.loads(law_text(find_law("podsim")))
CASES: dict[str, Case] = {
    "experiment file": (_experiment, read_experiment, "99.0", None),
    "plan of an experiment file": (_experiment, lambda path: read_plan_file(str(path)), "0.10.0", None),
    "saved ranking": (_json("plans.json", RANKED, "podsim", "version"), lambda p: read_plan_file(str(p)), "99.0", None),
    "acceptance": (_json("a.json", {"checks": [], "parts": []}, "podsim", "version"), read_earlier, "1.0.0", "0.1.0"),
    "run of the lab": (_json("run.jsonl", RUN, "version"), read_run, 2, "old"),
    "checkpoint": (_checkpoint, opened, 2, "old"),
    "checkpoint of tables": (_json("manifest.json", TABLES, "version"), _tables, 2, None),
    "graph of ops": (_json("graph.json", {"ops": []}, "podsim_graph"), read_value, 2, 1),
    "law of the loss": (_json("law.json", LAW, "version"), read_law, 2, 1),
    "store of a study": (_store, _open_store, 2, "old"),
}  # fmt: skip
"""a format: what writes it with a version, its reader, a later version, an earlier one that is read ("old": none)"""
UPDATE = re.compile(rf"this is podsim {re.escape(podsim.__version__)}.*: update podsim")


@pytest.mark.parametrize("name", CASES)
def test_what_a_later_podsim_wrote_is_refused_in_words(name: str, tmp_path: Path) -> None:
    write, read, later, _ = CASES[name]
    with pytest.raises(PodsimError, match=UPDATE):
        read(write(tmp_path, later))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[3] != "old"])
def test_what_an_earlier_podsim_wrote_is_read(name: str, tmp_path: Path) -> None:
    write, read, _, earlier = CASES[name]
    assert read(write(tmp_path, earlier)) is not None


@pytest.mark.parametrize("version", [0, "1", True, 1.0, [1], "²"])
@pytest.mark.parametrize("name", ["run of the lab", "graph of ops", "law of the loss"])
def test_another_version_is_refused_in_words(name: str, version: Any, tmp_path: Path) -> None:
    write, read, *_ = CASES[name]
    with pytest.raises(PodsimError, match=r"of format version .* write it again"):
        read(write(tmp_path, version))


DAMAGED = (
    "[]", "{", "null", "NaN", "{}", '{"a": 1}', '{"status": "fits"}', '{"question": "plan", "status": 5}', "[" * 10_000,
    '{"question": "plan", "status": "fits", "step_time": "1"}',
    '{"question": "plan", "status": "fits", "step_time": NaN}',
    '{"question": "plan", "status": "fits", "gpus": true}', '{"question": "plan", "status": "fits", "plan": []}',
)  # fmt: skip


@pytest.mark.parametrize("answer", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_answer_of_a_store_is_said(answer: str, tmp_path: Path) -> None:
    settings = {"model": "gpt2", "on": "dgx-a100:1"}
    with open_store(tmp_path / "store") as store:
        store.keep([(point_key("predict", settings), "predict", {})])
    connection = sqlite3.connect(tmp_path / "store")
    connection.execute("UPDATE answers SET answer = ?", (answer,))
    connection.commit()
    connection.close()
    asked = {"question": "predict", "common": settings, "design": [{"name": "A"}]}
    with pytest.raises(PodsimError, match="A: its stored answer is not as podsim wrote it"):
        podsim.study(asked, executor="serial", store=tmp_path / "store")
