"""A real Prometheus: its tools accept the metrics, alerts fire for each fault, and every panel has an answer."""

import json
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from tests.monitoring.small_day import FAULTS

import podsim
from podsim.monitoring.exposition import label_text, read_metrics

PACKAGED = files("podsim.monitoring") / "files"
BEGIN = 1767571200
"""s since 1970 of the day's first moment"""
GPU, PORT, NODE = 'hostname="{0}",gpu="{1}"', 'instance="{0}:9100",device="{1}"', 'node="{0}"'
ALERTS = {
    "hot-gpu": {"GPUHot": GPU, "GPUThrottled": GPU, "GPUComputesLonger": GPU, "JobSlowerThanPredicted": ""},
    "power-brake": {"GPUThrottled": GPU, "GPUComputesLonger": GPU},
    "late-rank": {"GPUStraggles": GPU},
    "idle-gpu": {"GPUIdleInJob": GPU},
    "failing-memory": {"GPUXid": GPU, "GPUDoubleBitErrors": GPU, "GPURowRemapPending": GPU},
    "failing-remap": {"GPUXid": GPU, "GPURowRemapFailed": GPU},
    "lost-gpu": {"GPUXid": GPU, "GPULost": NODE},
    "failing-nvlink": {"GPUXid": GPU, "GPUNVLinkErrors": GPU},
    "narrow-pcie": {"GPUPCIeNarrow": GPU, "GPUPCIeReplays": GPU},
    "slow-link": {"PortSlow": PORT, "PortCongested": PORT},
    "flapping-port": {"PortFlaps": PORT},
    "bad-cable": {"PortSymbolErrors": PORT, "PortCongested": PORT},
    "wrong-cable": {"PortMiscabled": PORT},
    "ecmp-clash": {"PortCongested": PORT},
    "slow-disk": {"DiskSlow": PORT},
    "dead-node": {"NodeSilent": NODE, "NodesDown": ""},
}
"""the alerts that each kind of fault sets off, and the labels that name its part"""
ENDS = {"1h": 115, "3h": 235, "5h": 355, "7h": 445}
"""min. When the faults that start at an hour of the day have lasted"""
pytestmark = pytest.mark.prometheus


def check_rules(day: Path, expected: Mapping[tuple[str, int], int], every: str = "5m") -> None:
    """Hold what promtool says of queries at minutes of a day (no sample: 0) against what is expected."""
    rules = PACKAGED.joinpath("alerts.yml").read_text("utf-8")
    series = []
    for metric, group in read_metrics(day).items():
        for each in group if metric in rules else ():
            values = ["_"] * 97
            for moment, value in zip(each.times, each.values, strict=True):
                values[round((moment - BEGIN) / 300)] = repr(value)
            series.append({"series": metric + label_text(each.labels), "values": " ".join(values)})
    expressions = [
        {"expr": query, "eval_time": f"{minute}m", "exp_samples": [{"value": value}] if value else []}
        for (query, minute), value in expected.items()
    ]
    tests = [{"interval": "5m", "input_series": series, "promql_expr_test": expressions}]
    folder = day.parent
    (folder / "alerts.yml").write_text(rules)
    (folder / "test.yml").write_text(
        json.dumps({"rule_files": ["alerts.yml"], "evaluation_interval": every, "tests": tests})
    )
    done = subprocess.run(
        ["promtool", "test", "rules", "test.yml"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert not done.returncode, (done.stdout + done.stderr)[:4000]


def test_alerts_fire_for_each_fault(ill_day: Path) -> None:
    expected = {}
    for fault, (_, node, part) in FAULTS.items():
        kind, _, start = fault.partition("@")
        for alert, labels in ALERTS[kind].items():
            where = labels.format(node, part.removeprefix("GPU "))
            query = f'count(ALERTS{{alertstate="firing",alertname="{alert}",{where}}})'
            expected[query, ENDS[start.partition("@")[2].partition("+")[0]]] = 1
    check_rules(ill_day, expected)


def test_no_alert_fires_on_a_healthy_day(healthy_day: Path) -> None:
    check_rules(healthy_day, {("count(ALERTS)", minute): 0 for minute in ENDS.values()}, "15m")


def test_promtool_accepts_a_scrape(capsys: pytest.CaptureFixture[str]) -> None:
    podsim.exporter("arrivals:9", on="dgx-a100-80gb:3", once=True)
    text = capsys.readouterr().out
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 3), (
        done.stderr
    )  # 3: names that dcgm-exporter has are not those that promtool advises
    assert "error while linting" not in done.stderr


@pytest.fixture(scope="module")
def server(ill_day: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that has the day."""
    folder = tmp_path_factory.mktemp("prometheus")
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", "-q", str(ill_day), str(folder / "data")], check=True,
        capture_output=True,
    )  # fmt: skip
    (folder / "prometheus.yml").write_text("global: {scrape_interval: 15s}\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
               f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=100y"]  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(300):
                try:
                    with urlopen(f"{url}/-/ready", timeout=5):
                        break
                except (URLError, OSError):
                    time.sleep(0.1)
            yield url
        finally:
            process.terminate()


def asked(server: str, query: str, start: float, end: float) -> list[Any]:
    text = urlencode({"query": query, "start": start, "end": end, "step": 600})
    with urlopen(f"{server}/api/v1/query_range?{text}", timeout=30) as reply:
        answer = json.load(reply)
    assert answer["status"] == "success", answer
    return list(answer["data"]["result"])


@pytest.mark.parametrize("name", [each.name for each in sorted(PACKAGED.joinpath("dashboards").iterdir())])
def test_every_panel_has_an_answer(server: str, name: str) -> None:
    board = json.loads(PACKAGED.joinpath("dashboards", name).read_text("utf-8"))
    variables = [each["name"] for each in board["templating"]["list"]]
    for panel in board["panels"]:
        for target in panel["targets"]:
            query = target["expr"].replace("$__rate_interval", "15m")
            for variable in variables:
                query = query.replace(f"${variable}", ".*")
            assert asked(server, query, BEGIN, BEGIN + 28800), (panel["title"], query)


def test_a_server_is_diagnosed_as_its_dump(server: str, ill_day: Path) -> None:
    asked_of = podsim.diagnose(prometheus=server, window="8h", end="2026-01-05T08:00")
    dumped = podsim.diagnose(ill_day)
    assert {(each.kind, each.node, each.part) for each in asked_of.findings} == {
        (each.kind, each.node, each.part) for each in dumped.findings
    }
