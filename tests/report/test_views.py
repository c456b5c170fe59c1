"""What every answer can do in Python: short text, HTML, plain data, a data frame, a figure."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from click.testing import CliRunner

import podsim
from podsim.answers.answer import Answer
from podsim.cli import app
from podsim.errors import PodsimError

NODE = "dgx-a100-80gb"
PAIR = {"common": {"model": "gpt2", "on": NODE}, "grid": {"tp": [1, 2]}}
QUESTIONS: dict[str, tuple[Callable[[], Any], str]] = {
    "predict": (
        lambda: podsim.predict("gpt2", on=NODE, tokens="10G"),
        f"predict gpt2 --on {NODE} --tokens 10G",
    ),
    "plan": (lambda: podsim.plan("gpt2", on=NODE, limit={"tp": "1"}), f"plan gpt2 --on {NODE} --limit tp=1"),
    "collective": (lambda: podsim.collective("all-reduce", on=NODE), f"collective all-reduce --on {NODE}"),
    "schedule": (lambda: podsim.schedule("1f1b", pp=4, micro_batches=8), ""),
    "power": (lambda: podsim.power(f"{NODE}:4"), f"power {NODE}:4"),
    "show": (lambda: podsim.show("selene"), "show selene"),
    "mig_layouts": (lambda: podsim.mig_layouts("a100-sxm4-40gb"), ""),
    "study": (lambda: podsim.study(PAIR, executor="serial"), ""),
}
CHARTS = ("predict", "plan", "collective", "schedule", "study")


@pytest.fixture(scope="module", params=QUESTIONS)
def answer(request: pytest.FixtureRequest) -> tuple[str, Any]:
    return request.param, QUESTIONS[request.param][0]()


def test_the_text_is_short(answer: tuple[str, Any]) -> None:
    text = repr(answer[1])
    assert text.startswith(f"<{type(answer[1]).__name__}>")
    assert len(text.splitlines()) <= 10
    assert len(text) < 900


def test_html_is_closed_and_escaped(answer: tuple[str, Any]) -> None:
    html = answer[1]._repr_html_()
    assert html.count("<table>") == html.count("</table>")
    assert not re.search(r"&(?!\w+;|#)", html)


def test_data_is_what_the_command_prints(answer: tuple[str, Any]) -> None:
    name, result = answer
    json.dumps(result.to_dict(), allow_nan=False)
    if command := QUESTIONS[name][1]:
        printed = json.loads(CliRunner().invoke(app, [*command.split(), "--json"]).stdout)
        said = result.to_dict()
        assert {k: v for k, v in said.items() if k != "seconds"} == {
            k: printed[k] for k in said if k != "seconds"
        }


def test_rows_become_a_data_frame(answer: tuple[str, Any]) -> None:
    frame = answer[1].to_frame()
    assert len(frame) >= 1
    assert len(frame.columns) >= 2


def test_charts_are_figures(answer: tuple[str, Any]) -> None:
    if answer[0] in CHARTS:
        assert answer[1].plot().get_axes()
    else:
        with pytest.raises(PodsimError, match=r"has no chart; to_frame\(\)"):
            answer[1].plot()


def _kinds() -> dict[str, type[Answer]]:
    """Every kind of answer, once all questions are loaded."""
    for name in podsim.__all__:
        getattr(podsim, name)
    return {kind.__name__: kind for kind in Answer.__subclasses__() if kind.__module__.startswith("podsim.")}


def test_every_public_question_gives_an_answer_that_shows_itself() -> None:
    plain = {"Cluster", "Gpu", "Model", "Calibration", "ConfigRow", "GpuState", "None", "Figure"}
    known = set(_kinds())
    for name in podsim.__all__:
        function = getattr(podsim, name)
        if inspect.isfunction(function):
            kinds = set(re.findall(r"[A-Z]\w+", str(inspect.signature(function).return_annotation)))
            assert kinds - plain - {"Any"} <= known, name


def test_every_view_has_its_functions() -> None:
    for kind in _kinds().values():
        for hook in vars(kind.view).values():
            if isinstance(hook, str) and ":" in hook:
                module, _, function = hook.partition(":")
                assert callable(getattr(import_module(f"podsim.{module}"), function)), (kind, hook)


def test_every_view_has_its_rows() -> None:
    for name, kind in _kinds().items():
        rows = kind.view.rows
        if isinstance(rows, str) and ":" not in rows:
            assert rows in inspect.signature(kind).parameters or hasattr(kind, rows), name


def test_text_in_an_answer_cannot_become_html() -> None:
    row = podsim.StudyRow(
        name="<script>", question="plan", settings={}, status="no answer", reason="a < b & <i>"
    )
    assert "<script>" not in row._repr_html_()
    assert "a &lt; b &amp; &lt;i&gt;" in row._repr_html_()


def test_an_answer_without_a_report_still_has_a_text() -> None:
    class Odd(Answer):
        pass

    odd = Odd()
    odd.__dict__["size"] = "x" * 1000
    assert len(repr(odd)) < 500
