"""The measured servers that are like a prediction: which is nearest, which are alike, and what is printed of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsim.report.best_tables import band_text, measured_text
from podsim.serving.measured_points import PredictedServer, measured_points, packaged_rows

SERVER = PredictedServer(
    model="llama-3.1-70b", gpu="h200-sxm5-141gb", plan={"engine": "vllm-0.13", "precision": "fp8"}, input_tokens=1024,
    output_tokens=1024, user=50.0,
)  # fmt: skip
ROW = {
    "id": "a", "model": SERVER.model, "gpu": SERVER.gpu, "engine": "vllm", "engine_version": "0.11.0",
    "precision": "fp8", "measured": "2025-10-29", "mode": "aggregated", "draft": "", "shortest": "1", "gpus": "2",
    "input_tokens": "1024", "output_tokens": "1024", "concurrency": "32", "each_token_s_median": "0.02",
    "first_token_s_median": "0.2", "total_tokens_per_s_per_gpu": "", "output_tokens_per_s_per_gpu": "",
    "output_tokens_per_s_per_decode_gpu": "", "decode_gpus": "", "prefill_gpus": "",
}  # fmt: skip


def _ids(*rows: dict[str, str]) -> list[str]:
    return [point.id for point in measured_points(SERVER, rows)]


def test_differences_count_in_octaves() -> None:
    (same,) = measured_points(SERVER, [ROW])
    assert (same.user, same.each, same.first) == (50.0, 0.02, 0.2)
    assert same.distance == pytest.approx(0.0)
    for changes, octaves in (
        ({"input_tokens": "2048"}, 1), ({"output_tokens": "256"}, 2), ({"each_token_s_median": "0.01"}, 1),
        ({"engine": "sglang"}, 1), ({"precision": "bf16"}, 1), ({"model": "llama-3.1-8b"}, 8), ({"gpu": "b200"}, 8),
    ):  # fmt: skip
        (point,) = measured_points(SERVER, [{**ROW, **changes}])
        assert point.distance == pytest.approx(octaves)


def test_the_nearest_comes_first_and_only_those_alike_follow() -> None:
    longer = {**ROW, "id": "longer", "input_tokens": "8192"}
    slower = {**ROW, "id": "slower", "each_token_s_median": "0.05"}
    assert _ids(longer, slower, ROW) == ["a", "slower"]
    assert _ids(longer) == ["longer"]
    assert _ids({**ROW, "model": "llama-3.1-8b", "gpu": "b200"}, {**ROW, "each_token_s_median": ""}) == []


def test_the_rate_of_a_gpu_is_of_all_gpus() -> None:
    """Of clients: 32 x 1024 tokens in 0.2 s and 1024 x 20 ms, over 2 GPUs; of pools the share of the decoding GPUs."""
    split = {
        "output_tokens_per_s_per_decode_gpu": "300",
        "decode_gpus": "4",
        "gpus": "6",
        "prefill_gpus": "2",
    }
    for changes, rate in (
        ({}, 32 * 1024 / (0.2 + 1024 * 0.02) / 2), ({"output_tokens_per_s_per_gpu": "700"}, 700.0),
        ({"total_tokens_per_s_per_gpu": "900"}, 450.0), (split, 200.0),
    ):  # fmt: skip
        assert measured_points(SERVER, [{**ROW, **changes}])[0].gpu == pytest.approx(rate)


def test_the_nearest_server_and_the_band_are_printed() -> None:
    points = measured_points(SERVER, [ROW])
    (text,) = measured_text(points)
    assert "llama-3.1-70b on 2 h200-sxm5-141gb, vllm 0.11.0 fp8" in text
    assert "20 ms a token, 200 ms to the first token" in text
    assert "(a, 2025-10-29)" in text
    assert list(measured_text(())) == []
    assert "200 ms" not in next(measured_text([replace(points[0], first=None)]))
    (band,) = band_text({"each token": (0.5, 1.5)}, {"each token": 0.02})
    assert "each token 10 ms to 30 ms" in band
    assert list(band_text({}, {"each token": 0.02})) == []


def test_every_packaged_row_is_a_point_of_its_own_model() -> None:
    rows = packaged_rows()[::50]
    assert rows
    for row in rows:
        server = SERVER._replace(model=row["model"], gpu=row["gpu"])
        assert measured_points(server, [row])[0].user > 0
