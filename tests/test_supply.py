"""What is shipped: data with their terms, dependencies with their bounds, a workflow and scripts that fit together."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.licenses import canonicalize_license_expression
from packaging.requirements import Requirement
from scripts import audit, release_files

ROOT = Path(__file__).parents[1]
SOURCES: list[dict[str, Any]] = tomllib.loads((ROOT / "src/podsim/licences.toml").read_text("utf-8"))[
    "source"
]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text("utf-8"))
DATA = re.compile(r".*\.(csv|gz|toml|json|npz|yml|html|css|js|svg|txt|png|woff2?|ttf|pbtxt|xml)")
GROUND = ("carried:", "from ", "not carried:")
OWN_WORDS = ("source", "source_url_or_repo_path", "path", "notes", "reason")
"""columns that say where a row is from, and podsim's remarks"""
PLACES = ("src", "tests", "reference", "examples", "benchmarks")


FILES = {
    path.relative_to(ROOT).as_posix()
    for place in PLACES
    for path in (ROOT / place).rglob("*")
    if DATA.fullmatch(path.name)
}
PATHS = {
    source["title"]: {
        path.relative_to(ROOT).as_posix() for pattern in source["files"] for path in ROOT.glob(pattern)
    }
    for source in SOURCES
}


def test_every_data_file_has_a_source_and_every_source_a_file() -> None:
    assert not FILES - set().union(*PATHS.values())
    assert not [pattern for source in SOURCES for pattern in source["files"] if not list(ROOT.glob(pattern))]
    notice = (ROOT / "NOTICE").read_text("utf-8")
    for source in SOURCES:
        licence, title = source["licence"], source["title"]
        assert canonicalize_license_expression(licence) == licence, title
        assert source["known"] in ("own", "read", "recalled", "facts"), title
        assert ("ground" in source) == (source["known"] == "facts"), title
        assert all(word in source.get("ground", "carried: from not carried:") for word in GROUND), title
        assert source["use"], title
        assert licence == "LicenseRef-figures" or title.split()[0] in notice, title


def test_every_row_of_a_packaged_table_has_a_source_with_terms() -> None:
    for name in sorted(FILES):
        if not re.fullmatch(r"src/podsim/.*\.csv(\.gz)?", name):
            continue
        cells = {row.get("source") for row in _rows(name)} - {None, ""}
        known = [source for source in SOURCES if "words" in source and name in PATHS[source["title"]]]
        words = [re.compile(source["words"]) for source in known]
        unknown = [cell for cell in cells if not any(word.search(cell) for word in words)]
        assert not unknown, (name, unknown[:5])


def test_what_is_carried_as_facts_is_numbers_and_labels() -> None:
    """No cell is a sentence but podsim's own remarks."""
    checked = 0
    for source in (each for each in SOURCES if each["known"] == "facts" and "words" in each):
        for name in sorted(PATHS[source["title"]]):
            rows = [row for row in _rows(name) if re.search(source["words"], row.get("source") or "")]
            cells = [
                (key, cell) for row in rows for key, cell in row.items() if cell and key not in OWN_WORDS
            ]
            long = [cell for _, cell in cells if len(cell.split()) > 20 or "\n" in cell]
            assert not long, (name, long[:3])
            checked += len(cells)
    assert checked > 100_000


def test_configurations_hold_sizes_and_names_alone() -> None:
    text = json.loads((ROOT / "tests/workload/configs.json").read_text("utf-8"))
    leaves = [leaf for model in text.values() for leaf in _leaves(model["config"])]
    words = {leaf for leaf in leaves if isinstance(leaf, str)}
    assert len(leaves) > 1000
    assert not [word for word in words if not re.fullmatch(r"\S{0,150}", word)]


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for each in value for leaf in _leaves(each)] if isinstance(value, list) else [value]


def _rows(name: str) -> list[dict[str, str]]:
    data = (ROOT / name).read_bytes()
    return list(
        csv.DictReader((gzip.decompress(data) if name.endswith(".gz") else data).decode().splitlines())
    )


def test_licences_are_in_the_wheel() -> None:
    assert set(PROJECT["license-files"]) >= {"LICENSE", "NOTICE"}


@pytest.mark.parametrize(
    ("report", "wrong"),
    [
        ([{"name": "Click", "version": "9", "vulns": []}, {"name": "podsim", "skip_reason": "local"}], []),
        ([{"name": "click", "skip_reason": "not there"}], ["click was not audited: not there"]),
        ([{"name": "click", "version": "9", "vulns": [{"id": "GHSA-1"}]}], ["click 9: GHSA-1"]),
        ([{"name": "rich", "version": "1", "vulns": []}], ["click was not audited: the report has no answer"]),
        ([], ["pip-audit audited nothing"]),
        ("", ["pip-audit gave no report: nothing"]),
        ("[]", ["pip-audit gave no report: []"]),
    ],
    ids=["clean", "skipped", "hole", "missing", "empty", "silent", "other"],
)  # fmt: skip
def test_an_audit_that_skips_is_no_pass(report: Any, wrong: list[str]) -> None:
    text = report if isinstance(report, str) else json.dumps({"dependencies": report})
    assert audit.problems(text, ["click", "podsim"])[-1:] == wrong


def test_the_bill_of_materials_lists_what_runs(tmp_path: Path) -> None:
    file = tmp_path / "bill.json"
    command = [
        *release_files.BILL_COMMAND,
        "--no-validate",
        "--pyproject",
        ROOT / "pyproject.toml",
        "-o",
        file,
    ]
    # the long test below validates it by the schema, which takes seconds
    subprocess.run([*command, sys.executable], check=True, capture_output=True)
    bill = json.loads(file.read_text("utf-8"))
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "podsim")
    names = {part["name"].lower(): part.get("version") for part in bill["components"]}
    for text in PROJECT["dependencies"]:
        requirement = Requirement(text)
        assert names[requirement.name.lower()] == distribution(requirement.name).version
    assert release_files.bill_problems(json.dumps(bill)) == []
    assert release_files.bill_problems('{"components": [{"name": "numpy"}]}')[0] == "the bill lacks click"


def test_bounds_have_floors_and_ceilings_have_reasons() -> None:
    extras = PROJECT["optional-dependencies"]
    allowed = {"mkdocs"}  # 2 drops plugins and hooks
    for text in [*PROJECT["dependencies"], *(text for group in extras.values() for text in group)]:
        requirement = Requirement(text)
        if requirement.name == "podsim":
            continue
        kinds = {part.operator for part in requirement.specifier}
        assert kinds & {">=", "=="}, text
        assert not kinds & {"<", "<=", "~="} or requirement.name in allowed, text


def test_fragments_of_the_changelog_build() -> None:
    command = [
        sys.executable,
        "-m",
        "towncrier",
        "build",
        "--draft",
        "--version",
        "9.9.9",
        "--date",
        "2030-01-01",
    ]
    draft = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert draft.returncode == 0, draft.stderr
    text = " ".join(draft.stdout.split())
    fragments = [path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]
    for path in fragments:
        assert re.fullmatch(r"\+[a-z0-9-]+\.(feature|bugfix|doc|removal)\.md", path.name)
        assert " ".join(path.read_text("utf-8").split()) in text, path.name


def test_the_workflow_runs_what_it_must() -> None:
    jobs = WORKFLOW["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    runs = {name: " && ".join(step.get("run", "") for step in job["steps"]) for name, job in jobs.items()}
    assert runs["full"].endswith(".ci/run")
    assert jobs["full"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert {word.split("-")[0] for word in jobs["systems"]["strategy"]["matrix"]["system"]} == {
        "macos",
        "windows",
    }
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert not any("permissions" in job or "continue-on-error" in job for job in jobs.values())
    assert all(
        re.fullmatch(r"actions/[a-z-]+@v\d+\.\d+\.\d+", step["uses"]) for step in steps if "uses" in step
    )
    assert all(job["timeout-minutes"] for job in jobs.values())
    assert WORKFLOW[True]["schedule"]  # YAML 1.1 reads the key `on` so
    for script in ("lowest", "release_files", "audit", "soak"):
        assert f"scripts/{script}.py" in " ".join(runs.values())
    words = " ".join(runs.values()).split()
    assert all((ROOT / word).exists() for word in words if word.startswith(("scripts/", "tests/", ".ci/")))


def test_the_checklist_is_short_and_its_scripts_exist() -> None:
    text = (ROOT / "RELEASING.md").read_text("utf-8")
    assert len(text.splitlines()) <= 60
    for path in re.findall(r"(?:scripts|docs|src)/[\w/.-]+\.\w+", text):
        assert (ROOT / path).exists(), path


def _wheel(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return path


def test_a_wheel_with_a_library_is_for_its_platform(tmp_path: Path) -> None:
    library, pure = "podsim/_native-x86_64.so", "podsim/__init__.py"
    anywhere, here = "py3-none-any", "py3-none-linux_x86_64"
    cases = [(anywhere, library, 1), (here, library, 0), (anywhere, pure, 0), (here, pure, 1)]
    for tag, name, count in cases:
        assert len(release_files.wheel_problems(_wheel(tmp_path / f"podsim-1-{tag}.whl", name))) == count, (
            tag,
            name,
        )


@pytest.mark.long
@pytest.mark.skipif(find_spec("twine") is None, reason="needs pip install podsim[release]")
def test_a_release_is_twice_the_same_bytes(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "scripts" / "release_files.py", tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "twice the same bytes" in done.stdout
