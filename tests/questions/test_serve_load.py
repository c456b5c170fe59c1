"""`podsim serve` under load: what it says agrees with itself, and what makes no sense is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import podsim
from podsim.answers.served_load import ServedLoad
from podsim.errors import PodsimError


def _served(**options: Any) -> ServedLoad:
    answer = podsim.serve("llama-3-8b", **{"on": "dgx-h100", "requests": 3000, **options})
    assert isinstance(answer, ServedLoad)
    return answer


def test_a_light_load_is_answered_as_it_comes() -> None:
    served = _served(rate="40/s", slo="ttft=1s,tpot=100ms")
    assert served.answered_rate == pytest.approx(40.0, rel=0.05)
    assert served.output_rate == pytest.approx(40.0 * 128, rel=0.05)
    assert served.good_share == 1.0
    assert served.bottleneck.startswith("nothing")
    assert served.saturation > 200
    times = {row.name: row for row in served.rows}
    assert times["end to end"].mean == pytest.approx(
        times["first token"].mean + 127 * times["each token"].mean, rel=0.01
    )
    assert sum(served.parts.values()) == pytest.approx(1.0, abs=0.01)
    rates = [point.end_to_end for point in served.curve]
    assert rates == sorted(rates)


def test_an_overload_says_so() -> None:
    served = _served(load="130%", requests=20_000, replicas=1, max_batch=32)
    assert "sequences" in served.bottleneck
    assert served.answered_rate == pytest.approx(served.saturation, rel=0.05)
    assert any("queue grows" in text for text in served.warnings)


def test_all_parts_of_a_server_go_together(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(
        "timestamp,input_tokens,output_tokens\n" + "".join(f"{k / 20},{100 + k},{5}\n" for k in range(200))
    )
    assert _served(requests=None, trace=trace).answered == 200
    assert _served(clients=16, think="100ms").rate < 160
    apart = _served(rate="40/s", tp=1, disaggregate="2:3")
    assert apart.gpus == 5
    scaled = _served(rate="40/s", autoscale="1:4:8")
    assert scaled.gpus == 4
    assert scaled.replicas_on < 4
    shared = _served(
        rate="40/s",
        shared_prefix="256:4",
        adapters="10:10:8",
        patience="30s",
        also_serve=["llama-3-70b=0.1"],
    )
    assert shared.cached > 0.4
    assert "llama-3-70b" in shared.model


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rate": "20/s", "clients": 3}, "give one of them"),
        ({"rate": "fast"}, "rate"),
        ({"rate": "20/s", "arrivals": "gamma"}, "gamma:CV"),
        ({"rate": "20/s", "slo": "first=1s"}, "ttft"),
        ({"rate": "20/s", "disaggregate": "9:9"}, "more than the 8"),
        ({"rate": "20/s", "autoscale": "4:2"}, "1 to 8 replicas"),
        ({"rate": "20/s", "batch": "8"}, "max-batch"),
        ({"scheduler": "vllm"}, "--rate"),
        ({"rate": "20/s", "also_serve": ["llama-3-70b"]}, "share"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(PodsimError, match=words):
        _served(**options)
