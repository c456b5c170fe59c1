"""Streams of speech and video: what GPUs carry, and which unit limits them."""

from __future__ import annotations

import numpy as np
import pytest

import podsim
from podsim.answers.scenario_run import StreamRun
from podsim.errors import NoFitError, PodsimError
from podsim.hardware.catalog import load_gpu, names
from podsim.serving.batch_queue import BatchServer
from podsim.serving.media_units import decoded_streams, media_units, read_video, tracker_seconds
from podsim.serving.streams import Streams, carried_streams, stream_arrivals


def _asked(model: str, on: str, **options: object) -> StreamRun:
    answer = podsim.serve(model, on=on, **options)
    assert isinstance(answer, StreamRun)
    return answer


def test_each_stream_sends_one_request_a_period() -> None:
    times = stream_arrivals(50, 0.16)
    assert (np.diff(times) >= 0).all()
    assert np.diff(times[::50]) == pytest.approx(0.16)


def test_a_server_of_lone_requests_carries_what_its_time_allows() -> None:
    server = BatchServer(batches=np.array([1.0]), seconds=np.array([0.01]))
    units = carried_streams(server, Streams(period=1.0, limit=0.5, others={"decoding": 12.5}))
    assert 90 <= units["inference"] <= 100
    assert units["decoding"] == 12.5
    with pytest.raises(NoFitError, match="an answer takes 10 ms"):
        carried_streams(server, Streams(period=1.0, limit=0.005))


def test_speech_longer_context_and_tighter_limits_carry_fewer_streams() -> None:
    plain = _asked("jasper", "a100", chunk="160ms")
    assert plain.most > _asked("jasper", "a100", chunk="160ms", context="2s").most
    assert plain.most > _asked("jasper", "a100", chunk="160ms", latency="30ms").most
    assert plain.p99 <= plain.limit == 0.3
    assert plain.speed == pytest.approx(plain.most)
    assert not _asked("jasper", "a100", chunk="160ms", streams=10 * plain.most).is_carried
    assert _asked("jasper", "8xa100", chunk="160ms").most > 7 * plain.most


def test_video_is_limited_by_decoders_or_by_the_network() -> None:
    light, heavy = _asked("resnet50", "t4", video="1080p30"), _asked("unet-medical", "t4", video="1080p30")
    assert (light.bottleneck, heavy.bottleneck) == ("decoding", "inference")
    assert light.most == 38
    assert _asked("resnet50", "t4", video="4k30").most < light.most / 3
    assert _asked("unet-medical", "t4", video="1080p30", every=4).most > 2 * heavy.most
    tracked = _asked("unet-medical", "t4", video="1080p30", every=4, tracker="nvdcf")
    assert tracked.most < _asked("unet-medical", "t4", video="1080p30", every=4).most


UNKNOWN = ("wse", "tpu", "mi3", "rtx-pro-6000", "rtx-5090")
"""no published rates of their decoders were found, or they have none"""


@pytest.mark.parametrize("name", ["mi300x", "rtx-5090"])
def test_unknown_units_are_said(name: str) -> None:
    with pytest.raises(PodsimError, match="video decoders are not known"):
        media_units(load_gpu(name))


@pytest.mark.parametrize("name", [name for name in names("gpu") if not name.startswith(UNKNOWN)])
def test_every_gpu_has_its_units(name: str) -> None:
    chip = load_gpu(name)
    units = media_units(chip)
    assert units.decoders >= 1
    assert decoded_streams(chip, read_video("1080p30"), "h264") > 10
    assert tracker_seconds("iou", chip) == 0.0


def test_instances_have_the_units_of_their_profile() -> None:
    assert media_units(load_gpu("a100-sxm4-40gb/2g.10gb")).decoders == 1
    with pytest.raises(PodsimError, match="has no video decoder"):
        _asked("resnet50", "a100-40gb/1g.5gb", video="1080p30")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"video": "big"}, "such as 1080p30"),
        ({"video": "1080p30", "codec": "mpeg1"}, "unknown codec"),
        ({"video": "1080p30", "tracker": "hungarian"}, "unknown tracker"),
        ({"video": "1080p30", "every": 0}, "1 to 1,000 frames"),
        ({"chunk": "160ms"}, "is no network of speech"),
        ({"chunk": "160ms", "video": "1080p30"}, "give one of them"),
        ({"video": "1080p30", "scenario": "server"}, "a load of their own"),
        ({"tracker": "iou"}, "for streams"),
        ({"streams": 0, "video": "1080p30"}, "1 to 1,000,000"),
        ({"ttft": "10ms"}, "of language models"),
    ],
)
def test_wrong_streams_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(PodsimError, match=words):
        podsim.serve("resnet50", on="t4", **options)


def test_a_language_model_has_no_streams_of_video() -> None:
    with pytest.raises(PodsimError, match="--video: of networks"):
        podsim.serve("llama-2-7b", on="a100", video="1080p30")
