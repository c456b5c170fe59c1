"""`podsim schedule`: charts, comparison, torch's CSV, pictures, and what it says of mistakes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from podsim.answers.scheduled import ScheduleComparison, ScheduleSheet
from podsim.errors import ScheduleError
from podsim.questions.train.schedule import schedule, torch_csv
from podsim.schedules.entries import SCHEDULES, build
from podsim.schedules.torch_csv import to_csv

Run = Callable[..., Result]


def sheet(name: str, **sizes: int) -> ScheduleSheet:
    found = schedule(name, **sizes)  # type: ignore[arg-type]
    assert isinstance(found, ScheduleSheet)
    return found


def test_a_chart_by_hand(podsim: Run) -> None:
    shown = podsim("schedule", "1f1b", "--pp", 2, "--micro-batches", 3)
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[0] == "1f1b: 2 ranks, 3 micro-batches"
    assert "Ranks wait 33.3 % of their time at work; published wait of a rank: (p - 1) (F" in shown.stdout
    chart = [line.rstrip() for line in lines if line.startswith(("time", "rank 0", "rank 1"))]
    assert chart == [
        "time   0              5              10",
        "rank 0 F0 F1 ······B0─── F2 B1─── ···B2───",
        "rank 1 ···F0 B0─── F1 B1─── F2 B2─── ······",
    ]
    assert lines[-3:] == [
        "  rank  waits  activations  weights",
        "     0      3           2x       1x",
        "     1      3           1x       1x",
    ]


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_chart_has_every_pass(podsim: Run, name: str) -> None:
    """On 80 columns, wrapped as often as it takes, and never wider."""
    shown = podsim("schedule", name, "--pp", 4, "--micro-batches", 8)
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    row = "".join(line.removeprefix("rank 0 ") for line in lines if line.startswith("rank 0 "))
    seen = [word.strip("─·") for word in row.replace("·", " ").replace("+", " ").split()]
    table = build(name, 4, 2 if SCHEDULES[name].problems(4, 1, 8) else 1, 8)
    mine = to_csv(table).splitlines()[0]
    for word in mine.replace("(", "").replace(")OVERLAP_F_B", "").replace(";", ",").split(","):
        assert any(word.endswith(label) for label in seen if label), word


def test_a_long_chart_leaves_its_middle_out(podsim: Run) -> None:
    shown = podsim("schedule", "gpipe", "--pp", 16, "--micro-batches", 400)
    assert "more blocks; --plot and --json have all" in shown.stdout
    assert len(shown.stdout.splitlines()) < 200
    assert "F0─" in shown.stdout
    assert "B399" in shown.stdout


def test_all_side_by_side(podsim: Run) -> None:
    shown = podsim("schedule", "--pp", 4, "--micro-batches", 6)
    assert shown.exit_code == 0
    lines = {line.split()[0]: line.split() for line in shown.stdout.splitlines() if line.startswith("  ")}
    assert lines["1f1b"] == ["1f1b", "1", "27", "50.0", "%", "50.0", "%", "4x", "1x"]
    assert lines["pipedream"][-3:] == ["4x", "4x", "asynchronous"]
    assert "needs 2 x pp micro-batches or more" in shown.stdout
    table = schedule(pp=4, micro_batches=8, virtual_stages=2)
    assert isinstance(table, ScheduleComparison)
    assert [row.schedule for row in table.rows] == list(SCHEDULES)
    assert {row.schedule: row.virtual_stages for row in table.rows}["breadth-first"] == 2
    assert all(row.step_time is not None for row in table.rows)


def test_the_same_work_whatever_the_chunks() -> None:
    """Durations are of a rank's share of the model, so that steps of different schedules compare."""
    for row in schedule(pp=4, micro_batches=8, forward=1.0, input=1.2, weight=0.8).rows:  # type: ignore[union-attr]
        assert row.step_time is not None
        assert row.step_time >= 8 * 3.0 - 1e-9
        assert row.bubble is not None
        assert row.step_time == pytest.approx(8 * 3.0 * (1 + row.bubble)), row.schedule


def test_json_and_csv(podsim: Run) -> None:
    found = json.loads(podsim("schedule", "zb-v", "--pp", 2, "--micro-batches", 4, "--json").stdout)
    assert found["placement"] == "vee"
    assert found["staggered_bubble"] == 0.0
    assert len(found["actions"]) == 2 * 2 * 4 * 3
    rows = list(csv.DictReader(io.StringIO(podsim("schedule", "pipedream", "--csv").stdout)))
    assert rows[0]["work"] == "forward"
    assert {row["version"] for row in rows} == {str(n) for n in range(8)}
    rows = list(csv.DictReader(io.StringIO(podsim("schedule", "--csv").stdout)))
    assert [row["schedule"] for row in rows] == list(SCHEDULES)


def test_torch_csv_and_back(podsim: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    made = podsim("schedule", "zb-h1", "--pp", 3, "--micro-batches", 5, "--csv-torch", path)
    assert made.exit_code == 0
    assert path.read_text() == to_csv(build("zb-h1", 3, 1, 5)) == torch_csv("zb-h1", pp=3, micro_batches=5)
    again = podsim("schedule", path)
    assert again.exit_code == 0
    assert again.stdout.splitlines()[0] == "mine: 3 ranks, 5 micro-batches"
    named, read = sheet("zb-h1", pp=3, micro_batches=5), sheet(str(path))
    assert (named.bubble, named.activations, named.actions) == (read.bubble, read.activations, read.actions)


def test_staleness_of_each_rank() -> None:
    assert sheet("pipedream", pp=3, micro_batches=9).staleness == (2, 1, 0)
    assert sheet("pipedream-2bw", pp=3, micro_batches=9).staleness == (1, 1, 1)
    assert sheet("1f1b").staleness == ()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["zbv"], "did you mean zb-v"),
        (["1f1b", "--pp", "0"], "pp=0: sizes of a schedule are whole numbers from 1"),
        (["--micro-batches", "-3"], "micro_batches=-3"),
        (["dualpipe", "--pp", "3", "--micro-batches", "7"], "it needs an even pp"),
        (["1f1b", "--virtual-stages", "2"], "interleaved needs 2 or more"),
        (["1f1b", "--pp", "100000", "--micro-batches", "100000"], "more than 1,048,576 actions"),
        (["1f1b", "--forward", "nan"], "forward=nan: a duration is a finite number"),
        (["1f1b", "--send", "-1"], "send=-1.0"),
        (["1f1b", "--overlap", "2"], "overlap=2.0: it is a share"),
        (["1f1b", "--forward", "0", "--input", "0", "--weight", "0"], "give one of them a duration"),
        (["1f1b", "--plot", "x.pdf"], "ends in .png, .svg or .html"),
        (["--plot", "x.png"], "of one schedule: give its name"),
        (["1f1b", "--json", "--csv"], "choose one"),
        (["dualpipe", "--csv-torch", "x.csv"], "gives each part of the model to several ranks"),
        (["pipedream", "--csv-torch", "x.csv"], "one version of the weights"),
        (["absent.csv"], "absent.csv: cannot be read: no such file"),
        (["absent.csv", "--pp", "2"], "gives its own sizes"),
    ],
)
def test_mistakes(
    podsim: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = podsim("schedule", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert said in result.stderr
    assert len(result.stderr) < 2000
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_run(podsim: Run, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n")
    result = podsim("schedule", path)
    assert result.exit_code == 2
    assert "deadlock: rank 0 waits at 0B0 for 1B0 of rank 1" in result.stderr
    for content in (b"", b"\x00\xff\xfe", b"0F0,0X0\n", b"F" * 5000):
        path.write_bytes(content)
        assert podsim("schedule", path).exit_code == 2
    path.write_text("")
    with pytest.raises(ScheduleError, match="has no actions"):
        schedule(str(path))


@pytest.mark.parametrize(
    ("name", "kinds"),
    [("interleaved", ("png", "html", "svg", "svg")), ("dualpipe", ("svg",)), ("pipedream", ("svg",))],
)
def test_pictures(podsim: Run, tmp_path: Path, name: str, kinds: tuple[str, ...]) -> None:
    pytest.importorskip("matplotlib")
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "html": b"<!DOCTYPE html>"}
    drawn = dict[str, bytes]()
    for kind in kinds:
        path = tmp_path / f"one.{kind}"
        assert podsim("schedule", name, "--pp", 2, "--micro-batches", 4, "--plot", path).exit_code == 0
        picture = path.read_bytes()
        assert picture.startswith(starts[kind])
        assert drawn.setdefault(kind, picture) == picture
    assert f"{name}: 2 ranks" in drawn["svg"].decode()


def test_a_picture_of_too_many_passes(podsim: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = podsim("schedule", "1f1b", "--pp", 64, "--micro-batches", 512, "--plot", tmp_path / "x.png")
    assert result.exit_code == 2
    assert "65,536 passes are too many to draw" in result.stderr
    assert list(tmp_path.iterdir()) == []
