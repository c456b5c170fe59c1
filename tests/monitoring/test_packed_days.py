"""A day packed by gzip says the same as its text; damaged ones say so."""

import gzip
from pathlib import Path

import pytest

import podsim
from podsim.errors import PodsimError


def test_a_packed_day_is_the_same_day(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "jobs.csv").write_text("id,submit,gpus,seconds\nlarge,0,16,7200\n")
    for name in ("day.om", "day.om.gz"):
        podsim.exporter(str(tmp_path / "jobs.csv"), on="dgx-a100-80gb:2", length="2h", every="5min", begin="2026-01-05",
                        fault=("hot-gpu@0/3@30min+1h",), write=tmp_path / name)  # fmt: skip
    text, packed = (tmp_path / "day.om").read_bytes(), (tmp_path / "day.om.gz").read_bytes()
    assert gzip.decompress(packed) == text
    assert len(packed) < 0.15 * len(text)
    said = [line for line in capsys.readouterr().err.splitlines() if "of text" in line]
    assert float(said[0].split()[2]) * 1e6 == pytest.approx(len(text), rel=0.15)
    assert said[0].endswith("with --write day.om.gz a fraction of it")
    assert (
        podsim.diagnose(tmp_path / "day.om.gz").findings
        == podsim.diagnose(tmp_path / "day.om").findings
        != ()
    )
    for damaged in (packed[: len(packed) // 2], packed[:200] + b"\0" * 50 + packed[250:]):
        (tmp_path / "bad.om.gz").write_bytes(damaged)
        with pytest.raises(PodsimError, match=r"bad\.om\.gz: "):
            podsim.diagnose(tmp_path / "bad.om.gz")
