"""User files: what is read, and that every mistake is a TableError that says where."""

from __future__ import annotations

import csv
import gzip
import io
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podsim.accuracy import reading
from podsim.accuracy.reading import read_rows
from podsim.accuracy.table_columns import KINDS
from podsim.accuracy.tables import Rows, load, measurement
from podsim.errors import TableError

HEADER = "id,network,cluster,plan,seq_len,n_gpus,global_batch,step_time_s"
LINE = "mine,gpt-22b,dgx-a100-80gb:1,tp=2,2048,8,64,1.25"
VISION = "network,cluster,plan,throughput"
OFTEN = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def written(folder: Path, content: str | bytes, name: str = "mine.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


def as_csv(name: str, limit: int = 300) -> str:
    rows, out = load(name), io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows.rows[0].fields)
    writer.writerows([row.fields.values() for row in rows.rows[:limit]])
    return out.getvalue()


def rows_or_refusal(path: Path) -> tuple[str, Rows] | None:
    """What was read; None if it was refused in the one way allowed."""
    try:
        return read_rows(path)
    except TableError as problem:
        if path.name not in str(problem):
            raise AssertionError(f"no file named in: {problem}") from problem
        return None


@pytest.mark.parametrize("name", [kind.name for kind in KINDS])
def test_reference_tables_read_back(tmp_path: Path, name: str) -> None:
    kind, rows = read_rows(written(tmp_path, as_csv(name)))
    assert kind == name
    assert rows.rows == load(name).rows[:300]


def test_a_small_file_of_ones_own(tmp_path: Path) -> None:
    text = f"\ufeff{HEADER},site\r\n\r\n{LINE},Ulm\r\n,gpt-22b,dgx-a100-80gb:1,tp=4,2048,8,64,1.5,\r\n"
    kind, rows = read_rows(written(tmp_path, text))
    first, second = rows
    assert (kind, rows.name, rows.what) == ("llm", "mine", "seconds per step")
    assert (first.id, first.role, first.source, first.confirmed) == ("mine", "test", "mine.csv", "not stated")
    assert first.number("step_time_s") == 1.25
    assert first.text("site") == "Ulm"
    assert first.text("recompute") == ""  # a known column that the file does not have
    assert second.id == "line-4"


def test_a_packed_file(tmp_path: Path) -> None:
    kind, rows = read_rows(written(tmp_path, gzip.compress(f"{HEADER}\n{LINE}\n".encode()), "mine.csv.gz"))
    assert (kind, len(rows)) == ("llm", 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        (f"{HEADER}\n", "no rows below the header"),
        ("a,b\n1,2\n", "those of no reference table. Needed for llm: network, cluster, plan"),
        (f"{HEADER.replace('plan,', '')}\n", "looks like a table of kind 'llm'; missing columns: plan"),
        (f"{HEADER.replace(',step_time_s', '')}\n", "nothing measured: needs one of step_time_s"),
        (f"{HEADER},id\n{LINE},x\n", "columns named twice: id"),
        (f'{HEADER}\n"{LINE}\n', "line 2: unexpected end of data"),
        (f"{HEADER}\n{LINE}\n\0\n", "line 3 is binary"),
        ("model,seq_len,gpu,n_gpus,tp,step_time_s\n", "python reference/curate.py training mine.csv OUT.csv"),
        (
            "model,task,gpu,n_gpus,precision,batch_per_gpu,throughput\n",
            "reference/curate.py networks mine.csv",
        ),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(TableError) as caught:
        read_rows(written(tmp_path, text))
    assert says in str(caught.value)
    assert "mine.csv" in str(caught.value)


def test_columns_and_roles_that_podsim_does_not_know_refuse_nothing(tmp_path: Path) -> None:
    text = f"{HEADER},step_time,role\n{LINE},9,unseen\nb{LINE},9,calibrate\n"
    _, rows = read_rows(written(tmp_path, text.replace("n_gpus", "n_gpu")))
    assert [row.role for row in rows] == ["test", "calibrate"]
    assert [row.text("reason") for row in rows] == ["", ""]
    assert rows.remarks == (
        "unknown column 'n_gpu' is not read: did you mean n_gpus?",
        "role='unseen' of 1 row is no role (calibrate, test, broken): counts as test",
    )


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("soon", "line 2: step_time_s='soon' is not a finite number"),
        ("-1", "line 2: step_time_s='-1' must be greater than 0"),
        ("0", "line 2: step_time_s='0' must be greater than 0"),
        ("nan", "not a finite number"),
        ("1e999", "not a finite number"),
        ("1_0", "not a finite number"),
        ("1.25,extra", "line 2: 9 cells, but the header names 8 columns"),
    ],
)
def test_a_file_of_wrong_rows_is_read(tmp_path: Path, cell: str, says: str) -> None:
    _, rows = read_rows(written(tmp_path, f"{HEADER}\n{LINE.removesuffix('1.25')}{cell}\n"))
    (row,) = rows
    assert says in row.text("reason")
    assert row.id == "mine"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (f"{LINE}\n", "id 'mine' stands on line 2 already"),
        (f"a{LINE[:-4]}soon\n", "line 3: step_time_s='soon' is not a finite number"),
        (f"a{LINE},extra\n", "line 3: 9 cells, but the header names 8 columns"),
        ("a,GPT,24\n", "line 3: 3 cells"),
        (f"a{LINE.replace(',64,', ',-1,')}\n", "line 3: global_batch='-1' must be greater than 0"),
        (f"a{LINE.replace(',64,', ',24.5,')}\n", "line 3: global_batch='24.5' must be a whole number"),
    ],
)
def test_a_wrong_row_is_listed_and_the_others_are_compared(tmp_path: Path, line: str, says: str) -> None:
    _, rows = read_rows(written(tmp_path, f"{HEADER}\n{LINE}\n{line}"))
    right, wrong = rows
    assert right.text("reason") == ""
    assert says in wrong.text("reason")
    assert right.id != wrong.id


def test_numbers_are_read_as_spreadsheets_write_them(tmp_path: Path) -> None:
    start = "resnet50,dgx-a100-80gb:1,gpus=8"
    _, rows = read_rows(written(tmp_path, f'{VISION}\n{start},"12,345.5"\n{start},1.5k\n'))
    first, second = (measurement(row, "samples/s") for row in rows)
    assert first is not None
    assert second is not None
    assert (first.value, second.value) == (12345.5, 1500.0)


def test_every_mistake_of_a_row_is_named(tmp_path: Path) -> None:
    _, rows = read_rows(written(tmp_path, f"{HEADER}\n{LINE.replace(',8,64,', ',x,-1,')}\n"))
    assert rows.rows[0].text("reason") == (
        "line 2: n_gpus='x' is not a finite number; global_batch='-1' must be greater than 0"
    )


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="no such file"):
        read_rows(tmp_path / "missing.csv")
    with pytest.raises(TableError, match="cannot be read"):
        read_rows(tmp_path)
    with pytest.raises(TableError, match="cannot be read"):
        read_rows(written(tmp_path, b"\x1f\x8b\x08garbage"))
    with pytest.raises(TableError, match="line 2 is not UTF-8"):
        read_rows(written(tmp_path, f"{HEADER}\n".encode() + b"\xff\xfe\n"))
    with pytest.raises(TableError, match="cannot be read"):
        read_rows("a\0b.csv")


def test_files_that_are_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LIMIT", 2_000_000)
    for content in (b" " * 2_000_001, gzip.compress(b" " * 2_000_001)):
        with pytest.raises(TableError, match="larger than 1 MiB"):
            read_rows(written(tmp_path, content))


def test_a_cell_beyond_the_csv_limit(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="field larger than field limit"):
        read_rows(written(tmp_path, f"{HEADER}\n{'x' * 200_000}\n"))


@OFTEN
@given(st.binary(max_size=400))
def test_any_bytes_give_rows_or_a_table_error(tmp_path: Path, content: bytes) -> None:
    rows_or_refusal(written(tmp_path, content))


@OFTEN
@given(st.sampled_from([kind.name for kind in KINDS]), st.randoms(use_true_random=False), st.text(max_size=6))
def test_damaged_tables_give_rows_or_a_table_error(
    tmp_path: Path, name: str, chance: random.Random, insert: str
) -> None:
    text = as_csv(name, limit=4)
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(text) + 1)
        text = (
            text[:start]
            + chance.choice([insert, "", ",", '"', "\n", "-", "1e400"])
            + text[start + chance.randint(0, 8) :]
        )
    kind_and_rows = rows_or_refusal(written(tmp_path, text.encode("utf-8", "surrogatepass")))
    if kind_and_rows is not None:
        kind, rows = kind_and_rows
        assert kind in {k.name for k in KINDS}
        assert all(row.source and row.role for row in rows)
