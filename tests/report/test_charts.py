"""Every chart can be read: no title, legend or number of an axis lies on another, and none leaves the picture."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

import podsim
from podsim.answers.answer import Answer
from podsim.answers.batch_sizes import Sharpness, SharpnessRow
from podsim.answers.comparison import Comparison
from podsim.answers.pruned import Pruned, PrunedTensor
from podsim.answers.scaling_answers import ScaleLadder
from podsim.answers.transferred import Transferred, TransferRow
from podsim.report.chart_marks import Axis, Bars, Boxes, Chart, Rule, Series, Sheet
from podsim.report.matplotlib_charts import draw
from podsim.report.pictures import figure as figure_of
from podsim.report.plots import set_log_ticks

NODE = "dgx-a100-80gb"
ENSEMBLE = Path(__file__).parents[2] / "examples" / "ensemble.toml"
LONG = (
    "a name that is as long as names of files and clusters can be, and then a little longer than that, " * 2
)


def _runs(folder: Path) -> Any:
    """A fit to made runs, every fourth of them 1 % above a power law."""
    lines = ["params,tokens,loss"]
    for number, (size, ratio) in enumerate((s, r) for s in (3e7, 1e8, 3e8, 1e9) for r in (10, 20, 40, 160)):
        loss = 1.8 + 500 / size**0.35 + 2000 / (size * ratio) ** 0.37
        lines.append(f"{size:.0f},{size * ratio:.0f},{loss * (1.01 if number % 4 == 0 else 1.0):.4f}")
    path = folder / "runs.csv"
    path.write_text("\n".join(lines))
    return podsim.scale_fit(path, bootstraps=10)


def _ladder(folder: Path) -> ScaleLadder:
    fit = _runs(folder)
    return ScaleLadder(
        law=fit.law, data="made", steps=20, seconds=1.0, held_out=fit.held_out, rows=tuple(fit.rows)
    )


def _transferred() -> Transferred:
    names = ("accuracy", "bytes", "trained", "answered")
    values = dict.fromkeys(names, 0.9) | {f"predicted_{name}": 0.8 for name in names}
    rows = tuple(
        TransferRow(stage=stage, **(values | {"predicted_bytes": None})) for stage in ("pre-trained", "int8")
    )
    return Transferred(samples=256, repository="", rows=rows)


def _sharpness(_: Path) -> Sharpness:
    rows = tuple(
        SharpnessRow(
            batch=batch, rule=rule, rate=0.1, steps=None if batch == 4096 else 100.0, training=0.02, validation=1.0,
            spread=0.1, gap=0.98, error=0.3, sharpness=2.0, verdict="",
        )
        for batch in (8, 64, 4096)
        for rule in (("none", "sqrt", "linear") if batch > 8 else ("none",))
    )  # fmt: skip
    return Sharpness(samples=4096, target=0.02, seeds=5, rows=rows)


def _pruned(_: Path) -> Pruned:
    tensors = tuple(
        PrunedTensor(
            name=f"model.layers.{number}.{LONG[:60]}.weight", kind="F16", shape=(64, 64), reason="",
            kept=0.7 + 0.002 * number, permuted=0.75 + 0.002 * number, dense_bytes=8192, compressed_bytes=4608,
        )
        for number in range(50)
    )  # fmt: skip
    return Pruned(
        file=LONG, to="", compressed=False, tensors=tensors, weights=50 * 4096, pruned=50 * 4096, kept=0.76,
        before=0.74, dense_bytes=50 * 8192, compressed_bytes=50 * 4608,
    )  # fmt: skip


def _study(_: Path) -> Any:
    grid = {"gpus": [64, 128, 256], "on": ["h100", "a100"]}
    return podsim.study(
        {"common": {"model": "llama-3.1-8b", "tokens": "1T"}, "grid": grid}, executor="serial"
    )


ANSWERS: dict[str, Callable[[Path], Any]] = {
    "predict": lambda _: podsim.predict("gpt3-175b", on="selene:16", tp=8, pp=8),
    "plan": lambda _: podsim.plan("llama-3.1-8b", on="h100", gpus=64),
    "target": lambda _: podsim.plan("bert", on="dgx-a100-40gb", to_target=True, gpus=64),
    "minutes": lambda _: podsim.mlperf("v0.7", on="selene-2020-06"),
    "study": _study,
    "schedule": lambda _: podsim.schedule("1f1b", pp=4, micro_batches=8),
    "workers": lambda _: podsim.workers("gpt2", on=f"{NODE}:2", gpus=16, servers=2, compare=True),
    "goodput": lambda _: podsim.goodput("gpt-3.6b", on=f"{NODE}:2", tokens="300G", batch=64, runs=50),
    "collective": lambda _: podsim.collective("all-reduce", on=NODE),
    "storage": lambda _: podsim.storage_fio("weka-ra:4"),
    "batches": lambda _: podsim.serve("bert-large", on="a100", precision="int8", latency="50 ms"),
    "server": lambda _: podsim.serve("resnet-50", on="t4", scenario="server"),
    "streams": lambda _: podsim.serve("resnet-50", on="a100", video="1080p30"),
    "load": lambda _: podsim.serve("gpt2", on="dgx-h100", rate=20.0),
    "ensemble": lambda _: podsim.serve(str(ENSEMBLE), on="a100-40gb", latency="100ms"),
    "best": lambda _: podsim.serve("gpt2", on="dgx-h100", requests=300, rate="20/s", ttft="1s", tpot="100ms"),
    "figure": lambda _: podsim.figure(12),
    "formats": lambda _: podsim.format(),
    "format": lambda _: podsim.format("tf32"),
    "trade": lambda _: podsim.format(model="bert-large", on="a100", gpus=8, batch=64),
    "queues": lambda _: podsim.queue("philly-3", on="8x8", policy=["fifo", "srtf"]),
    "queue": lambda _: podsim.queue("philly-3", on="8x8", policy=["fifo"]),
    "pack": lambda _: podsim.pack(packer=["best-fit"], seeds=1),
    "scale best": lambda _: podsim.scale_best(on="dgx-h100:8", days=30),
    "scale laws": lambda _: podsim.scale_laws(),
    "scale loss": lambda _: podsim.scale_loss("llama-3.1-8b", tokens="1T"),
    "scale fit": _runs,
    "scale ladder": _ladder,
    "scale sharpness": _sharpness,
    "measure transfer": lambda _: _transferred(),
    "scale batch": lambda _: podsim.scale_batch("zhang-85m"),
    "prune": _pruned,
    "train": lambda _: podsim.train("gpt-tiny", steps=2, batch=8, ranks=1),
    "precisions": lambda _: podsim.train_precisions(
        "gpt-tiny", precision="fp32,bf16", steps=2, batch=2, sequence=16, seeds=1
    ),
}


def boxes_of(figure: Figure) -> list[tuple[str, Bbox]]:
    """(text, box) of titles, labels of axes, numbers of axes and legends that a figure shows."""
    figure.draw_without_rendering()
    texts = [*figure.texts]
    legends = [*figure.legends]
    for axes in figure.axes:
        texts += [axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label]  # type: ignore[attr-defined]
        legends += [legend] if (legend := axes.get_legend()) else []
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if low <= tick.get_loc() <= high and tick.get_visible():
                    texts.append(tick.label1)
    shown = [(text.get_text(), text.get_window_extent()) for text in texts if text.get_visible()]
    known = [("the legend", legend.get_window_extent()) for legend in legends]
    return [(name, box.padded(-1.0)) for name, box in (*shown, *known) if name.strip() and box.height > 2]


def wrong(figure: Figure) -> list[str]:
    """Texts that lie on each other, and texts that leave the figure."""
    boxes = boxes_of(figure)
    assert boxes
    pairs = [f"{a} on {b}" for (a, first), (b, second) in combinations(boxes, 2) if first.overlaps(second)]
    inside = figure.bbox
    return pairs + [
        f"{name} leaves the figure"
        for name, box in boxes
        if not (inside.x0 <= box.x0 <= box.x1 <= inside.x1 and inside.y0 <= box.y0 <= box.y1 <= inside.y1)
    ]


@cache
def answer_of(name: str, folder: Path) -> Any:
    return ANSWERS[name](folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("charts")


@pytest.mark.parametrize("name", ANSWERS)
def test_texts_of_a_chart_lie_apart(name: str, folder: Path) -> None:
    assert wrong(answer_of(name, folder).plot()) == []


def test_a_comparison_can_be_read(steps: Comparison) -> None:
    assert wrong(figure_of(steps)) == []


def test_long_titles_and_many_names_stay_in_the_picture() -> None:
    along = Axis("bytes", "log", "{:,.0f} bytes".format, ticks=[2.0**power for power in range(20)])
    many = Chart(
        [Series([1, 2.0**19], [1, 2], LONG[:30], labels=["first", "last"])], LONG, along, legend="right"
    )
    bars = Chart(
        [Bars([1.0, 2.0], texts=["one", "two"]), Rule(1.5, "limit")], LONG, y=Axis(names=["a", "b" * 30])
    )
    assert wrong(draw(Sheet(LONG, [many, bars], LONG, columns=2, size=(10.4, 4.9)))) == []


def test_a_tick_says_the_value_where_it_stands() -> None:
    chart = Chart([Boxes([(0.0, 3e6, 0.0, 1.0)])], x=Axis(low=0.0, high=3e6))
    axis = draw(Sheet("", [chart])).axes[0].xaxis
    names = {tick.get_loc(): tick.label1.get_text() for tick in axis.get_major_ticks()}
    assert names[1e6] == "1 M"
    assert names[2e6] == "2 M"


@pytest.mark.parametrize(
    "ends", [(8.7, 104.0), (90.0, 100.0), (1.0, 9.0), (9.1, 9.4), (1e-6, 1e6), (20.0, 210.0)]
)
def test_a_logarithmic_axis_of_any_range_names_some_values_apart(ends: tuple[float, float]) -> None:
    figure = Figure(figsize=(7.8, 4.2))
    axes = figure.add_subplot()
    axes.set(xscale="log", xlim=ends)
    set_log_ticks(axes.xaxis)
    assert wrong(figure) == []
    assert 3 <= len(axes.get_xticks()) <= 8


def test_every_kind_of_answer_with_a_chart_is_drawn_here(folder: Path) -> None:
    for name in dir(podsim):
        getattr(podsim, name)
    kinds = {
        kind for kind in Answer.__subclasses__() if kind.view.figure and kind.__module__.startswith("podsim.")
    }
    assert kinds - {type(answer_of(name, folder)) for name in ANSWERS} == {Comparison}
