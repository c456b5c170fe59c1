"""Parameter servers of embedding tables, run for real, against one process, a kill, a law and bad messages."""

import csv
import os
import signal
import socket
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from podsim.answers.saved_run import read_run
from podsim.embeddings.clicks import zipf_rows
from podsim.embeddings.hit_rates import hit_rate
from podsim.embeddings.tables import EmbeddingTable, TableSet
from podsim.errors import LabError, PodsimError
from podsim.lab.ranks import run_here
from podsim.lab.sparse.click_files import read_clicks
from podsim.lab.sparse.row_messages import receive_message, send_message
from podsim.lab.sparse.row_store import RowStore, Shard, initial_rows
from podsim.lab.sparse.sparse_train import SparseJob, checkpoint_step, task_of
from podsim.questions.operate.measure_tables import measure_tables

TABLES = TableSet(
    name="t", title="t",
    tables=tuple(
        EmbeddingTable(name=str(n), rows=rows, width=4, pooling=pooling)
        for n, (rows, pooling) in enumerate(((3000, 1), (7, 2), (200, 3)))
    ),
)  # fmt: skip


def _job(folder: Path, **changes: object) -> SparseJob:
    given = {
        "tables": TABLES, "servers": 2, "workers": 2, "steps": 8, "batch": 48, "cache": 0.02,
        "is_synchronous": True, "rate": 0.1, "seed": 3, "folder": folder, "timeout": 20.0,
    }  # fmt: skip
    return SparseJob(**(given | changes))  # type: ignore[arg-type]


def _losses(result: dict[str, list[dict[str, float]]]) -> list[float]:
    return [row["loss"] for row in result["rows"]]


def _one_process(job: SparseJob) -> list[float]:
    """Losses with whole tables as plain arrays."""
    tables = [initial_rows(job.seed, n, np.arange(rows), 4) for n, rows in enumerate(job.rows)]
    network, losses = job.network, []
    dense = network.first_weights(job.seed)
    states = [np.zeros_like(each) for each in (*tables, dense)]
    for step in range(job.steps):
        parts = [job.clicks(step, worker) for worker in range(job.workers)]
        numbers, clicked = (np.concatenate([part[n] for part in parts]).astype(float) for n in (0, 2))
        rows = [np.concatenate([part.rows[n] for part in parts]) for n in range(len(tables))]
        pooled = np.stack([table[each].sum(axis=1) for table, each in zip(tables, rows, strict=True)], axis=1)
        found = network.gradients(dense, numbers, pooled, clicked)
        losses.append(found.loss / job.batch)
        gradients = [np.zeros_like(each) for each in tables]
        for n, gradient in enumerate(gradients):
            np.add.at(gradient, rows[n], found.pooled[:, n, None] / job.batch)
        for weights, state, gradient in zip(
            (*tables, dense), states, (*gradients, found.weights / job.batch), strict=True
        ):
            np.add(state, gradient**2, out=state)
            np.subtract(weights, job.rate * gradient / (np.sqrt(state) + 1e-10), out=weights)
    return losses


def test_gradients() -> None:
    network = _job(Path()).network
    random = np.random.default_rng(0)
    weights = network.first_weights(1) + random.normal(0, 0.1, network.first_weights(1).shape)
    numbers, pooled, clicked = (
        random.normal(size=(5, 13)),
        random.normal(size=(5, 3, 4)),
        np.array([0, 1, 1, 0, 1.0]),
    )
    found = network.gradients(weights, numbers, pooled, clicked)
    for vector, gradient, at in (
        (weights, found.weights, 17),
        (weights, found.weights, -3),
        (pooled, found.pooled, 8),
    ):
        losses = []
        for change in (1e-6, -1e-6):
            vector.flat[at] += change
            losses.append(network.gradients(weights, numbers, pooled, clicked).loss)
            vector.flat[at] -= change
        assert gradient.flat[at] == pytest.approx((losses[0] - losses[1]) / 2e-6, rel=1e-5, abs=1e-7)


@pytest.mark.torch
def test_losses_of_one_process(tmp_path: Path) -> None:
    job = _job(tmp_path)
    result = run_here(task_of(job))
    assert _losses(result) == pytest.approx(_one_process(job), abs=1e-12)
    assert result["late"] == {"0": 2 * 2 * job.steps}
    assert sum(result["hits"]) < sum(result["lookups"])


@pytest.mark.torch
def test_killed_server_resumes(tmp_path: Path) -> None:
    kept = {"checkpoint": tmp_path / "kept", "every": 2}

    def murder(rank: int, doing: str) -> None:
        if rank == 3 and doing == "step 5":
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(LabError, match=r"server 1 was killed.* during step 5"):
        run_here(task_of(_job(tmp_path, **kept)), hook=murder)
    start = checkpoint_step(tmp_path / "kept", _job(tmp_path).rows, 4)
    assert start == 4
    resumed = _job(tmp_path, **kept, start=start, servers=3)  # of another number of servers, too
    assert _losses(run_here(task_of(resumed))) == pytest.approx(_one_process(_job(tmp_path))[4:], abs=1e-12)
    (tmp_path / "kept" / "step-8" / "server-0.npz").write_bytes(b"PK\x03\x04 damaged")
    with pytest.raises(LabError, match=r"server . failed: .*server-0\.npz: no whole part of a checkpoint"):
        run_here(task_of(_job(tmp_path, **kept, start=8, steps=9)))
    with pytest.raises(LabError, match="of other tables"):
        checkpoint_step(tmp_path / "kept", [1], 4)


@pytest.mark.torch
def test_asynchronous(tmp_path: Path) -> None:
    result = run_here(task_of(_job(tmp_path, is_synchronous=False, steps=15, workers=3)))
    assert sum(result["late"].values()) == 2 * 3 * 15
    assert max(map(int, result["late"])) > 0
    assert np.mean(_losses(result)[-5:]) < np.mean(_losses(result)[:5])


@pytest.mark.parametrize("skew", [0.8, 1.0, 1.2])
def test_hit_rate_of_the_law(tmp_path: Path, skew: float) -> None:
    shards = [
        Shard(rows=(20_000,), width=1, server=s, servers=2, cache=0.05, rate=0.1, seed=0) for s in range(2)
    ]
    stores, random = [RowStore(shard, tmp_path) for shard in shards], np.random.default_rng(1)
    for _ in range(120):
        ids, latest = np.unique(zipf_rows(20_000, skew, 128, random)[::-1], return_index=True)
        ids = ids[np.argsort(-latest)]
        for server, store in enumerate(stores):
            store.read(ids[ids % 2 == server])
    hits, lookups = (sum(getattr(store.tables[0], name) for store in stores) for name in ("hits", "lookups"))
    law = hit_rate(20_000, 1000, skew, lookups=120 * 128, batch=128)
    assert hits / lookups == pytest.approx(law, abs=0.03)


def test_rows_survive_eviction(tmp_path: Path) -> None:
    store = RowStore(Shard(rows=(50, 9), width=3, server=0, servers=1, cache=0.1, rate=0.1, seed=0), tmp_path)
    random, expected = np.random.default_rng(2), np.concatenate([store.read(np.arange(59))])
    sums = np.zeros_like(expected)
    for _ in range(40):
        ids = random.permutation(59)[: random.integers(1, 20)]
        assert (store.read(ids) == expected[ids]).all()
        gradients = random.normal(size=(len(ids), 3))
        store.add(ids, gradients)
        sums[ids] += gradients**2
        expected[ids] -= 0.1 * gradients / (np.sqrt(sums[ids]) + 1e-10)
    assert (store.read(np.arange(59)) == expected).all()
    for ids, words in (([59], "the tables have 59"), ([-1], "from -1"), ([4, 4], "twice")):
        with pytest.raises(LabError, match=words):
            store.read(np.array(ids))
    with pytest.raises(LabError, match="finite"):
        store.add(np.array([1]), np.full((1, 3), np.nan))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (struct.pack(">I", 1 << 20), "a header of 1,048,576 bytes"),
        (struct.pack(">I", 2) + b"{}", "no JSON object with its arrays"),
        (struct.pack(">I", 28) + b'{"arrays":[["a","|O8",[1]]]}', "of |O8"),
        (struct.pack(">I", 38) + b'{"arrays":[["a","<f8",[99999,99999]]]}', "at most 1,073,741,824"),
        (struct.pack(">I", 28) + b'{"arrays":[["a","<f8",[2]]]}1234', "closed"),
    ],
)
def test_bad_messages(data: bytes, words: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)
        theirs.close()
        with pytest.raises(LabError, match=words.replace("|", r"\|")):
            receive_message(ours)


def test_message() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send_message(ours, {"verb": "pull"}, {"ids": np.arange(3), "none": np.zeros((0, 4))})
        fields, arrays = receive_message(theirs)
    assert fields == {"verb": "pull"}
    assert arrays["ids"].tolist() == [0, 1, 2]
    assert arrays["none"].shape == (0, 4)


@pytest.mark.torch
def test_command(tmp_path: Path) -> None:
    tables, data = tmp_path / "tables.csv", tmp_path / "clicks.csv"
    tables.write_text("name,rows,width,pooling\nuser,5000,64,1\nad,20,32,1\n")
    with data.open("w") as file:
        csv.writer(file).writerows(
            [["label", "I1", "I2", "C1", "C2"], *([n % 2, n % 2, "", f"u{n}", n % 5] for n in range(90))]
        )
    run = measure_tables(
        str(tables), steps=3, batch=40, data=data, save=tmp_path / "run.jsonl", checkpoint=tmp_path / "kept"
    )
    assert run == read_run(tmp_path / "run.jsonl")
    assert [row.step for row in run.rows] == [0, 1, 2]
    assert run.sample_rate > 0
    again = measure_tables(
        str(tables), steps=5, batch=40, data=data, checkpoint=tmp_path / "kept", resume=True
    )
    assert again.start == 3
    assert [row.step for row in again.rows] == [3, 4]
    for changes, words in (
        ({"checkpoint": tmp_path / "kept"}, "take --resume"),
        ({"cache": "0%"}, "such as 5%"),
        ({"exchange": "asink"}, "async"),
        ({"width": 0}, "widths 32, 64"),
        ({"every": 2}, "need --checkpoint"),
        ({"workers": 0, "batch": 0}, "--workers 0.*--batch 0"),
        ({"data": tables}, "no label"),
        ({"folder": tmp_path / "none"}, "No such file"),
    ):
        with pytest.raises(PodsimError, match=words):
            measure_tables(str(tables), **changes)  # type: ignore[arg-type]


def test_click_files(tmp_path: Path) -> None:
    parquet, path = pytest.importorskip("pyarrow.parquet"), tmp_path / "clicks.parquet"
    pyarrow = pytest.importorskip("pyarrow")
    parquet.write_table(
        pyarrow.table({"label": [0, 1], "I1": [None, 3], "C1": [7, 7], "C2": ["a", None]}), path
    )
    clicks = read_clicks(path, (10, 1000))
    assert clicks.numbers.tolist() == [[0.0], [pytest.approx(np.log(4))]]
    assert clicks.rows[0][0] == clicks.rows[0][1]
    assert clicks.rows[1].shape == (2, 1)
    for text, words in (
        ("label,I1,C1\n0,1,a\n", "C1 to C2"), ("label,I1,C1,C2\n2,1,a,b\n", "0 or 1"), ("", "CSV"),
        ("label,I1,C1,C2\n1,x,a,b\n", "I1: could not"), ("label,I1,C1,C2\n1,1,a\n", "line 2"),
        ("label,I1,C1,C2\n", "0 samples"),
    ):  # fmt: skip
        path = tmp_path / "clicks.csv"
        path.write_text(text)
        with pytest.raises(LabError, match=words):
            read_clicks(path, (10, 1000))


@pytest.mark.parametrize(
    "header", [b"{'descr': '<f8', 'shape': (1L", b"()", b"{'shape': (9" + b"9" * 30 + b",)}"]
)
def test_a_part_with_another_header_is_damaged(tmp_path: Path, header: bytes) -> None:
    """NumPy reads the header of an array as Python's text, and raises whatever that gives."""
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header + b"\n"
    with zipfile.ZipFile(tmp_path / "server-0.npz", "w") as packed:
        for name in ("rows-0", "states-0"):
            packed.writestr(f"{name}.npy", head)
    shard = Shard(rows=(4,), width=2, server=0, servers=1, cache=1.0, rate=0.1, seed=0)
    store = RowStore(shard, tmp_path)
    with pytest.raises(LabError, match="no whole part of a checkpoint"):
        store.restore([tmp_path / "server-0.npz"])
