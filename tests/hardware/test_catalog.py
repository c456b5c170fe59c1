"""Every entry of the catalog, and every way in which a file of it can be wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import CatalogError
from podsim.hardware import catalog
from podsim.hardware.catalog import named_rows
from podsim.hardware.catalog.schema import parse_catalog
from podsim.hardware.parts import PEAKS, PRECISIONS, matmul_peak

LOADERS = {
    "gpu": catalog.load_gpu,
    "nvswitch": catalog.load_nvswitch,
    "nic": catalog.load_nic,
    "switch": catalog.load_switch,
    "pcie": catalog.load_pcie,
    "cpu": catalog.load_cpu,
    "ssd": catalog.load_ssd,
    "system": catalog.load_system,
}
ENTRIES = [(kind, name) for kind in LOADERS for name in catalog.names(kind)]
GPUS = catalog.names("gpu")

GOOD = """
[sources]
sheet = "a data sheet"
[slow]
source = ["sheet"]
confirmed = "yes"
generation = 1
bandwidth = "4 GB/s"
copies = "3 GB/s"
duplex = "3 GB/s"
latency = "1 us"
"""


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_every_entry_loads_says_its_sources_and_is_hashable(kind, name):
    part = LOADERS[kind](name)
    assert part.name == name
    assert part.source
    assert "shared" not in part.source
    assert part.confirmed in ("yes", "partial", "no")
    assert hash(part) == hash(LOADERS[kind](name.upper()))
    assert part is LOADERS[kind](name)


@pytest.mark.parametrize("name", catalog.names("system"))
def test_a_system_has_the_parts_its_entry_names(name):
    entry, system = catalog._entries("system")[name], catalog._make_system.__wrapped__(name)
    assert system.gpu.name == catalog.load_gpu(entry.gpu).name
    for part in ("pcie", "nvswitch", "cpu", "nic", "storage_nic", "ssd", "boot_ssd", "switch"):
        named, made = getattr(entry, part), getattr(system, part)
        assert (made.name if made else "") == (LOADERS[part.split("_")[-1]](named).name if named else "")


def test_rows_are_found_by_name_family_or_gpu():
    rows = [
        {"name": "llama-7b", "family": "llama"},
        {"name": "gpt2", "family": "gpt"},
        {"name": "x", "gpu": "a100"},
    ]
    assert [catalog.named_rows(rows, text) for text in ("LLAMA", "gpt", "a100")] == [
        rows[:1],
        rows[1:2],
        rows[2:],
    ]
    for text, offered in (("llama-70b", "llama-7"), ("gpt3", "gpt"), ("ab", None)):
        with pytest.raises(CatalogError, match="unknown name") as error:
            catalog.named_rows(rows, text)
        assert (error.value.instead or {}).get("text") == offered


def test_the_clock_of_a_gpu_is_a_word_or_a_frequency():
    gpu = catalog.load_gpu("a100")
    assert catalog.load_gpu("a100", {"clock": " Sustained "}).is_sustained
    assert not catalog.load_gpu("a100", {"clock": "burst"}).is_sustained
    assert catalog.load_gpu("a100", {"clock": "1.2 GHz"}).clock == 1.2e9 != gpu.clock
    with pytest.raises(CatalogError, match=r"Hz.*, or one of burst, sustained"):
        catalog.load_gpu("a100", {"clock": "fast"})


def test_cores_and_storage_of_a_server():
    """Two processors of 64 cores; two adapters of two ports of 200 Gb/s, of which a slot carries 31.5 GB/s each."""
    system = catalog.load_system("dgx-a100-80gb")
    assert (system.cores, system.storage_rate) == (128, pytest.approx(2 * 31.5e9, rel=1e-3))
    bare = replace(system, cpu=None, storage_nic=None)
    assert (bare.cores, bare.storage_rate) == (0, 0.0)
    assert replace(system, pcie=None).storage_rate == 2 * 2 * 25e9


def test_no_name_or_alias_stands_for_two_things():
    every = [key for kind in catalog.KINDS for key in (*catalog.names(kind), *catalog.aliases(kind))]
    assert len(every) == len(set(every))
    assert catalog.find("DGX-A100 ") == ("system", "dgx-a100-80gb")
    assert catalog.find("nothing") is None


@pytest.mark.parametrize(("kind", "name"), [(k, a) for k in LOADERS for a in catalog.aliases(k)])
def test_every_alias_loads_what_it_stands_for(kind, name):
    assert LOADERS[kind](name).name == catalog.aliases(kind)[name]


def test_a100_by_hand():
    gpu = catalog.load_gpu("a100")
    assert gpu.name == "a100-sxm4-80gb"
    assert (gpu.memory, gpu.memory_bandwidth, gpu.power, gpu.sms) == (80e9, 2039e9, 400.0, 108)
    assert (gpu.peaks["bf16"], gpu.sparse_peaks["int8"]) == (312e12, 1248e12)
    assert gpu.nvlink == 300e9
    # 108 SMs x 4 tensor cores x 256 multiply-adds x 2 FLOP x 1.41 GHz
    assert gpu.peaks["bf16"] == pytest.approx(108 * 4 * 256 * 2 * gpu.clock, rel=1e-3)


def test_inherited_entries_change_only_what_they_say():
    small, large = catalog.load_gpu("a100-sxm4-40gb"), catalog.load_gpu("a100-sxm4-80gb")
    assert small.peaks == large.peaks
    assert (small.memory, small.memory_bandwidth) == (40e9, 1555e9)
    assert catalog.load_gpu("h800").peaks == {
        **catalog.load_gpu("h100").peaks,
        "fp64": 1e12,
        "fp64_tensor": 1e12,
    }
    assert (
        "peaks.fp64" not in catalog.load_gpu("h800").notes
    )  # the doubt about the H100's figure is not its own
    assert catalog.load_system("grand-teton-h100").switch is None  # cleared by an empty text


@pytest.mark.parametrize(
    ("name", "kernels"),
    [
        ("a100-sxm4-40gb", "a100-sxm4-80gb"),
        ("a800", "a100-sxm4-80gb"),
        ("a100-pcie-40gb", "a100-pcie-80gb"),
        ("h800", "h100-sxm5-80gb"),
        ("h200", "h200-sxm5-141gb"),
        ("v100-sxm3-32gb", "v100-sxm2-16gb"),
        ("b300", "b300"),
        ("gb300", "b300"),
        ("h20", ""),
    ],
)
def test_kernel_constants(name, kernels):
    assert catalog.load_gpu(name).kernels == kernels


@pytest.mark.parametrize("name", GPUS)
def test_sparse_peaks_are_twice_the_dense_ones(name):
    gpu = catalog.load_gpu(name)
    assert set(gpu.peaks) <= set(PEAKS)
    for precision, peak in gpu.sparse_peaks.items():
        assert peak == pytest.approx(2 * gpu.peaks[precision], rel=0.015)


@pytest.mark.parametrize("name", [n for n in GPUS if n not in ("h20", "h100-pcie-80gb", "wse-2", "wse-3")])
def test_half_precision_peak_is_a_power_of_two_per_clock_and_sm(name):
    gpu = catalog.load_gpu(name)
    if gpu.architecture == "tpu":  # arrays of 128 x 128 or 256 x 256, whose clocks are derived
        assert gpu.peaks["bf16"] / (gpu.sms * gpu.clock) > 0.95 * 2 * 128**2
        return
    per_clock = matmul_peak(gpu, "fp16") / (gpu.sms * gpu.clock)
    nearest = min((512, 1024, 2048, 4096, 8192), key=lambda n: abs(n - per_clock))
    assert per_clock == pytest.approx(nearest, rel=0.06)


def test_precisions():
    assert [PRECISIONS[p].bytes for p in ("fp64", "fp32", "tf32", "bf16", "fp8", "int4")] == [
        8,
        4,
        4,
        2,
        1,
        0.5,
    ]
    for p in PRECISIONS.values():
        held = p.significand + p.exponent + 1 + (8 / p.block if p.block else 0)
        assert held == (19 if p.name == "tf32" else 8 * p.bytes)
        assert p.matmul in PEAKS
    a100, v100 = catalog.load_gpu("a100"), catalog.load_gpu("v100")
    assert matmul_peak(a100, "fp64") == 19.5e12
    assert matmul_peak(v100, "fp64") == 7.8e12
    assert matmul_peak(a100, "bf16", sparse=True) == 624e12
    gb200, h200 = catalog.load_gpu("gb200"), catalog.load_gpu("h200")
    assert [matmul_peak(gb200, p) for p in ("bf16", "mxfp8", "nvfp4")] == [2500e12, 5000e12, 10000e12]
    with pytest.raises(CatalogError, match="h200-sxm5-141gb has no mxfp8"):
        matmul_peak(h200, "mxfp8")
    with pytest.raises(CatalogError, match=r"v100-sxm2-16gb has no bf16 .* fp16"):
        matmul_peak(v100, "bf16")
    with pytest.raises(CatalogError, match=r"no sparse fp16 .* none"):
        matmul_peak(v100, "fp16", sparse=True)
    with pytest.raises(CatalogError, match="did you mean bf16"):
        matmul_peak(a100, "bfl16")


def test_unknown_names_give_the_closest():
    with pytest.raises(CatalogError, match=r"unknown gpu 'a1000': did you mean a100"):
        catalog.load_gpu("a1000")
    with pytest.raises(CatalogError, match="unknown kind of part 'gpus': did you mean gpu"):
        catalog.names("gpus")
    for kind, load in LOADERS.items():
        with pytest.raises(CatalogError, match=f"unknown {kind} 'x'"):
            load("x")


def test_gpu_overrides():
    gpu = catalog.load_gpu("a100", {"memory": "64 GB", "peaks.bf16": "400 TFLOP/s", "sms": 54})
    assert (gpu.memory, gpu.peaks["bf16"], gpu.peaks["fp16"], gpu.sms) == (64e9, 400e12, 312e12, 54)
    assert gpu.notes["memory"] == "set by the user"
    assert catalog.load_gpu("a100").memory == 80e9
    assert catalog.load_gpu("a100", {"gpu.memory": "64 GB"}).memory == 64e9
    with pytest.raises(CatalogError, match=r"unknown key 'memry'.*memory.*; sms: 0 will not do.*1 to 10000"):
        catalog.load_gpu("a100", {"memry": 1, "sms": "0"})


# ------------------------------------------------------------------------------------- files that are wrong


def test_a_good_file():
    entry = parse_catalog("pcie", GOOD, "x.toml")["slow"]
    assert entry.source == ("a data sheet",)
    assert entry.bandwidth == 4e9


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('source = ["sheet"]', "", r"\[slow\] key 'source' is missing"),
        ('source = ["sheet"]', "source = []", r"\[slow\] source: .*at least 1"),
        ('source = ["sheet"]', 'source = ["sheep"]', "unknown source 'sheep': did you mean sheet"),
        (
            "generation",
            "generatoin",
            r"unknown key 'generatoin': did you mean generation\?.*known: .*latency",
        ),
        ('"4 GB/s"', '"4 GB"', r"bandwidth: value: '4 GB' is in B; expected a number, such as '200 Gb/s'"),
        ('"4 GB/s"', '"0 GB/s"', "0 B/s is out of reach; expected 1 MB/s to 100 PB/s"),
        ('"4 GB/s"', '"-4 GB/s"', "out of reach"),
        ('"4 GB/s"', "nan", "not finite"),
        ('"4 GB/s"', "true", "not a quantity"),
        ('"4 GB/s"', "[1]", "list is not a quantity"),
        ('"4 GB/s"', "1" + "0" * 400, "bits is out of reach"),
        ("generation = 1", "generation = 1.5", "expected a whole number from 1"),
        ('"yes"', '"maybe"', r"confirmed: .*'yes'"),
        ('"yes"', '"partial"', "needs a note on each field that is unconfirmed"),
        (
            "latency =",
            'notes = { latency = "unconfirmed" }\nlatency =',
            "contradicts notes that begin with unconfirmed",
        ),
        ("latency =", 'notes = { latenc = "a remark" }\nlatency =', "notes: unknown key 'latenc'"),
        ("latency =", 'inherits = "fast"\nlatency =', "unknown entry to inherit from 'fast'"),
        ("latency =", 'inherits = "slow"\nlatency =', "inherits from itself: slow from slow"),
        ("latency =", 'aliases = ["slow"]\nlatency =', r"\[slow\] alias 'slow' is an entry"),
        ("[slow]", "[Slow]", "must be named in lower case"),
        ('sheet = "a data sheet"', "sheet = 1", "sources must be a table of key to text"),
        ("[sources]", "stray = 1\n[sources]", "stray is outside any entry"),
        ("[slow]", "[slow", "x.toml is not TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_rule(old, new, message):
    assert old in GOOD
    with pytest.raises(CatalogError, match=message) as error:
        parse_catalog("pcie", GOOD.replace(old, new), "x.toml")
    assert str(error.value).startswith("x.toml")


def test_all_problems_of_a_file_are_told_at_once():
    text = GOOD.replace("generation = 1", "lanes = 1") + '[other]\nsource = ["sheet"]\nconfirmed = "no"\n'
    with pytest.raises(CatalogError) as error:
        parse_catalog("pcie", text, "x.toml")
    for part in ("[slow] unknown key 'lanes'", "[slow] key 'generation'", "[other] key 'bandwidth'"):
        assert part in str(error.value)


def test_mutual_inheritance_is_refused():
    text = '[sources]\n[a]\ninherits = "b"\n[b]\ninherits = "a"\n'
    with pytest.raises(CatalogError, match="inherits from itself: a from b from a"):
        parse_catalog("gpu", text, "x.toml")


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_a_catalog_or_refused(text):
    try:
        parse_catalog("nic", text, "x.toml")
    except CatalogError:
        return


VALUES = st.recursive(
    st.one_of(st.text(max_size=8), st.integers(), st.floats(), st.booleans()),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@settings(deadline=None)
@given(
    st.sampled_from(["generation", "bandwidth", "latency", "source", "confirmed", "aliases", "notes"]), VALUES
)
def test_any_value_is_taken_or_refused(key, value):
    lines = [line for line in GOOD.splitlines() if not line.startswith(key)]
    try:
        parse_catalog("pcie", "\n".join([*lines, f"{key} = {_toml(value)}"]), "x.toml")
    except CatalogError:
        return


def _toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(c):08X}" for c in value if not 0xD800 <= ord(c) < 0xE000) + '"'
    return repr(value)


def test_rows_that_hold_a_text() -> None:
    rows: list[dict[str, object]] = [
        {"name": "dgx-a100", "gpu": "a100"}, {"name": "selene", "family": "superpod", "gpu": "a100"},
        {"name": "p5", "gpu": "h100"},
    ]  # fmt: skip
    assert [row["name"] for row in named_rows(rows, "A100")] == ["dgx-a100", "selene"]
    assert [row["name"] for row in named_rows(rows, "superpod")] == ["selene"]
    with pytest.raises(CatalogError) as caught:
        named_rows(rows, "selenium")
    assert caught.value.instead == {"text": "selen"}
