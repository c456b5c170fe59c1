"""Request traces: the forms that are published, and files that are none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from podsim.errors import TableError
from podsim.serving import trace_file
from podsim.serving.benchmark_files import read_requests
from podsim.serving.trace_file import read_request_trace

AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n"
    "2023-11-16 18:17:04.0319600,3180,8\r\n\n2023-11-17 00:00:00.0000000,110,27"
)
MOONCAKE = "".join(
    json.dumps({"timestamp": time, "input_length": tokens, "output_length": 2, "hash_ids": ids}) + "\n"
    for time, tokens, ids in ((0, 1100, [0, 1, 2]), (3000, 700, [0, 4]), (1500, 20, []))
)


def test_azure_times_are_dates(tmp_path: Path) -> None:
    path = tmp_path / "azure.csv"
    path.write_text(AZURE)
    table, notes = read_request_trace(path)
    assert table.arrival.tolist() == pytest.approx([0.0, 0.052, 20576.02004], abs=1e-6)
    assert table.input_tokens.tolist() == [4808, 3180, 110]
    assert notes == ()


def test_mooncake_requests_keep_their_blocks_when_they_are_sorted(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl.gz"
    path.write_bytes(gzip.compress(MOONCAKE.encode()))
    table, notes = read_request_trace(path)
    assert table.arrival.tolist() == [0.0, 1.5, 3.0]
    assert table.prefix_first.tolist() == [0, 3, 3, 5]
    assert table.prefix_ids.tolist() == [0, 1, 2, 0, 4]
    assert len(notes) == 1
    assert "1 of 3 rows" in notes[0]


def test_bailian_has_seconds_and_short_blocks(tmp_path: Path) -> None:
    path = tmp_path / "qwen.jsonl"
    path.write_text(
        '{"chat_id": 1, "timestamp": 2.5, "input_length": 9, "output_length": 0, "type": "t{", "hash_ids": [7]}'
    )
    table, notes = read_request_trace(path)
    assert (table.prefix_tokens, table.output_tokens.tolist()) == (16, [1])
    assert "no token" in notes[0]


def test_pieces_of_any_size_give_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "long.csv"
    lines = [f"{k / 8},{k % 97 + 1},{k % 13 + 1}" for k in range(30_000)]
    path.write_text("arrival,input_tokens,output_tokens\n" + "\n".join(lines))
    whole, _ = read_request_trace(path)
    monkeypatch.setattr(trace_file, "_PIECE", 1 << 10)
    monkeypatch.setattr(trace_file, "_ROWS", 100)
    parts, _ = read_request_trace(path)
    assert len(whole) == 30_000
    np.testing.assert_array_equal(whole.arrival, np.arange(30_000) / 8)
    np.testing.assert_array_equal(whole.input_tokens, parts.input_tokens)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("a,b\n1,2\n", "no column has the times"),
        ("time,input_tokens,output_tokens\n", "no requests"),
        ("time,input_tokens,output_tokens\n0,1,1\n\n-1,1,1\n", "line 4: '-1,1,1' has negative times"),
        ("time,input_tokens,output_tokens\n0,1,-1\n", "line 2: '0,1,-1' has negative output tokens"),
        ("time,input_tokens,output_tokens\n0,x,1\n", "cannot be read"),
        ("time,input_tokens,output_tokens\n0,1\n", "has no output tokens"),
        ("time,input_tokens,output_tokens\n0,1.5,1\n", "not whole"),
        ("time,input_tokens,output_tokens\n0,1e12,1\n", "too many input tokens"),
        ("time,input_tokens,output_tokens\nnan,1,1\n", "cannot be read"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-13-16 18:17:03,1,1\n", "cannot be read"),
        ('{"timestamp": 0, "input_length": 1, "output_length"', "no flat JSON object"),
        ('{"timestamp": 0, "input_length": 1}', "has no output tokens"),
        ('{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1, "a"]}', "block ids"),
        ("\0\1", "binary"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(TableError, match="trace") as caught:
        read_requests(path)
    assert message in str(caught.value)


def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("time,input_tokens,output_tokens\n" + "1" * 6_000_000)
    with pytest.raises(TableError, match=r"4 MiB|cannot be read"):
        read_request_trace(path)
