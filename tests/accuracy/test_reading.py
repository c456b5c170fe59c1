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

HEADER = "id,model,layers,hidden,heads,seq_len,gpu,n_gpus,tp,pp,micro_batch,global_batch,step_time_s"
LINE = "mine,GPT,24,2048,16,2048,A100-SXM4,8,2,1,4,64,1.25"
VISION = "model,task,gpu,n_gpus,precision,batch_per_gpu,throughput"
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
    text = f"\ufeff{HEADER},site\r\n\r\n{LINE},Ulm\r\n,GPT,24,2048,16,2048,A100-SXM4,8,4,1,4,64,1.5,\r\n"
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
        ("a,b\n1,2\n", "those of no reference table. Needed for llm: model, seq_len"),
        (f"{HEADER.replace('seq_len,', '')}\n", "looks like a table of kind 'llm'; missing columns: seq_len"),
        ("model,gpu,n_gpus,tokens_per_s\n", "looks like a table of kind 'llm'; missing columns: seq_len"),
        ("model,gpu,n_gpus,throughput\n", "looks like a table of kind 'vision'; missing columns: task, precision"),
        (f"{HEADER.replace(',step_time_s', '')}\n", "nothing measured: needs one of step_time_s"),
        (f"{HEADER},recomputes\n{LINE},full\n", "unknown column 'recomputes': did you mean recompute"),
        (f"{HEADER},id\n{LINE},x\n", "columns named twice: id"),
        (f"{HEADER}\n{LINE},extra\n", "line 2: 14 cells, but the header names 13 columns"),
        (f"{HEADER}\n\n{LINE[:-4]}soon\n", "line 3: step_time_s='soon' is not a finite number"),
        (f"{HEADER}\n{LINE[:-4]}-1\n", "line 2: step_time_s='-1' must be greater than 0"),
        (f"{HEADER}\n{LINE[:-4]}0\n", "line 2: step_time_s='0' must be greater than 0"),
        (f"{HEADER}\n{LINE[:-4]}nan\n", "not a finite number"),
        (f"{HEADER}\n{LINE[:-4]}1e999\n", "not a finite number"),
        (f"{HEADER}\n{LINE[:-4]}1_0\n", "not a finite number"),
        (f"{HEADER}\n{LINE.replace(',24,', ',24.5,')}\n", "line 2: layers='24.5' must be a whole number"),
        (f"{HEADER},role\n{LINE},train\n", "role='train' is no role: calibrate or test"),
        (f'{HEADER}\n"{LINE}\n', "line 2: unexpected end of data"),
        (f"{HEADER}\n{LINE}\n\0\n", "line 3 is binary"),
        (f"{VISION}\nm,train,A100,8,FP16,256,9\n", "throughput needs a rate as its unit"),
    ],
)  # fmt: skip
def test_mistakes_are_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(TableError) as caught:
        read_rows(written(tmp_path, text))
    assert says in str(caught.value)
    assert "mine.csv" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (f"{LINE}\n", "id 'mine' stands on line 2 already"),
        (f"a{LINE[:-4]}soon\n", "line 3: step_time_s='soon' is not a finite number"),
        (f"a{LINE},extra\n", "line 3: 14 cells, but the header names 13 columns"),
        ("a,GPT,24\n", "line 3: 3 cells"),
        (f"a{LINE.replace(',24,', ',-1,')}\n", "line 3: layers='-1' must be greater than 0"),
    ],
)
def test_a_wrong_row_is_listed_and_the_others_are_compared(tmp_path: Path, line: str, says: str) -> None:
    _, rows = read_rows(written(tmp_path, f"{HEADER}\n{LINE}\n{line}"))
    right, wrong = rows
    assert right.text("reason") == ""
    assert says in wrong.text("reason")
    assert right.id != wrong.id


def test_numbers_are_read_as_sources_write_them(tmp_path: Path) -> None:
    start, unit = "ResNet,train,A100,8,FP16,256", "Imgs/sec per GPU"
    text = f'{VISION},unit\n{start},"12,345.5",{unit}\n{start},1.5k,{unit}\n'
    _, rows = read_rows(written(tmp_path, text))
    first, second = (measurement(row, "samples/s") for row in rows)
    assert first is not None
    assert second is not None
    assert (first.value, second.value) == (8 * 12345.5, 8 * 1500.0)


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    lines = "\n".join(f"r{i}{LINE.removeprefix('mine')[:-4]}-{i + 1}" for i in range(20))
    with pytest.raises(TableError, match=r"line 2: .*line 13: .*and 8 more"):
        read_rows(written(tmp_path, f"{HEADER}\n{lines}\n"))


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
