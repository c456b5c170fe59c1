"""Metrics of a simulated day: faults that are put in are found, and healthy days are quiet."""

import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families as families
from tests.monitoring.small_day import FAULTS

import podsim
from podsim.answers.diagnosis import Diagnosis
from podsim.answers.saved_run import write_run
from podsim.answers.trained import MeasuredTraining, TrainedStep
from podsim.errors import PodsimError
from podsim.monitoring.exposition import Family, metric_text, read_metrics
from podsim.monitoring.host_source import HostSource
from podsim.monitoring.metric_server import make_server


@pytest.fixture(scope="session")
def ill(ill_day: Path) -> Diagnosis:
    return podsim.diagnose(ill_day)


@pytest.mark.parametrize(("fault", "named"), FAULTS.items())
def test_each_fault_is_found(ill: Diagnosis, fault: str, named: tuple[str, str, str]) -> None:
    assert named in {(finding.kind, finding.node, finding.part) for finding in ill.findings}


def test_nothing_else_is_found(ill: Diagnosis) -> None:
    named = {(finding.node, finding.part) for finding in ill.findings}
    assert named == {(node, part) for _, node, part in FAULTS.values()}


def test_a_healthy_day_is_quiet(healthy_day: Path) -> None:
    healthy = podsim.diagnose(healthy_day, on="dgx-a100-80gb")
    assert (healthy.gpus, healthy.ports, healthy.nodes, healthy.jobs) == (24, 24, 3, 2)
    assert not healthy.findings
    assert not healthy.unknown


def odd_family(times: int) -> Family:
    """A counter whose label holds what must be escaped."""
    values = np.arange(float(times))[:, None]
    return Family(name="odd_total", type="counter", help='a "b"\\\n', labels=['{at="a\\"b\\\\\\n"}'],
                  series=np.zeros((times, 1), np.int64), values=values)  # fmt: skip


@pytest.mark.parametrize(("form", "read"), [("prometheus", families), ("openmetrics", open_families)])
def test_another_parser_reads_what_is_written(form: str, read: object, tmp_path: Path) -> None:
    text = "".join(metric_text([odd_family(2)], form, [1.5, 2.0]))
    (family,) = read(text)  # type: ignore[operator]
    assert [(sample.labels, sample.value, float(sample.timestamp)) for sample in family.samples] == [
        ({"at": 'a"b\\\n'}, 0.0, 1.5), ({"at": 'a"b\\\n'}, 1.0, 2.0)
    ]  # fmt: skip
    (tmp_path / "dump").write_text(text)
    (series,) = read_metrics(tmp_path / "dump")["odd_total"]
    assert (series.labels, series.times, series.values) == ({"at": 'a"b\\\n'}, [1.5, 2.0], [0.0, 1.0])


def test_a_scraper_gets_the_form_that_it_accepts() -> None:
    server = make_server(lambda: [odd_family(1)], "127.0.0.1", 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/metrics"
    with (
        server,
        urlopen(Request(url, headers={"Accept": "application/openmetrics-text; version=1.0.0"})) as reply,
    ):
        assert reply.headers["Content-Type"].startswith("application/openmetrics-text")
        assert reply.read().endswith(b"# EOF\n")
        server.shutdown()


def test_this_machine_is_exported(tmp_path: Path) -> None:
    port = tmp_path / "sys/class/infiniband/mlx5_0/ports/1"
    (port / "counters").mkdir(parents=True)
    for name, text in {
        "state": "4: ACTIVE",
        "rate": "200 Gb/sec (4X HDR)",
        "counters/port_xmit_data": "10",
    }.items():
        (port / name).write_text(text + "\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/diskstats").write_text("259 0 nvme0n1 9 0 4 250 0 0\n259 1 nvme0n1p1 9 0 4 250 0 0\n")
    (tmp_path / "proc/meminfo").write_text("MemTotal:       2 kB\n")
    values = {
        family.name: family.values.tolist() for family in HostSource(root=tmp_path).families(np.zeros(1))
    }
    assert values == {
        "node_infiniband_state_id": [[4.0]], "node_infiniband_rate_bytes_per_second": [[25e9]],
        "node_infiniband_port_data_transmitted_bytes_total": [[40.0]], "node_disk_reads_completed_total": [[9.0]],
        "node_disk_read_bytes_total": [[2048.0]], "node_disk_read_time_seconds_total": [[0.25]],
        "node_memory_MemTotal_bytes": [[2048.0]],
    }  # fmt: skip


def test_fields_that_nvidia_smi_lacks_are_left_out() -> None:
    def ask(command: Sequence[str]) -> tuple[str, str]:
        fields = command[1].partition("=")[2].split(",")
        if "remapped_rows.pending" in fields:
            return "", 'Field "remapped_rows.pending" is not a valid field to query.'
        known = {"index": "0", "uuid": "GPU-1", "temperature.gpu": "41", "temperature.memory": "[N/A]",
                 "clocks_event_reasons.active": "0x0000000000000040", "remapped_rows.failure": "No"}  # fmt: skip
        return ", ".join(known.get(field, "7") for field in fields) + "\n", ""

    values = {each.name: each.values[0, 0] for each in HostSource(run=ask).families(np.zeros(1))}
    assert values["DCGM_FI_DEV_GPU_TEMP"] == 41
    assert values["DCGM_FI_DEV_CLOCKS_EVENT_REASONS"] == 0x40
    assert values["DCGM_FI_DEV_ROW_REMAP_FAILURE"] == 0
    assert not {"DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_ROW_REMAP_PENDING"} & values.keys()


def test_a_training_run_has_its_own_times(tmp_path: Path) -> None:
    steps = tuple(TrainedStep(step=step, loss=2.0 - step, seconds=2.0) for step in range(3))
    run = MeasuredTraining(
        model="tiny", changes={}, plan={"global_batch": 8}, sequence=64, all_reduce="ring", exchange="bsp",
        staleness=None, late={}, data="text", seed=0, rate=1e-3, ranks=2, backend="gloo", device="CPU", software="torch",
        hosts=("a", "a"), cores=2, emulated=None, started="2026-01-05T00:00:00+00:00", resumed=(), cpu=0.5, others=0.0,
        rows=steps,
    )  # fmt: skip
    write_run(tmp_path / "run.jsonl", run)
    podsim.exporter(str(tmp_path / "run.jsonl"), write=tmp_path / "run.om")
    (loss,) = read_metrics(tmp_path / "run.om")["podsim_train_loss"]
    assert (loss.times, loss.values) == ([1767571202.0, 1767571204.0, 1767571206.0], [2.0, 1.0, 0.0])


def test_drained_nodes_run_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    podsim.exporter("arrivals:40", on="dgx-a100-80gb:3", once=True, drain=("1",), start="2h")
    lines = capsys.readouterr().out.splitlines()
    assert "slurm_nodes_drain 1.0" in lines
    assert 'slurm_node_gpus_alloc{node="node0001"} 0.0' in lines


def test_a_fault_that_nothing_shows_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "jobs.csv"
    trace.write_text("id,submit,gpus,seconds\nsmall,0,8,28800\n")
    podsim.exporter(
        str(trace), on="dgx-a100-80gb:2", length="2h", every="1h", write=tmp_path / "day.om",
        fault=("ecmp-clash@0/1", "late-rank@0/1", "late-rank@1/1"),
    )  # fmt: skip
    assert capsys.readouterr().out.splitlines()[1:] == [
        "fault ecmp-clash@0/1@0s+7200s has no effect: no traffic on its part then",
        "fault late-rank@0/1@0s+7200s",
        "fault late-rank@1/1@0s+7200s has no effect: no job on its part then",
    ]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"fault": ("hot-gpu@9/1",)}, "there is no node 9; they are 0 to 2"),
        ({"fault": ("hot@0",)}, "did you mean hot-gpu"),
        ({"fault": ("hot-gpu@0/1@9d",)}, "must start in the day of 24 h"),
        ({"source": "host"}, "name its jobs, too"),
        ({"on": "2x8"}, "a cluster with known GPUs"),
        ({"start": "900d"}, "the queue ends after"),
        ({"host_label": "a-b"}, "host_label='a-b'"),
        ({"write": Path("no/such/folder")}, "No such file"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(PodsimError, match=says):
        podsim.exporter(
            **{"source": "arrivals:9", "on": "dgx-a100-80gb:3", "every": "6h", "once": True} | wrong
        )


def test_a_password_is_never_shown() -> None:
    with pytest.raises(PodsimError, match=r"127\.0\.0\.1") as refused:
        podsim.diagnose(prometheus="http://me:secret@127.0.0.1:1")
    assert "secret" not in str(refused.value)


def test_a_server_that_was_not_named_is_not_asked() -> None:
    asked = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(PodsimError, match="answered 302"):
            podsim.diagnose(prometheus=f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert asked == ["/api/v1/query_range"]


def test_a_file_without_metrics_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("DCGM_FI_DEV_GPU_TEMP{gpu=0} 3\n")
    with pytest.raises(PodsimError, match=r"line 1: 'gpu=0' are no labels"):
        podsim.diagnose(tmp_path / "notes.txt")


def test_random_faults_are_named_as_they_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    day = {
        "on": "dgx-a100-80gb:3",
        "length": "4h",
        "every": "1h",
        "begin": "2026-01-05",
        "write": tmp_path / "day.om",
    }
    podsim.exporter("arrivals:30", **day, fault=("random:4",), seed=1)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("fault ")]
    assert len(lines) == 4
    podsim.exporter("arrivals:30", **day, fault=[line.removeprefix("fault ") for line in lines], seed=1)
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("fault ")] == lines
