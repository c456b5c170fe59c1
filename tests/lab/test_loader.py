"""Samples read for real: from a folder, from memory, and from an S3 server on this machine through fsspec's caches."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from podsim.answers.saved_run import read_run
from podsim.errors import LabError, PodsimError
from podsim.lab.places import place_of
from podsim.lab.samples import SIDE, Reader, list_samples
from podsim.questions.operate.measure_loader import measure_loader

pytest.importorskip("fsspec", reason="fsspec is not installed: pip install podsim[lab]")
COUNT, SIZE = 24, 20_000
WHOLE = float(COUNT * SIZE)
MAKE = f"{COUNT}x{SIZE}B"
QUICK: dict[str, Any] = {"batch": 5, "workers": 2, "epochs": 3}


@pytest.mark.parametrize("kind", ["filecache", "blockcache"])
def test_the_first_epoch_reads_the_store_and_later_ones_the_cache(
    kind: str, store: Any, tmp_path: Path
) -> None:
    """By what the server itself counted, and by what the run says."""
    url = f"s3://bucket/{kind}"
    measure_loader(url, make=MAKE, **(QUICK | {"epochs": 1}))
    store.reset()
    run = measure_loader(f"{kind}::{url}", cache=tmp_path / "cache", save=tmp_path / "run.jsonl", **QUICK)
    assert (store.gets, store.sent) == (COUNT, WHOLE)
    assert [(row.store, row.cache, row.fetched) for row in run.rows] == [
        (WHOLE, 0.0, COUNT), (0.0, WHOLE, 0), (0.0, WHOLE, 0),
    ]  # fmt: skip
    assert (run.filesystem, run.samples, run.size) == ("s3", COUNT, WHOLE)
    assert read_run(tmp_path / "run.jsonl") == run
    kept = json.loads((tmp_path / "cache" / "cache").read_text())
    assert len(kept) == COUNT, "two workers wrote the list; no entry was lost"

    again = measure_loader(
        url, cache=tmp_path / "cache", cache_kind=run.cache_kind, **(QUICK | {"epochs": 1})
    )
    assert (store.gets, again.rows[0].store) == (COUNT, 0.0), "the cache outlives the run"


def test_without_a_cache_every_epoch_reads_the_store(store: Any) -> None:
    url = "s3://bucket/plain"
    measure_loader(url, make=MAKE, **(QUICK | {"epochs": 1}))
    store.reset()
    run = measure_loader(url, **QUICK)
    assert (store.gets, store.sent) == (3 * COUNT, 3 * WHOLE)
    assert [(row.store, row.cache) for row in run.rows] == [(WHOLE, 0.0)] * 3


def test_a_sample_that_went_away_is_named(store: Any) -> None:
    url = "s3://bucket/gone"
    measure_loader(url, make=MAKE, **(QUICK | {"epochs": 1}))

    def lose(done: int, _whole: int) -> None:
        if done == 1:
            importlib.import_module("s3fs").S3FileSystem().rm("bucket/gone/sample-0000003.bin")

    with pytest.raises(LabError, match=r"bucket/gone/sample-0000003\.bin: cannot be read: "):
        measure_loader(url, progress=lose, **QUICK)
    with pytest.raises(LabError, match=r"s3://nobucket/x: "):
        measure_loader("s3://nobucket/x", **QUICK)


def test_a_store_in_memory(tmp_path: Path) -> None:
    run = measure_loader("memory://set", make=MAKE, cache=tmp_path / "cache", **QUICK)
    assert [row.store for row in run.rows] == [WHOLE, 0.0, 0.0]
    assert run.filesystem == "memory"
    with pytest.raises(LabError, match="around its cache of blocks: take --cache-kind file"):
        measure_loader("memory://set", cache=tmp_path / "blocks", cache_kind="block", **QUICK)


@pytest.mark.parametrize("spelled", ["{}", "file://{}"])
def test_a_folder_and_an_emulated_accelerator(spelled: str, tmp_path: Path) -> None:
    source = spelled.format(tmp_path / "set")
    run = measure_loader(source, make=MAKE, step_time="2ms", **QUICK)
    assert run.consumer == "emulated accelerator, a step of 2 ms"
    assert (run.cache_kind, run.page_cache) == ("none", "dropped")
    for row in run.rows:
        assert (row.steps, row.samples, row.store) == (5, COUNT, WHOLE)
        assert row.compute == pytest.approx(5 * 0.002)
        assert row.utilisation == pytest.approx(row.compute / row.seconds)
        assert row.compute + row.waited <= row.seconds * 1.001
        assert row.rate == pytest.approx(COUNT / row.seconds)
        assert row.processor > 0
        assert row.reading > 0
    assert measure_loader(source, keep_page_cache=True, **QUICK).page_cache == "kept"


def test_every_sample_is_read_once_an_epoch_in_another_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches as workers get them; the fork inherits what is put in the reader's place."""
    log, load = tmp_path / "log", Reader.load

    def logged(self: Reader, paths: Any, epoch: int, decode: bool) -> Any:
        with log.open("a") as file:  # one write, so lines of two workers do not mix
            file.write("".join(f"{epoch} {Path(path).name}\n" for path in paths))
        return load(self, paths, epoch, decode)

    monkeypatch.setattr(Reader, "load", logged)
    measure_loader(str(tmp_path / "set"), make=MAKE, **(QUICK | {"workers": 1}))
    lines = [line.split() for line in log.read_text().splitlines()]
    epochs = [[name for at, name in lines if at == str(epoch)] for epoch in range(3)]
    assert all(sorted(names) == [f"sample-{k:07d}.bin" for k in range(COUNT)] for names in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    measure_loader(str(tmp_path / "set"), make=MAKE, cache=tmp_path / "cache", **(QUICK | {"epochs": 1}))
    place = place_of(str(tmp_path / "set"))
    names = list(list_samples(place))
    for kind in ("none", "file"):
        found = Reader(place, kind, str(tmp_path / "cache")).load(names[:3], 0, decode=True)
        expected = [
            np.resize(np.frombuffer(Path(name).read_bytes(), np.uint8), 3 * SIDE * SIDE) for name in names
        ]
        assert found.pixels is not None
        assert (found.pixels.reshape(3, -1) == np.stack(expected[:3])).all()
        assert (found.samples, found.size) == (3, 3.0 * SIZE)


@pytest.mark.usefixtures("torch")
def test_a_network_trains_on_pictures(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    generator = np.random.default_rng(1)
    for k in range(6):
        image.fromarray(generator.integers(0, 255, (80, 70, 3), dtype=np.uint8)).save(tmp_path / f"{k}.png")
    run = measure_loader(str(tmp_path), model="resnet", batch=3, workers=1, epochs=2)
    assert run.consumer.endswith("training")
    assert all(row.decoding > 0 and row.compute > 0 and row.steps == 2 for row in run.rows)
    (tmp_path / "broken.png").write_bytes(b"no picture")
    with pytest.raises(LabError, match=r"broken\.png: is no picture: Pillow"):
        measure_loader(str(tmp_path), model="resnet", batch=3, workers=1, epochs=2)


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    def interrupt(done: int, _whole: int) -> None:
        if done == 7:  # two batches into the second epoch
            os.kill(os.getpid(), signal.SIGINT)

    measure_loader(str(tmp_path / "set"), make=MAKE, **QUICK)
    run = measure_loader(str(tmp_path / "set"), save=tmp_path / "run.jsonl", progress=interrupt, **QUICK)
    assert run.stopped
    assert [(row.whole, row.steps) for row in run.rows] == [(True, 5), (False, 2)]
    assert run.rows[1].samples == 10
    assert read_run(tmp_path / "run.jsonl") == run
    assert not multiprocessing.active_children()


def test_ctrl_c_does_not_wait_for_a_store_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the second epoch on no read ends; a run that waited for them would never come back."""
    load = Reader.load

    def stuck(self: Reader, paths: Any, epoch: int, decode: bool) -> Any:
        if epoch:
            time.sleep(100_000)
        return load(self, paths, epoch, decode)

    def interrupt(done: int, _whole: int) -> None:
        if done == 5:
            threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()

    measure_loader(str(tmp_path / "set"), make=MAKE, **QUICK)
    monkeypatch.setattr(Reader, "load", stuck)
    run = measure_loader(str(tmp_path / "set"), progress=interrupt, **QUICK)
    assert run.stopped
    assert [row.whole for row in run.rows] == [True]
    assert not multiprocessing.active_children()


def test_the_command_ends_with_130_after_ctrl_c(
    tmp_path: Path, podsim: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def bar(_title: str) -> Iterator[Callable[[int, int], None]]:
        yield lambda done, whole: os.kill(os.getpid(), signal.SIGINT) if done == 7 else None

    measure_loader(str(tmp_path / "set"), make=MAKE, **QUICK)
    monkeypatch.setattr("podsim.report.progress.bar", bar)
    ended = podsim("measure", "loader", tmp_path / "set", "--batch", 5)
    assert ended.exit_code == 130
    assert "2 (part)" in ended.output
    assert "interrupted: this is what was measured until then" in ended.output


def test_a_reader_that_is_killed(tmp_path: Path) -> None:
    def murder(done: int, _whole: int) -> None:
        if done == 6:
            for child in multiprocessing.active_children():
                os.kill(child.pid or 0, signal.SIGKILL)

    measure_loader(str(tmp_path / "set"), make=MAKE, **QUICK)
    with pytest.raises(LabError, match="a process that read samples died in epoch"):
        measure_loader(str(tmp_path / "set"), progress=murder, **(QUICK | {"epochs": 50}))


def test_no_reader_outlives_the_command(tmp_path: Path) -> None:
    measure_loader(str(tmp_path / "set"), make=MAKE, **QUICK)
    command = [
        sys.executable,
        "-m",
        "podsim.cli",
        "measure",
        "loader",
        str(tmp_path / "set"),
        "--step-time",
        "10s",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        try:
            if not children.exists():
                pytest.skip("this kernel does not list the children of a process")
            _until(lambda: len(children.read_text().split()) == 2)
            readers = [int(pid) for pid in children.read_text().split()]
        finally:
            process.kill()
    _until(lambda: not any(_runs(pid) for pid in readers))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _until(true: Callable[[], bool], patience: float = 60.0) -> None:
    end = time.monotonic() + patience
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_command(tmp_path: Path, podsim: Callable[..., Result]) -> None:
    source = tmp_path / "set"
    ended = podsim(
        "measure", "loader", source, "--make", MAKE, "--cache", tmp_path / "c", "--epochs", 2, "--batch", 8
    )
    assert ended.exit_code == 0, ended.output
    assert "later epochs run at" in ended.output
    assert "480 kB" in ended.output
    told = json.loads(podsim("measure", "loader", source, "--epochs", 1, "--json").stdout)
    assert told["rows"][0]["store"] == WHOLE
    assert "epoch,whole,samples" in podsim("measure", "loader", source, "--epochs", 1, "--csv").stdout


def test_mistakes(tmp_path: Path, podsim: Callable[..., Result]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.bin").write_bytes(b"1")
    for given, said in (
        ({"source": tmp_path / "none"}, "there is no such folder; --make 1000x150KB"),
        ({"source": tmp_path / "empty"}, "there are no files in it"),
        ({"source": tmp_path / "full", "make": MAKE}, "has files already"),
        ({"source": tmp_path / "new", "make": "many"}, "expected samples x bytes, such as 1000x150KB"),
        ({"source": tmp_path / "new", "make": "0x1KB"}, "expected samples x bytes"),
        ({"source": tmp_path / "full", "cache_kind": "simple"}, "unknown kind of cache 'simple'"),
        ({"source": tmp_path / "full", "model": "gpt"}, "unknown model 'gpt'"),
        ({"source": tmp_path / "full", "model": "resnet", "step_time": "1s"}, "give one of them"),
        (
            {"source": tmp_path / "full", "epochs": 0, "batch": -1},
            "--epochs 0; .*; --batch -1; it must be 1 to",
        ),
        ({"source": "filecache::s3://bucket/x"}, "name it with --cache"),
        ({"source": "nosuch://bucket/x"}, "nosuch"),
        ({"source": tmp_path / "full", "save": tmp_path / "none" / "run"}, "there is no folder"),
        ({"source": tmp_path / "full", "cache": tmp_path / "full" / "c"}, "would be taken for samples"),
        ({"source": tmp_path / "full", "cache": __file__}, r"test_loader\.py: File exists"),
    ):
        paths = {"source": str(given["source"])} | (
            {"cache": Path(str(given["cache"]))} if "cache" in given else {}
        )
        with pytest.raises(PodsimError, match=said):
            measure_loader(**(given | paths))  # type: ignore[arg-type]
    ended = podsim("measure", "loader", tmp_path / "none")
    assert ended.exit_code == 2
    assert "Traceback" not in ended.output
