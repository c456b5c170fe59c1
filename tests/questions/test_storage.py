"""`podsim storage`: every command with right and wrong input, in text, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import podsim as package
from podsim.storage.fio_results import read_fio

Run = Callable[..., Result]
DATA = Path(__file__).parents[1] / "storage" / "data"
ON = ("--on", "weka-ra:4")
ONLY_CLI = {"json", "csv", "plot", "fio_json"}


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("show",), ("show", "weka-ra"), ("fio", *ON), ("fio", *ON, "--rw", "randrw"), ("mdtest", *ON),
    ("fail", *ON, "--servers", "2"), ("input", "resnet50", *ON), ("input", "cosmoflow", *ON, "--accelerator", "h100"),
    ("validate",), ("size", "resnet50", "--on", "dgx-a100-40gb:32"),
    ("size", "llama-3.1-70b", "--on", "superpod-a100:2su"),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_text_json_and_csv(podsim: Run, command: tuple[str, ...]) -> None:
    text = podsim("storage", *command)
    assert text.exit_code == 0
    assert command == ("validate",) or all(len(line) <= 110 for line in text.stdout.splitlines())
    assert json.loads(podsim("storage", *command, "--json").stdout)
    rows = list(csv.DictReader(io.StringIO(podsim("storage", *command, "--csv").stdout)))
    assert rows
    both = podsim("storage", *command, "--json", "--csv")
    assert both.exit_code == 2


def test_the_text_of_the_reference_architecture(podsim: Run) -> None:
    read = podsim("storage", "fio", *ON).stdout
    assert "64 GB/s" in read
    assert "client cores" in read
    assert "3.54M" in podsim("storage", "fio", *ON, "--rw", "randread", "--bs", "4k").stdout
    assert "12.00 min" in podsim("storage", "input", "resnet50", *ON).stdout


def test_a_prediction_in_fio_s_form_is_read_as_fio_s(podsim: Run, tmp_path: Path) -> None:
    path = tmp_path / "predicted.json"
    path.write_text(podsim("storage", "fio", *ON, "--rw", "randrw", "--rwmixread", "70", "--fio-json").stdout)
    found = read_fio(path)
    assert (found.clients, found.rw, found.block, found.numjobs, found.iodepth) == (4, "randrw", 4096, 64, 8)
    beside = json.loads(podsim("storage", "fio", "--on", "weka-ra", "--against", path, "--json").stdout)
    assert beside["rows"][-1]["clients"] == 4
    assert beside["read_share"] == pytest.approx(0.7)
    assert beside["measured"]["read_iops"] == pytest.approx(0.7 * beside["rows"][-1]["iops"], rel=1e-6)


FILE_KEYS = "fio version, timestamp, timestamp_ms, time, global options, jobs, disk_util"
SIDE_KEYS = (
    "io_bytes, io_kbytes, bw_bytes, bw, iops, runtime, total_ios, short_ios, drop_ios, slat_ns, clat_ns, lat_ns, bw_min,"
    " bw_max, bw_agg, bw_mean, bw_dev, bw_samples, iops_min, iops_max, iops_mean, iops_stddev, iops_samples"
)


def test_a_prediction_has_the_keys_that_fio_3_33_writes(podsim: Run) -> None:
    made = json.loads(podsim("storage", "fio", *ON, "--rw", "read", "--fio-json").stdout)
    assert set(made) == set(FILE_KEYS.split(", "))
    for side in ("read", "write", "trim"):
        assert set(made["jobs"][0][side]) == set(SIDE_KEYS.split(", "))
    for job in made["jobs"]:
        assert job["read"]["bw_min"] == job["read"]["bw_max"] == 16e9 / 1024
        assert job["read"]["slat_ns"]["N"] == job["write"]["lat_ns"]["N"] == 0
        assert job["read"]["bw_agg"] == pytest.approx(25.0)


def test_a_real_run_laid_beside(podsim: Run) -> None:
    text = podsim("storage", "fio", "--on", "local-nvme", "--against", DATA / "fio_randrw.json").stdout
    assert "fio-3.33" in text
    assert "read mean latency" in text
    assert "write bandwidth" in text
    assert "page cache" not in text


def test_a_run_through_the_page_cache_is_told(podsim: Run, tmp_path: Path) -> None:
    text = (DATA / "fio_randrw.json").read_text().replace('"direct": "1"', '"direct": "0"')
    path = tmp_path / "buffered.json"
    path.write_text(text)
    assert "page cache" in podsim("storage", "fio", "--on", "local-nvme", "--against", path).stdout


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_plot(podsim: Run, tmp_path: Path, kind: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"scaling.{kind}"
    assert podsim("storage", "fio", "--on", "weka-ra:8", "--plot", path).exit_code == 0
    assert path.read_bytes()[:5] == (b"<?xml" if kind == "svg" else b"\x89PNG\r")


def test_lost_data_is_exit_status_one(podsim: Run) -> None:
    assert podsim("storage", "fail", *ON, "--servers", "2").exit_code == 0
    lost = podsim("storage", "fail", *ON)
    assert lost.exit_code == 1
    assert "data loss: 35.7%" in lost.stdout


def test_beyond_the_guidance_is_exit_status_one(podsim: Run) -> None:
    found = podsim("storage", "size", "video", "--on", "dgx-h100:32")
    assert found.exit_code == 1
    assert "beyond" in found.stdout
    assert found.stdout.count(" no\n") == 3  # no row of the guidance covers it


def test_every_bar_is_met(podsim: Run) -> None:
    found = podsim("storage", "validate")
    assert found.exit_code == 0
    assert "3 of 3" in found.stdout


def test_images_on_one_unit_ask_for_the_row_of_images() -> None:
    assert package.storage_size("resnet50", on="dgx-a100-40gb:32").tier == "better"
    assert package.storage_size("llama-3.1-8b", on="dgx-h100:32").tier == "good"


def test_tokens_are_read_as_other_commands_read_them() -> None:
    text, number = (
        package.storage_size("gpt3-175b", on="dgx-a100:16", tokens=given) for given in ("300G", 3e11)
    )
    assert text == number
    assert any(need.value == 1.2e12 for need in text.needs)


@pytest.mark.parametrize("system", ["weka-ra", "lustre-ai400x"])
def test_the_servers_that_would_do_do_and_one_less_does_not(system: str) -> None:
    size = package.storage_size("unet3d", on="dgx-a100-80gb:16", accelerator="a100")
    servers = size.systems[system]
    read = [
        package.storage_fio(f"{system}:16", overrides={"servers": str(n)}, client="dgx-a100-80gb")
        .rows[-1]
        .bandwidth
        for n in (servers, max(servers - 1, 1))
    ]
    assert read[0] >= size.read * (1 - 1e-9)
    assert servers in (1, 8) or read[1] < size.read


WRONG: tuple[tuple[tuple[object, ...], str], ...] = (
    (("fio", "--on", "wekka:4"), "did you mean"),
    (("fio", "--on", "weka-ra:0"), "clients"),
    (("fio", *ON, "--rw", "erase"), "unknown pattern"),
    (("fio", *ON, "--bs", "0"), "512 B"),
    (("fio", *ON, "--bs", "-4k"), "cannot read"),
    (("fio", *ON, "--numjobs", "0"), "numjobs=0"),
    (("fio", *ON, "--runtime", "-1"), "runtime"),
    (("fio", *ON, "--rwmixread", "101", "--rw", "rw"), "rwmixread"),
    (("fio", *ON, "--set", "servers=-1"), "servers"),
    (("fio", *ON, "--set", "server.red=1"), "unknown key"),
    (("fio", *ON, "--set", "servers"), "expected key=value"),
    (("fio", *ON, "--client", "dgx-z"), "unknown system"),
    (("fio", *ON, "--plot", "scaling.pdf"), ".svg or .png"),
    (("fio", *ON, "--fio-json", "--csv"), "choose one"),
    (("fio", *ON, "--against", "nowhere.json"), "cannot be read"),
    (("fio", *ON, "--against", DATA / "fio_randrw.json", "--bs", "4k"), "cannot be given"),
    (("mdtest", *ON, "--tasks", "2"), "at least one for each"),
    (("mdtest", *ON, "--items", "0"), "items=0"),
    (("fail", *ON, "--servers", "9"), "has 8"),
    (("fail", *ON, "--servers", "-1"), "0 to 8"),
    (("fail", *ON, "--fill", "2"), "fill=2"),
    (("fail", "--on", "nfs-a400:2"), "protection is not known"),
    (("input", "alexnet9", *ON), "unknown workload"),
    (("input", "resnet50", *ON, "--cache-size", "2000000TB"), "memory"),
    (("input", "resnet50", *ON, "--cache-size", "plenty"), "cannot read"),
    (("size", "gpt9", "--on", "dgx-a100:2"), "workloads:"),
    (("size", "resnet50", "--on", "dgx-a100:2", "--tokens", "5"), "tokens are a language model's"),
    (("size", "resnet50", "--on", "dgx-a100:2", "--slower", "-1"), "slower=-1"),
    (("size", "llama-3.1-8b", "--on", "dgx-a100:2", "--batch", "8"), "not of models"),
    (("size", "llama-3.1-8b", "--on", "dgx-a100:2", "--tokens", "-8"), "tokens='-8'"),
    (("size", "llama-3.1-8b", "--on", "dgx-a100:2", "--tokens", "many"), "such as 15T"),
    (("size", "resnet50", "--on", "dgx-a100:2", "--shuffle", "well"), "unknown shuffle"),
    (("size", "resnet50", "--on", "dgx-z:2"), "unknown cluster"),
    (("show", "nothing"), "unknown storage system"),
)


@pytest.mark.parametrize(("command", "says"), WRONG, ids=lambda value: str(value)[:60])
def test_wrong_input_is_one_screen_and_exit_status_two(
    podsim: Run, command: tuple[object, ...], says: str
) -> None:
    result = podsim("storage", *command)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert says in result.stderr
    assert len(result.stderr) < 3000
    assert "Traceback" not in result.stderr


def test_a_corrupt_file_of_fio(podsim: Run, tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_text((DATA / "fio_randread.json").read_text()[:700])
    result = podsim("storage", "fio", *ON, "--against", path)
    assert result.exit_code == 2
    assert "is not JSON" in result.stderr
