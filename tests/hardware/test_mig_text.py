"""Text in and out: nvidia-smi read, commands and mig-parted files written, and read back."""

from __future__ import annotations

from collections import Counter

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import MigError, NoFitError
from podsim.hardware.mig.commands import (
    Devices,
    helm_text,
    kubernetes_text,
    make_commands,
    make_parted,
    parted_text,
    read_parted,
    resource_name,
)
from podsim.hardware.mig.gpu_states import gpu_state
from podsim.hardware.mig.layouts import Layout, layouts, read_layout
from podsim.hardware.mig.profiles import slicings
from podsim.hardware.mig.smi import differences, find_slicing, layout_of, read_smi

A100 = slicings()["a100-40gb"]
LGI = """\
+-------------------------------------------------------+
| GPU instances:                                        |
| GPU   Name             Profile  Instance   Placement  |
|                          ID       ID       Start:Size |
|=======================================================|
|   0  MIG 1g.5gb          19        9          2:1     |
+-------------------------------------------------------+
|   0  MIG 3g.20gb          9        2          4:4     |
+-------------------------------------------------------+
"""
LIST = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
  MIG 3g.20gb     Device  0: (UUID: MIG-c7384736-a75d-5afc-978f-d2f1294409fd)
  MIG 1g.5gb      Device  1: (UUID: MIG-a28ad590-3fda-56dd-84fc-0a0b96edc58d)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a78)
"""
LGIPP = """\
GPU  0 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1
GPU  0 Profile ID 20 Placements: {0,1,2,3,4,5,6}:1
GPU  0 Profile ID 15 Placements: {0,2,4,6}:2
GPU  0 Profile ID 14 Placements: {0,2,4}:2
GPU  0 Profile ID  9 Placements: {0,4}:4
GPU  0 Profile ID  5 Placement : {0}:4
GPU  0 Profile ID  0 Placement : {0}:8
"""


def test_the_change_of_a_gpu_that_is_seen() -> None:
    """It holds a 1g at slice 2 (instance 9) and a 3g at 4 (instance 2): another 1g stands at 0, a 7g takes both away."""
    seen = read_smi(LGI + LIST)[0]
    now = gpu_state(seen, "", "", "", set())
    assert (str(now.layout.profiles), now.change, now.commands) == ("('1g.5gb', '3g.20gb')", None, ())
    assert [uuid[:8] for uuid in now.uuids] == ["MIG-a28a", "MIG-c738"]
    more = gpu_state(seen, "", "", "1g", set())
    assert more.commands == ("nvidia-smi mig -i 0 -cgi 19:0 -C",)
    whole = gpu_state(seen, "", "7g", "", set())
    assert whole.commands == (
        "nvidia-smi mig -i 0 -dci -gi 9", "nvidia-smi mig -i 0 -dgi -gi 9", "nvidia-smi mig -i 0 -dci -gi 2",
        "nvidia-smi mig -i 0 -dgi -gi 2", "nvidia-smi mig -i 0 -cgi 0:0 -C",
    )  # fmt: skip
    for busy in ({"9"}, {"all"}):
        kept = gpu_state(seen, "", "7g", "", busy)
        assert kept.change is not None
        assert (kept.change.reachable, kept.commands) == (False, ())
    with pytest.raises(NoFitError, match="no 4g"):
        gpu_state(seen, "", "", "4g", set())


@pytest.mark.parametrize("text", [LGI + LIST, LIST + LGI, LIST + LGI + LGIPP])
def test_lists_in_any_order_become_one_state(text: str) -> None:
    first, second = read_smi(text)
    slicing = find_slicing(first)
    assert slicing.name == "a100-40gb"
    assert str(layout_of(slicing, first)) == "1g.5gb@2 3g.20gb@4"
    assert {one.instance_id: one.uuid[:8] for one in first.instances} == {9: "MIG-a28a", 2: "MIG-c738"}
    assert second.instances == ()
    assert differences(slicing, first) == ()


def test_the_gpu_is_known_by_its_profiles() -> None:
    (gpu,) = read_smi(LGI)
    assert find_slicing(gpu).name == "a100-40gb"
    (gpu,) = read_smi(LGI.replace("1g.5gb ", "1g.10gb").replace("3g.20gb", "3g.40gb"))
    with pytest.raises(MigError, match="may be of a100-80gb, h100-80gb; name the GPU"):
        find_slicing(gpu)
    (gpu,) = read_smi(LGI.replace("3g.20gb", "3g.22gb"))
    with pytest.raises(MigError, match="no known GPU has profiles"):
        find_slicing(gpu)
    (gpu,) = read_smi("GPU 0: Tesla V100-SXM2-16GB (UUID: GPU-1)\n")
    with pytest.raises(MigError, match="has no known profiles"):
        find_slicing(gpu)


def test_an_older_driver_lists_less() -> None:
    (gpu,) = read_smi(
        LGIPP.replace("{0,4}:4", "{0}:4").replace("GPU  0 Profile ID 15 Placements: {0,2,4,6}:2\n", "")
    )
    told = differences(A100, gpu)
    assert len(told) == 2
    assert "3g.20gb: this driver starts it at 0 with 4 memory slices; the table at 0, 4 with 4" in told
    assert "1g.10gb is not offered by this driver" in told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no GPU"),
        ("No GPU instances found: Not Found\n", "names no GPU"),
        ("hello\nworld\n", "line 1: 'hello' is not a line of nvidia-smi"),
        (LGI + "| some other table |\n| of another program |\n" * 9, "more lines"),
        (LIST + "NVIDIA-SMI has failed\n", "line 5: 'NVIDIA-SMI has failed'"),
        ("\x00\x01\x02", "is not a line of nvidia-smi"),
        (LIST.replace("3g.20gb", "1c.3g.20gb"), "shared by several compute instances"),
    ],
)
def test_text_that_is_not_understood(text: str, said: str) -> None:
    with pytest.raises(MigError) as caught:
        read_smi(text)
    assert said in str(caught.value)


def test_states_that_break_the_rules_or_have_no_place() -> None:
    (gpu, _) = read_smi(LIST)
    with pytest.raises(MigError, match=r"does not state the position of 3g\.20gb; add nvidia-smi mig -lgi"):
        layout_of(A100, gpu)
    (gpu,) = read_smi(LGI.replace("4:4", "0:4"))
    with pytest.raises(MigError, match="both need memory slice 2"):
        layout_of(A100, gpu)


def test_commands_of_the_white_papers_node() -> None:
    seven = read_layout(A100, "7x1g")
    made = make_commands(A100, [None] * 6 + [seven] * 2)
    assert made == (
        "nvidia-smi -i 6,7 -mig 1",
        "nvidia-smi mig -i 6,7 -cgi 19:0,19:1,19:2,19:3,19:4,19:5,19:6 -C",
        "nvidia-smi mig -lgi",
        "nvidia-smi -L",
        "docker run --rm --gpus '\"device=6:0\"' ubuntu nvidia-smi -L",
    )
    assert make_commands(A100, [None, None]) == ()
    assert yaml.safe_load(helm_text("mixed")) == {
        "mig": {"strategy": "mixed"}, "migManager": {"config": {"name": "podsim-mig"}},
    }  # fmt: skip
    text = parted_text({"mixed": make_parted([None] * 6 + [seven] * 2)})
    assert yaml.safe_load(text) == {
        "version": "v1",
        "mig-configs": {
            "mixed": [
                {"devices": [0, 1, 2, 3, 4, 5], "mig-enabled": False},
                {"devices": [6, 7], "mig-enabled": True, "mig-devices": {"1g.5gb": 7}},
            ]
        },
    }


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9.-]{0,8}", fullmatch=True),
        st.lists(st.one_of(st.none(), st.sampled_from(layouts(A100, every=True))), min_size=1, max_size=8),
        min_size=1, max_size=3,
    )
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_a_mig_parted_file_comes_back(nodes: dict[str, list[Layout | None]]) -> None:
    configurations = {name: make_parted(gpus) for name, gpus in nodes.items()}
    back = read_parted(parted_text(configurations))
    assert back == configurations
    for name, gpus in nodes.items():
        for index, layout in enumerate(gpus):
            (own,) = [one for one in back[name] if one.devices is None or index in one.devices]
            assert own.enabled == (layout is not None)
            assert Counter(own.instances) == Counter(() if layout is None else layout.profiles)


def test_a_filter_comes_back_and_a_published_file_is_read() -> None:
    entry = Devices(devices=(4, 5), enabled=True, instances={"1g.5gb": 2}, device_filter=("0x20B010DE",))
    assert read_parted(parted_text({"some": [entry]})) == {"some": (entry,)}
    text = """\
version: v1
mig-configs:
  all-disabled:
    - devices: all
      mig-enabled: false
  custom:
    - devices: [0,1,2,3]
      mig-enabled: false
    - device-filter: "0x20B010DE"
      devices: [4]
      mig-enabled: true
      mig-devices: {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}
"""
    found = read_parted(text)
    assert found["all-disabled"] == (Devices(devices=None, enabled=False),)
    assert found["custom"][1].instances == {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "not YAML"),
        ("- 1", "has `version: v1` and a table"),
        ("version: v2\nmig-configs: {a: []}", "version 'v2'; known is v1"),
        ("version: v1\nmig-configs: {a: 3}", "a: expected a list"),
        (
            "version: v1\nmig-configs: {a: [{devices: 3, mig-enabled: 1, mig-devices: [1], x: 1}]}",
            "unknown key 'x'",
        ),
        (
            "version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {1g: 0}}]}",
            "a count",
        ),
    ],
)
def test_files_that_are_not_mig_parted(text: str, said: str) -> None:
    with pytest.raises(MigError) as caught:
        read_parted(text)
    assert said in str(caught.value)


def test_kubernetes_documents_parse() -> None:
    text = kubernetes_text(
        [("train", "", 1, 4), ("serve", "1g.5gb", 14, 1)], strategy="mixed", config="podsim"
    )
    train, serve = yaml.safe_load_all(text)
    limits = [d["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] for d in (train, serve)]
    assert limits == [{"nvidia.com/gpu": 4}, {"nvidia.com/mig-1g.5gb": 1}]
    assert serve["spec"]["replicas"] == 14
    assert serve["spec"]["template"]["spec"]["nodeSelector"] == {"nvidia.com/mig.config": "podsim"}
    (several,) = yaml.safe_load_all(kubernetes_text([("a", "", 1, 1)], strategy="none", config=""))
    assert set(several["spec"]["template"]["spec"]) == {"containers"}
    assert resource_name("1g.5gb+me", "mixed") == "nvidia.com/mig-1g.5gb.me"
    assert resource_name("1g.5gb", "single") == "nvidia.com/gpu"
