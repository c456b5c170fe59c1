"""Every screen in a real browser: it is shown, says what the command says, obeys the keyboard, and pleases axe-core.

PODSIM_LONG=1 tests every screen on four widths, light and dark.
"""

import gzip
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("playwright.sync_api")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
from playwright import sync_api

import podsim
from podsim.accuracy.bands import residuals
from podsim.report.chart_marks import COLOURS
from podsim.report.plain_data import plain_value
from podsim.report.queue_tables import plain_result
from podsim.timeline.kind_colours import colours

pytestmark = pytest.mark.browser

AXE = gzip.decompress((Path(__file__).parent / "axe-core" / "axe.min.js.gz").read_bytes()).decode()
JOB = "model=llama-3-8b&on=dgx-h100:2&tokens=1T&price=2.5&batch=64&sequence=4096"
LAYOUT = "tp=4&pp=2&micro_batch=1&zero=1&recompute=none&sequence_parallel=true&flash=true"
PLAN = f"{JOB}&{LAYOUT}"
ASKED = {
    "model": "llama-3-8b", "on": "dgx-h100:2", "batch": 64, "sequence": 4096, "tp": 4, "pp": 2, "zero": 1,
    "sequence_parallel": True, "flash": True,
}  # fmt: skip
SCREENS = {
    "ask": JOB, "answer": PLAN, "why": PLAN, "alternatives": JOB,
    "designs": f"{JOB}&designs=dgx-h100:2&designs=dgx-a100:2",
    "fabric": f"{PLAN}&fabric=dgx-h100:2", "timeline": PLAN, "fleet": "part=mig&instances=4g.40gb@0",
    "learn": "", "trust": PLAN,
}  # fmt: skip
WIDTHS = (1440, 1024, 768, 390)
LONG = [(name, width, scheme) for name in SCREENS for width in WIDTHS for scheme in ("light", "dark")]
SHORT = [
    (name, (1440, 390, 1024)[place % 3], ("light", "dark")[place % 2]) for place, name in enumerate(SCREENS)
]
SMALL = """[...document.querySelectorAll("a, button, input, select, summary")]
  .filter((it) => it.checkVisibility({opacityProperty: true}) && !it.closest("main p, footer, .hidden, .skip"))
  .filter((it) => it.getBoundingClientRect().height < 23.5).map((it) => it.outerHTML.slice(0, 150))"""
CASES = LONG if os.environ.get("PODSIM_LONG") else SHORT


@pytest.fixture(scope="module")
def address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "podsim.cli", "web", "--port", str(port), "--workers", "1"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": "src"}
    ) as server:
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
        server.terminate()


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Visit:
    """A page, with all that went wrong on it."""

    def __init__(self, browser, address, width=1440, scheme="light"):
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        self.page = self.context.new_page()
        self.address, self.wrong = address, []
        self.page.on(
            "console", lambda line: line.type in ("error", "warning") and self.wrong.append(line.text)
        )
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on(
            "request",
            lambda asked: (
                asked.url.startswith((address, "blob:", "data:"))
                or self.wrong.append(f"third party: {asked.url}")
            ),
        )

    def open(self, screen, query=""):
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}/#{screen}?{query}")
        self.page.wait_for_selector(f"[data-screen={screen}][data-ready]", timeout=60_000)
        return self.page

    def number(self, name):
        return float(self.page.locator(f"data[data-name='{name}']").first.get_attribute("value"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


@pytest.fixture(scope="module")
def visit(browser, address):
    with Visit(browser, address) as opened:
        yield opened


@pytest.mark.parametrize(("screen", "width", "scheme"), CASES)
def test_a_screen_is_shown_and_can_be_read_by_all(browser, address, screen, width, scheme):
    with Visit(browser, address, width, scheme) as visit:
        page = visit.open(screen, SCREENS[screen])
        assert page.locator("main .failed").count() == 0, page.locator("main").inner_text()
        assert page.locator("h1").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
            "it is wider than the window"
        )
        cut = "[...document.querySelectorAll('.scroll')].filter((box) => box.scrollWidth > box.clientWidth + 1).length"
        assert page.evaluate(cut) == 0, "a table has to be scrolled sideways"
        assert page.evaluate(SMALL) == [], "targets are 24 px or more in height"
        page.evaluate(AXE)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        serious = [(each["id"], [node["html"][:150] for node in each["nodes"][:3]]) for each in found
                   if each["impact"] in ("serious", "critical")]  # fmt: skip
        assert not serious
        assert not visit.wrong


def equal(visit, expected):
    assert {name: visit.number(name) for name in expected} == pytest.approx(expected, rel=1e-12)


def test_answer_and_why_say_what_predict_says(visit):
    told = podsim.predict(**ASKED, tokens="1T", price="2.5", detail="ops")
    visit.open("answer", PLAN)
    equal(visit, {
        "step_time": told.step_time, "training.expected": told.training.expected, "expense.low": told.expense.low,
        "memory": told.memory, "mfu": told.mfu, "tokens_per_second": told.tokens_per_second,
    })  # fmt: skip
    visit.open("why", PLAN)
    parts = {f"parts.{name}": value for name, value in told.parts.items() if value > 0}
    gains = {f"gains.{name}": value for name, value in told.gains.items()}
    equal(visit, {"step_time": told.step_time, **parts, **gains})


def test_the_other_screens_say_what_their_commands_say(visit):
    visit.open("alternatives", JOB)
    search = podsim.plan("llama-3-8b", on="dgx-h100:2", batch=64, sequence=4096)
    equal(visit, {"evaluated": search.evaluated, "fitting": search.fitting})
    step = podsim.simulate(**ASKED, kernels=False)
    visit.open("timeline", PLAN)
    equal(visit, {"step_time": step.step_time, "closed_form": step.closed_form})
    visit.open("fabric", SCREENS["fabric"])
    use = step.links[0]
    equal(visit, {f"utilisation.{use.name}": use.bytes / use.capacity / step.step_time})
    visit.open("fleet", SCREENS["fleet"])
    equal(visit, {"total": podsim.mig_layouts("h100", partial=True).total})
    visit.open("learn")
    sheet = podsim.schedule("1f1b", pp=4, micro_batches=8)
    equal(visit, {"bubble": sheet.bubble, "activations.0": sheet.activations[0]})
    visit.open("trust", PLAN)
    told = podsim.predict(**ASKED)
    equal(visit, {"mfu_6pd": told.mfu_6pd, "nearest.error": told.nearest.error})


def test_the_queue_and_the_long_run_say_what_their_commands_say(visit):
    page = visit.open("fleet", "jobs=arrivals:300&machine=8x8&policies=fifo,easy")
    page.get_by_role("button", name="Simulate the queue").click()
    page.wait_for_selector("data[data-name=jobs]")
    runs = plain_result(podsim.queue("arrivals:300", on="8x8", policy=["fifo", "easy"]))["runs"]
    equal(visit, {f"wait_mean.{run['policy']}": run["wait_mean"] for run in runs})
    visit.open("fleet", f"part=goodput&{JOB}")
    told = plain_value(podsim.goodput("llama-3-8b", on="dgx-h100:2", tokens="1T", batch=64, sequence=4096))
    equal(visit, {"expected": told["expected"], "efficiency": told["efficiency"]})


def test_a_question_is_asked_and_answered_by_the_keyboard_alone(visit):
    page = visit.open("ask")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "model":
            break
    page.keyboard.type("gpt2")
    page.keyboard.press("Tab")
    page.keyboard.type("dgx-h100")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-screen=answer][data-ready]")
    assert "gpt2 on dgx-h100" in page.locator("main").inner_text()
    assert "tp=" in page.url
    assert page.evaluate("document.activeElement.id") == "main"


def test_a_toggle_on_why_changes_the_answer_and_the_address(visit):
    page = visit.open("why", PLAN)
    before = visit.number("step_time")
    page.get_by_text("full", exact=True).click()
    page.locator(f"data[data-name=step_time]:not([value='{before}'])").first.wait_for()
    assert visit.number("step_time") == podsim.predict(**ASKED, recompute="full").step_time
    assert "recompute=full" in page.url
    page.reload()
    page.wait_for_selector("[data-screen=why][data-ready]")
    assert visit.number("step_time") == podsim.predict(**ASKED, recompute="full").step_time


def test_degrees_are_changed_on_why_with_the_gpus_kept_and_the_plan_is_taken(visit):
    page = visit.open("why", PLAN)
    before = visit.number("step_time")
    page.get_by_label("tp", exact=True).select_option("8")
    page.locator(f"data[data-name=step_time]:not([value='{before}'])").first.wait_for()
    told = podsim.predict(**{**ASKED, "tp": 8})
    assert told.plan["dp"] == 1
    assert page.get_by_label("dp", exact=True).input_value() == "1"
    equal(visit, {"step_time": told.step_time})
    page.get_by_role("button", name="Use this plan").click()
    page.wait_for_selector("[data-screen=answer][data-ready]")
    equal(visit, {"step_time": told.step_time, "memory": told.memory})


def test_designs_show_their_curves_with_bands_and_prices_of_a_catalog_at_once(visit):
    page = visit.open("designs", SCREENS["designs"])
    first = podsim.plan("llama-3-8b", on="dgx-h100:2", batch=64, sequence=4096).ranked[0].prediction
    equal(visit, {"A.step": first.step_time, "A.memory": first.memory})
    page.locator("main svg.plot polygon").nth(1).wait_for()
    per_hour = visit.number("B.USD per GPU-hour")
    hours = visit.number("B.training") / 3600
    assert visit.number("B.money") == pytest.approx(per_hour * hours * visit.number("B.GPUs"), rel=1e-6)


def test_mistakes_are_told_as_in_the_terminal(visit):
    page = visit.open("answer", "model=lama-3-8b&on=dgx-h100")
    assert "podsim: unknown model 'lama-3-8b': did you mean" in page.locator(".failed").inner_text()
    page = visit.open("answer", "model=<img src=x onerror=alert(1)>&on=dgx-h100")
    assert page.locator("main img").count() == 0
    assert "onerror" in page.locator(".failed").inner_text()
    visit.wrong.clear()  # the browser itself says that an answer had status 400


@pytest.mark.parametrize("screen", ["answer", "why", "alternatives", "timeline", "fabric", "fleet"])
def test_a_screen_without_a_question_answers_an_example_and_says_so(visit, screen):
    page = visit.open(screen)
    assert "Llama 3 8B on 8 H100." in page.locator("main p").first.inner_text()
    assert page.locator("main data, main .drawing").count() > 0
    assert page.locator("main .failed").count() == 0


def test_a_plan_that_fits_nowhere_leads_to_the_fewest_gpus_that_do(visit):
    page = visit.open("answer", "model=llama-3-70b&on=dgx-h100&tokens=1T")
    page.get_by_role("link", name="Take 24 GPUs").click()
    page.get_by_text("days", exact=False).first.wait_for()
    assert visit.number("gpus") == 24
    assert visit.number("memory") <= visit.number("memory_limit")
    with pytest.raises(podsim.NoFitError):
        podsim.plan("llama-3-70b", on="dgx-h100", gpus=16)
    visit.wrong.clear()


def test_an_answer_begins_with_days_and_money_and_warns_once(visit):
    page = visit.open("answer", "model=gpt3-175b&on=superpod-a100:2su&tokens=300G&price=1.5")
    days = f"{visit.number('training.expected') / 86400:.3g} days, $"
    assert page.locator(".headline").inner_text().startswith(days)
    assert page.locator("main").inner_text().lower().count("faster than any") == 1
    price = visit.number("gpus") * visit.number("training.expected") / 3600 * 1.5  # USD, without idle hours
    assert visit.number("expense.low") == pytest.approx(price, rel=1e-6)


def test_days_on_ask_find_the_fewest_gpus(visit):
    page = visit.open("ask", "model=llama-3-8b&on=h100&tokens=100G")
    page.locator("input[name=days]").fill("30")
    page.get_by_role("button", name="Find the best plan").click()
    page.wait_for_selector("[data-screen=answer][data-ready]", timeout=60_000)
    gpus, days = visit.number("gpus"), visit.number("training.expected") / 86400
    assert days <= 30
    fewer = podsim.plan("llama-3-8b", on="h100", tokens="100G", gpus=int(gpus) - 1).ranked[0].prediction
    assert fewer.training.expected / 86400 > 30


def test_trust_tells_runs_that_constants_were_fitted_to_from_those_that_only_test_them(visit):
    page = visit.open("trust")
    runs = residuals()
    equal(visit, {"runs": sum(run.role == "test" for run in runs)})
    equal(visit, {"fitted": sum(run.role == "calibrate" for run in runs)})
    page.get_by_role("button", name="DGXC", exact=True).click()
    dgxc = [run for run in runs if run.id.startswith("DGXC-")]
    assert page.get_by_text(f"1 to 25 of {len(dgxc)} runs").is_visible()
    page.get_by_role("button", name="Next").click()
    assert page.get_by_text(f"26 to 50 of {len(dgxc)} runs").is_visible()


def test_the_page_has_the_colours_of_the_charts_and_of_the_timeline():
    static = Path(podsim.__file__).parent / "web" / "static"
    palette = re.search(r"PALETTE = \[(.*?)\]", (static / "charts.js").read_text())
    assert re.findall(r'"(.*?)"', palette[1]) == ["var(--blue)", *COLOURS[1:]]
    kinds = dict(re.findall(r'(\w+): "(#\w+)"', (static / "screens" / "why.js").read_text()))
    del kinds["correction"]  # no op of a timeline
    assert kinds == colours(kinds)


def test_learn_plays_by_itself_unless_motion_is_not_wanted(browser, address):
    with Visit(browser, address) as visit:
        assert visit.open("learn").get_by_role("button", name="Play").is_visible()
        visit.page.emulate_media(reduced_motion="no-preference")
        visit.open("learn").get_by_text("Round 2 of 14").wait_for()


def test_a_printed_why_has_the_width_of_the_paper(browser, address):
    with Visit(browser, address) as visit:
        page = visit.open("why", PLAN)
        page.emulate_media(media="print")
        chart = page.locator("main svg.stack").first.bounding_box()
        assert chart["width"] > 0.9 * page.viewport_size["width"]


def test_back_undoes_a_toggle(visit):
    page = visit.open("why", PLAN)
    before = visit.number("step_time")
    page.get_by_text("full", exact=True).click()
    page.locator(f"data[data-name=step_time]:not([value='{before}'])").first.wait_for()
    page.go_back()
    page.locator(f"data[data-name=step_time][value='{before}']").first.wait_for()
    assert "recompute=none" in page.url


def test_long_work_can_be_stopped_and_asked_again(visit):
    page = visit.page
    page.goto("about:blank")
    page.goto(f"{visit.address}/#answer?model=gpt4-1.8t-moe&on=superpod-gb200")
    page.get_by_role("button", name="Stop").click(timeout=30_000)
    page.get_by_text("Stopped.").wait_for()
    assert page.get_by_role("button", name="Ask again").is_visible()


def test_a_dropped_config_travels_in_the_address(visit, tmp_path):
    config = tmp_path / "mine.json"
    config.write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816,
        "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 32000,
        "max_position_embeddings": 2048,
    }))  # fmt: skip
    page = visit.open("ask", "on=dgx-h100")
    page.set_input_files("#config-file", str(config))
    page.wait_for_url(re.compile("config="))
    page.wait_for_selector("button.chip")
    url = page.url
    visit.context.clear_cookies()
    page.goto("about:blank")
    page.goto(re.sub("#ask", "#answer", url))
    page.wait_for_selector("[data-screen=answer][data-ready]")
    told = podsim.plan(config, on="dgx-h100").ranked[0].prediction
    assert visit.number("step_time") == told.step_time
