"""The table of sinks: every language that a text of others reaches, how it gets there, and a parser of that language.

A sink takes one of HOSTILE and a folder. It passes if a real parser, or a run with programs that only note their
arguments, finds the text as a text and nothing else; or if podsim refuses the text with a PodsimError.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np
import yaml
from made_launches import known_cluster, known_model

import podsim
from podsim.answers.acceptance import Acceptance, Check, Part
from podsim.answers.study import StudyResult, StudyRow
from podsim.answers.timeline import Counter, Lane, Timeline
from podsim.bugs import bug_report
from podsim.cli import app
from podsim.errors import PodsimError
from podsim.fleet.csv_rows import read_rows
from podsim.hardware.fabrics import fabric_of
from podsim.hardware.fabrics.describe import describe
from podsim.hardware.mig.commands import Devices, kubernetes_text, parted_text, read_parted
from podsim.kernels.constants import load_constants
from podsim.kernels.constants_file import write_constants
from podsim.lab.disk import names_command, run_tool
from podsim.lab.serving.load_generator import _message, read_url
from podsim.launching.job import Job
from podsim.launching.tools import TOOLS, emit
from podsim.monitoring.exposition import Family, label_text, metric_text, read_metrics
from podsim.monitoring.prometheus_api import read_prometheus
from podsim.questions.machine.mig_plan import save_plan
from podsim.quoting import cell_text, from_cell, toml_text, visible, whole
from podsim.report.columns import markdown_text
from podsim.report.fabric_svg import fabric_svg
from podsim.report.junit import junit_text
from podsim.report.pages import acceptance_page
from podsim.report.pictures import image_of
from podsim.report.plain_data import to_csv, to_json
from podsim.report.report_page import report_page
from podsim.report.screen import report_text
from podsim.report.study_files import write_parquet, write_workbook
from podsim.report.study_tables import study_report
from podsim.serving.deployments.deployment import Deployment
from podsim.serving.deployments.deployments import write_deployment
from podsim.serving.serving_plan import ServingPlan
from podsim.studies.answer_store import open_store
from podsim.timeline.gantt import gantt_image
from podsim.timeline.gantt_page import gantt_page
from podsim.timeline.timelines import read_timeline, write_timeline
from podsim.timeline.trace import chrome_text
from podsim.training.plan import Plan
from podsim.web.sessions import Sessions

MARK = "marked"
"""a file that only a text that ran can make"""
PLAIN = "plain-name"
HOSTILE: dict[str, str] = {
    "formula": "=cmd|' /C calc'!A0", "hyperlink": '=HYPERLINK("http://x.example","y")',
    "plus": '+1+HYPERLINK("x","y")', "minus": "-2+3+cmd|' /C calc'!A0", "at": "@SUM(1+1)*cmd",
    "tab formula": "\t=1+1", "return formula": "\r=1+1", "wide formula": "\uff1d1+1", "apostrophe formula": "'=1+1",
    "gap formula": " \ufeff=1+1", "dollar": f"$(touch {MARK})", "backtick": f"`touch {MARK}`",
    "semicolon": f"a; touch {MARK}; b", "single quote": f"a'; touch {MARK}; '",
    "double quote": f'a"; touch {MARK}; "', "line": f"a\ntouch {MARK}\nb",
    "sbatch": f"a\n#SBATCH --wrap='touch {MARK}'\n", "option": "--config=/etc/passwd",
    "node": f'$NODE_RANK"; touch {MARK}; "', "head": f'$HEAD_NODE_IP:20000"; touch {MARK}; "',
    "times": f"$NODE_RANK * 2)); touch {MARK}; ((1", "variable": "$(HOSTNAME)", "yaml": "a: b\n- c: d",
    "yaml tag": f"!!python/object/apply:os.system ['touch {MARK}']", "yaml bool": "on", "yaml number": "0123",
    "yaml null": "null", "yaml anchor": "&a [*a]", "yaml comment": "a #b", "yaml end": "...\n---\n",
    "python": f'"""\nimport os; os.system("touch {MARK}")\n"""', "format": "{0.__class__} %s %(a)s",
    "template": "{{ 7*7 }}{% raw %}", "tag": "<script>alert(1)</script>",
    "attribute": '"><img src=x onerror=alert(1)>', "script end": "</script><img src=x>",
    "script comment": "<!--<script>", "cdata": "]]><b>", "entity": "&lt;b&gt;&amp;", "scheme": "javascript:alert(1)",
    "label": 'a"} 1\nevil{x="', "backslash": "a\\", "exemplar": '} 1 # {a="b"} 2',
    "sql": "'); DROP TABLE answers; --", "escape": "\x1b[31m\x1b]0;title\x07", "return": "safe\revil",
    "c1": "a\x9b31mb", "turned": "\u202egnp.exe", "joiner": "a\u200db", "markup": "[red]a[/red][link=x]",
    "math": r"$\frac{1}{0$ a $\nothing$", "null": "a\0b", "half": "a\ud800b", "separator": "a\u2028b",
    "up": "../../etc/passwd", "root": "/etc/passwd", "windows": "C:\\a\\..\\CON", "comma": "a,b;c|d",
}  # fmt: skip
"""texts by name that are code in one language or another"""

_STUB = '#!/bin/sh\nprintf "%s\\0" "${0##*/}" "$@" >> "$NOTED"\n'
_PROGRAMS = ("srun", "torchrun", "scontrol", "nvidia-smi", "vllm", "python3", "trtllm-serve")


def _words_run(script: Path, folder: Path) -> list[str]:
    """The words with which a script starts the programs of a cluster, which here only note them."""
    bin_, noted = folder / "bin", folder / "noted"
    bin_.mkdir(exist_ok=True)
    for name in _PROGRAMS:
        (bin_ / name).write_text(_STUB)
        (bin_ / name).chmod(0o755)
    noted.write_bytes(b"")
    around = {"PATH": f"{bin_}:/usr/bin:/bin", "NOTED": str(noted), "NODE_RANK": "0", "HEAD_NODE_IP": "::1",
              "SLURM_JOB_NODELIST": "a", "SLURM_JOB_ID": "1", "MEGATRON": "/usr", "DATA": "mock",
              "TORCHTITAN": "/usr"}  # fmt: skip
    done = subprocess.run(["bash", str(script)], env=around, cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    marks = [*folder.rglob(MARK)]
    assert not marks, "a text ran"
    return noted.read_bytes().decode("utf-8", "surrogateescape").split("\0")[:-1]


def _plan(tool: str) -> Plan:
    software = {"software": "torchtitan-2024"} if "titan" in tool else {}
    return Plan(dp=8, global_batch=8, **software)  # type: ignore[arg-type]


def _job(text: str, tool: str, **given: Any) -> Job:
    return Job(
        model=known_model("llama-3.1-8b"), cluster=known_cluster(8), plan=_plan(tool),
        names={"model": text, "on": text}, **given,
    )  # fmt: skip


def _directive(text: str, folder: Path) -> None:
    begun = emit(_job("a", "slurm", partition=text), "slurm").text.splitlines()
    assert all(re.fullmatch(r"#SBATCH --[a-z-]+(=\S+)?", line) for line in begun[1 : begun.index("")])
    assert begun[2] == f"#SBATCH --partition={text}"


def _sbatch(text: str, folder: Path) -> None:
    script = emit(_job(text, "slurm", image=text, mounts=(f"{text}:/data",)), "slurm").text
    (folder / "job.sh").write_text(script, "utf-8", "surrogateescape")
    words = _words_run(folder / "job.sh", folder)
    assert {f"--container-image={text}", f"--container-mounts=/usr:/usr,{text}:/data"} <= {*words}


def _torchrun(text: str, folder: Path) -> None:
    (folder / "run.sh").write_text(emit(_job(text, "torchrun"), "torchrun").text)
    assert _words_run(folder / "run.sh", folder)[0] == "torchrun"


_PARSERS: dict[str, Callable[[str], Any]] = {
    ".yaml": yaml.safe_load, ".yml": yaml.safe_load, ".toml": tomllib.loads, ".json": json.loads,
    ".py": lambda text: ast.dump(ast.parse(text)),
}  # fmt: skip


@cache
def _plain_launch(tool: str) -> str:
    return json.dumps(_PARSERS[Path(TOOLS[tool].file).suffix](emit(_job(PLAIN, tool), tool).text))


def _launch(tool: str) -> Callable[[str, Path], None]:
    def sink(text: str, folder: Path) -> None:
        """The user's words: in a comment, or as values where the tool has a key for them."""
        made = _PARSERS[Path(TOOLS[tool].file).suffix](emit(_job(text, tool), tool).text)
        assert made == json.loads(_plain_launch(tool).replace(PLAIN, json.dumps(text)[1:-1]))

    return sink


def _pytorchjob(text: str, folder: Path) -> None:
    job = yaml.safe_load(
        emit(_job(text, "kubernetes", image=text, mounts=(f"{text}:/data",)), "kubernetes").text
    )
    pod = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    assert pod["containers"][0]["image"] == text.replace("#", "/")
    assert pod["volumes"][1]["hostPath"]["path"] == text.partition(":")[0]


def _model(text: str, source: str = "") -> Any:
    return replace(known_model("llama-3.1-8b"), name=text, source=source)


def _served(text: str, engine: str, target: str, folder: Path) -> Path:
    """The files of a served model whose weights, draft and name are a text."""
    weights = text if "/" in text else f"weights/{text}"
    plan = ServingPlan(engine=engine, tensor=2, replicas=2, draft=text, draft_tokens=2)
    write_deployment(
        Deployment(
            model=_model(text), cluster=known_cluster(8), plan=plan, names={"model": weights, "on": text}
        ),
        (target,), folder / "out",
    )  # fmt: skip
    assert all((folder / "out") in path.parents for path in folder.rglob("*.*") if "bin" not in path.parts)
    return folder / "out"


def _server_script(engine: str, target: str) -> Callable[[str, Path], None]:
    def sink(text: str, folder: Path) -> None:
        out = _served(text, engine, target, folder)
        words = _words_run(out / "serve.sh", folder)
        weights = text if "/" in text else f"weights/{text}"
        assert (f"./{weights}" if weights.startswith("-") else weights) in words
        if engine == "sglang":
            assert words[words.index("--speculative-draft-model-path") + 1] == text
        elif engine == "vllm":
            assert json.loads(words[words.index("--speculative-config") + 1])["model"] == text
        else:
            config = yaml.safe_load((out / "trtllm.yaml").read_text("utf-8"))
            assert config["speculative_config"]["speculative_model_dir"] == text

    return sink


def _server_manifest(text: str, folder: Path) -> None:
    out = _served(text, "sglang", "kubernetes", folder)
    pods, service = yaml.safe_load_all((out / "serve.yaml").read_text("utf-8"))
    container = pods["spec"]["template"]["spec"]["containers"][0]
    words = [word.replace("$$", "$") for word in container["args"]]
    assert words[words.index("--speculative-draft-model-path") + 1] == text
    assert not any("$(" in word.replace("$$", "") for word in container["args"])
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", service["metadata"]["name"])


def _triton(text: str, folder: Path) -> None:
    (made,) = {*_served(text, "vllm", "triton", folder).rglob("*.pbtxt")}
    fields = "".join(line for line in made.read_text("utf-8").splitlines(True) if not line.startswith("#"))
    plain = _served(PLAIN, "vllm", "triton", folder / "plain")
    (like,) = {*plain.rglob("*.pbtxt")}
    assert re.sub(r'name: "\w+"', "", fields) in re.sub(r'name: "\w+"', "", like.read_text("utf-8"))
    arguments = json.loads((made.parent / "1" / "model.json").read_text("utf-8"))
    assert arguments["model"].removeprefix("./") == (text if "/" in text else f"weights/{text}")


def _parted(text: str, folder: Path) -> None:
    entries = (Devices(devices=None, enabled=True, instances={text: 2}, device_filter=(text,)),)
    assert read_parted(parted_text({text: entries})) == {text: entries}


def _slices(text: str, folder: Path) -> None:
    made = yaml.safe_load(kubernetes_text([(text, "1g.5gb", 1, 1)], strategy="mixed", config=text))
    assert (
        made["metadata"]["name"]
        == text
        == made["spec"]["template"]["spec"]["nodeSelector"]["nvidia.com/mig.config"]
    )


def _csv(text: str, folder: Path) -> None:
    """A cell and a column; podsim reads both back, and no cell is a formula."""
    made = to_csv([{"name": text, "number": -1.5, text: ["x", text], "list": [text]}])
    head, row = csv.reader(io.StringIO(made, newline=""))
    assert row[1] == "-1.5"
    for cell in (*head, *row):
        assert not re.match(r"[\s\ufeff]*[=+@\uff1d-]|[\t\r]", cell) or re.fullmatch(r"-1\.5", cell), cell
    assert (from_cell(row[0]), from_cell(head[2])) == (whole(text), whole(text))
    (folder / "rows.csv").write_bytes(made.encode())
    assert read_rows(folder / "rows.csv")[0]["name"] == from_cell(cell_text(whole(text)).strip())


def _study(texts: Sequence[str]) -> StudyResult:
    rows = tuple(
        StudyRow(
            name=text, question="plan", settings={"on": text, "note": text}, status="fits", reason=text, model=text,
            cluster=text, gpus=8, training=1e6, cost=1e5, step_time=1.0, tokens=1e9, energy=1e9, carbon=1.0, memory=1e9,
        )
        for text in texts
    )  # fmt: skip
    return StudyResult(
        title=texts[0], rows=rows, varied=("on", "note"), common={"x": texts[0]}, computed=1, reused=0, seconds=1.0,
        complete=True,
    )  # fmt: skip


def _workbook(texts: Sequence[str], folder: Path) -> None:
    import openpyxl

    write_workbook(_study(texts), folder / "study.xlsx")
    book = openpyxl.load_workbook(folder / "study.xlsx")
    cells = [cell for sheet in book for row in sheet.iter_rows() for cell in row]
    assert not any(cell.data_type == "f" or cell.hyperlink for cell in cells)
    assert [row[0].value for row in book["designs"].iter_rows(min_row=2)] == [
        visible(cell_text(text)) for text in texts
    ]


def _parquet(texts: Sequence[str], folder: Path) -> None:
    from pyarrow import parquet

    write_parquet(_study(texts), folder / "study.parquet")
    assert parquet.read_table(folder / "study.parquet").column("design").to_pylist() == [*map(whole, texts)]


class _Tags(HTMLParser):
    """The tags, with the names of their attributes, and the scripts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, ...]] = []
        self.scripts: list[str] = []
        self.feed(text.encode().decode())
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, *(name for name, _ in attributes)))
        assert not any(
            str(value).lower().startswith("javascript:")
            for name, value in attributes
            if name in ("href", "src")
        )

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            self.scripts.append(data)


def _plain(texts: Sequence[str]) -> list[str]:
    return [f"{PLAIN}-{number}" for number in range(len(texts))]


def _page(make: Callable[[Sequence[str]], str]) -> Callable[[Sequence[str], Path], None]:
    def sink(texts: Sequence[str], folder: Path) -> None:
        made = make(texts)
        assert _Tags(made).tags == _Tags(make(_plain(texts))).tags
        assert all(char.isprintable() or char in "\n\t\u00a0" for char in made)

    return sink


def _report(texts: Sequence[str]) -> str:
    return report_page(study_report(_study(texts)), command=f"podsim {shlex.join(texts)}", version="1")


def _acceptance(texts: Sequence[str]) -> Acceptance:
    parts = [
        Part(name=text, expected=text, found=text, verdict="differs", source=text, why=text) for text in texts
    ]
    checks = [
        Check(
            group="group", name=text, unit="B/s", measured=None if number % 4 else 1.0, expected=2.0, limit=None,
            threshold=text, least=0.0, verdict="not run", why=text, basis=text, how=text,
        )
        for number, text in enumerate(texts)
    ]  # fmt: skip
    words = " ".join(texts)
    return Acceptance(machine=words, expected=words, started="2026-01-01T00:00:00", seconds=1.0, parts=tuple(parts),
                      checks=tuple(checks), notes=tuple(texts))  # fmt: skip


def _timeline(text: str) -> Timeline:
    place, time = np.zeros(1, np.int64), np.zeros(1)
    return Timeline(
        lanes=(Lane(process=text, name=text),), names=(text,), kinds=(text,), lane=place, name=place, kind=place,
        start=time, end=time + 1, arguments={text: np.array([text])},
        counters=(Counter(name=text, process=text, unit=text, time=time, value=time),),
    )  # fmt: skip


def _gantt(text: str, folder: Path) -> None:
    described = _Tags(gantt_page(_timeline(text), title=text)).scripts[0]
    assert json.loads(described)["names"] == [text]
    assert "<" not in described


def _trace(text: str, folder: Path) -> None:
    events = json.loads("".join(chrome_text(_timeline(text))))["traceEvents"]
    assert {event["name"] for event in events if event["ph"] == "X"} == {text}


def _junit(texts: Sequence[str], folder: Path) -> None:
    root = Xml.fromstring(junit_text(_acceptance(texts)).encode())
    cases = ["testcase", "failure"] * len(texts), ["testcase", "skipped"] * len(texts)
    assert [each.tag for each in root.iter()] == [
        "testsuites",
        "testsuite",
        *cases[0],
        "testsuite",
        *cases[1],
    ]


def _plot(texts: Sequence[str], folder: Path) -> None:
    """Names on the axes and titles of plots, which matplotlib would take for formulas."""
    texts = texts[list(texts).index(HOSTILE["math"]) :]
    for make in (lambda texts: image_of(_study(texts), "svg"), _gantt_image):
        made, plain = (Xml.fromstring(make(given)) for given in (texts, _plain(texts)))
        assert {each.tag for each in made.iter()} == {each.tag for each in plain.iter()}
        assert any(each.text and HOSTILE["math"] in each.text for each in made.iter())


def _gantt_image(texts: Sequence[str]) -> bytes:
    return gantt_image(_timeline(" ".join(texts)), "svg", title=" ".join(texts))


def _labels(text: str, folder: Path) -> None:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
    from prometheus_client.parser import text_string_to_metric_families as read_text

    family = Family(name="podsim_x", type="gauge", help=whole(text), labels=[label_text({"job": text, "other": text})],
                    series=np.zeros((1, 1), np.int64), values=np.ones((1, 1)))  # fmt: skip
    for form, read in (("prometheus", read_text), ("openmetrics", read_open)):
        made = "".join(metric_text([family], form))
        (sample,) = [sample for known in read(made) for sample in known.samples]
        assert sample.labels == {"job": whole(text), "other": whole(text)}
        (folder / "metrics").write_bytes(made.encode())
        assert read_metrics(folder / "metrics")["podsim_x"][0].labels == {
            "job": whole(text),
            "other": whole(text),
        }


def _toml(text: str, folder: Path) -> None:
    assert tomllib.loads(f"a = {toml_text(text)}\n{toml_text(text)} = [{toml_text(text)}]")["a"] == whole(
        text
    )


def _json(text: str, folder: Path) -> None:
    assert json.loads(to_json({text: text})) == {text: text}


def _sql(text: str, folder: Path) -> None:
    with open_store(folder / "answers.sqlite") as store:
        key = whole(text)
        store.keep([(key, key, {"a": text}), (PLAIN, key, {})])
        assert store.known([key])[key] in ({"a": text}, {})
        assert len(store.known([key, PLAIN])) == len({key, PLAIN})


def _terminal(texts: Sequence[str], folder: Path) -> None:
    made = report_text(study_report(_study(texts)))
    assert all(char.isprintable() or char in "\n\u00a0" for char in made)


def _command(texts: Sequence[str], folder: Path) -> None:
    """A name that no catalog has, and an option that no command has: what podsim says of them."""
    for text in (text for text in texts if not text.isprintable()):
        for words in (["show", text], ["show", "--no-such", text], ["mig", "plan", "a100", "--job", text]):
            said = io.StringIO()
            with redirect_stderr(said), redirect_stdout(said), suppress(SystemExit):
                app(words)
            assert said.getvalue()
            assert all(char.isprintable() or char in "\n\u00a0" for char in said.getvalue())


def _bug(text: str, folder: Path) -> None:
    assert bug_report(RuntimeError(text)).replace("\n", "").isprintable()


def _drawing(text: str, folder: Path) -> None:
    drawn = replace(describe(fabric_of(known_cluster(8))), server=text, faults=(text,), title=text)
    made, plain = (Xml.fromstring(fabric_svg(each)) for each in (drawn, replace(drawn, title=PLAIN)))
    assert [each.tag for each in made.iter()] == [each.tag for each in plain.iter()]


def _perfetto(text: str, folder: Path) -> None:
    write_timeline(_timeline(text), folder / "step.pftrace")
    assert read_timeline(folder / "step.pftrace").names == (whole(text).replace("\ud800", "?"),)


def _markdown(text: str, folder: Path) -> None:
    assert not re.search(r"<|\]\(|\n", markdown_text(text))


def _url(text: str, folder: Path) -> None:
    """The path and the host of a server: what a request's head holds of them."""
    for url in (f"http://localhost:1/{text}", f"http://{text}:80", f"{text}://localhost:1"):
        try:
            server = read_url(url, text)
        except PodsimError:
            continue
        head, _, body = _message(server, (1,), 1).partition(b"\r\n\r\n")
        assert re.fullmatch(rb"POST \S+ HTTP/1\.1", head.split(b"\r\n")[0])
        assert len(head.splitlines()) == 5
        assert json.loads(body)["model"] == text


def _prometheus_url(text: str, folder: Path) -> None:
    for url in (f"{text}://localhost:1", f"http://u:p@localhost:1/{text}"):
        with suppress(PodsimError):  # nobody answers
            read_prometheus(url, ["up"], 0.0, 1.0, 1.0)


def _uploaded(text: str, folder: Path) -> None:
    """The name that a browser gives a file."""
    sessions = Sessions(folder / "visits")
    session = sessions.get(sessions.make())
    assert session is not None
    made = session.files[sessions.add_file(session, text, "config", b"{}")]
    assert made.resolve().parent.parent == session.folder.resolve()
    assert re.fullmatch(r"[\w. -]+", made.name)


def _metrics_checked(texts: Sequence[str], folder: Path) -> None:
    """All texts as labels, before Prometheus' own parser."""
    labels = [label_text({"job": text}) for text in texts]
    family = Family(name="podsim_x", type="gauge", help="A gauge.", labels=labels, series=np.arange(len(texts))[None],
                    values=np.ones((1, len(texts))))  # fmt: skip
    text = "".join(metric_text([family], "prometheus"))
    subprocess.run(["promtool", "check", "metrics"], input=text.encode(), check=True, capture_output=True)


def _fio(texts: Sequence[str], folder: Path) -> None:
    """Folders whose names fio would take for several."""
    for number, text in enumerate(text for text in texts if text in (HOSTILE["yaml"], HOSTILE["windows"])):
        inside = folder / str(number) / re.sub(r"[/\0\ud800]", "", text)
        inside.mkdir(parents=True)
        run_tool(names_command("filecreate", inside, folder / "out.json", files=1, jobs=1), 1.0)
        assert [path for path in (folder / str(number)).rglob("*") if path.is_file()] == [*inside.iterdir()]


def _linked(write: Callable[[Path], Any]) -> Callable[[Path], None]:
    """A folder in which every file that podsim writes is a link to a file elsewhere: the links are replaced."""

    def sink(folder: Path) -> None:
        first, second, outside = (_made(folder / name) for name in ("first", "second", "outside"))
        write(first)
        names = [path.relative_to(first) for path in first.rglob("*") if path.is_file()]
        for number, name in enumerate(names):
            (outside / str(number)).write_text(PLAIN)
            (second / name).parent.mkdir(parents=True, exist_ok=True)
            (second / name).symlink_to(outside / str(number))
        write(second)
        assert names
        assert {path.read_bytes() for path in outside.iterdir()} == {PLAIN.encode()}
        assert not [name for name in names if (second / name).is_symlink()]

    return sink


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def _joined(sink: Callable[[str, Path], None]) -> Callable[[Sequence[str], Path], None]:
    """The sink of texts, eight at once, for those whose way is the same whatever stands at their start."""

    def joined(texts: Sequence[str], folder: Path) -> None:
        texts = [text for text in texts if text not in (HOSTILE["null"], HOSTILE["half"])]
        for first in range(0, len(texts), 8):
            sink(" ".join(texts[first : first + 8]), folder)

    return joined


SINKS: dict[str, Callable[[str, Path], None]] = {
    "sbatch directive": _directive, "sbatch": _sbatch, "vllm": _server_script("vllm", "vllm"),
    "pods of a server": _server_manifest, "triton": _triton, "mig-parted": _parted, "pods of slices": _slices,
    "csv": _csv, "trace": _trace, "prometheus": _labels, "toml": _toml, "json": _json, "sql": _sql, "bug": _bug,
    "drawing": _drawing, "perfetto": _perfetto, "markdown": _markdown,
    "url": _url, "url of prometheus": _prometheus_url, "uploaded file": _uploaded,
}  # fmt: skip
"""what takes one text, in a folder of its own"""
BATCHES: dict[str, Callable[[Sequence[str], Path], None]] = {
    "torchrun": _joined(_torchrun), "sglang": _joined(_server_script("sglang", "sglang")),
    "trtllm": _joined(_server_script("tensorrt-llm", "trtllm")), "pods of a job": _joined(_pytorchjob),
    **{tool: _joined(_launch(tool)) for tool, made in TOOLS.items() if Path(made.file).suffix in _PARSERS},
    "xlsx": _workbook, "parquet": _parquet, "page of a report": _page(_report), "junit": _junit, "plots": _plot,
    "page of an acceptance": _page(lambda texts: acceptance_page(_acceptance(texts))),
    "terminal": _terminal, "command": _command,
    "page of a timeline": _joined(_gantt),
}  # fmt: skip
"""what takes all texts at once"""
TOOLED: dict[str, Callable[[Sequence[str], Path], None]] = {"prometheus": _metrics_checked, "fio": _fio}
"""what takes all texts at once, with the program of a marker"""
REFUSING = ("sbatch directive", "sbatch", "vllm")
"""sinks whose language has no way to hold some text"""

LINKED: dict[str, Callable[[Path], None]] = {
    name: _linked(write)
    for name, write in {
        "plan": lambda folder: podsim.plan("gpt2", on="dgx-h100:1", batch=8, limit={"tp": [1]}, save=folder),
        "mig plan": lambda folder: save_plan(podsim.mig_plan("a100-40gb", jobs=["a:2x1g.5gb"]), folder),
        "deployment": lambda folder: _served(PLAIN, "vllm", "vllm", folder),
        "triton": lambda folder: _served(PLAIN, "vllm", "triton", folder),
        "constants": lambda folder: write_constants(load_constants("a100-sxm4-80gb"), folder),
    }.items()
}
"""what writes files of its own names into a folder"""
