"""Commands that are ended at random moments, on full and read-only disks too: whole files stay, and nothing else does.

Some tries have an empty cache, on such a disk at times, that a second start of the same command shares.

As root, each try has a /dev/shm of its own, and disks are small or read-only tmpfs; others go without these.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from podsim.lab.checkpoint_files import damage, steps

ROOT = Path(__file__).resolve().parents[2]
IS_ROOT = os.getuid() == 0 and shutil.which("unshare") is not None
_BEFORE = b"before"
_SOON = 5.0
"""s in which a command ends on an idle machine, and its processes are gone"""
_REASONS = ("take more --steps", "take more\n  --steps", "leave --make out")
"""why a second start may not go on: the steps are done, and the dataset is there"""
_COLD = 0.3
"""share of tries with a cache of their own, which is empty, and with a second start beside the first"""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A command that writes into the folder {o}."""

    words: str
    files: tuple[str, ...] = ()
    """names in {o} that it may leave, each whole; * stands for anything"""
    length: float = 2.0
    """s that it usually takes on an idle machine"""
    again: str = ""
    """words that a second start has in addition"""
    before: str = ""
    """words of a start that runs to its end first"""
    held: int = 0
    """KiB that it leaves"""
    ends: bool = True
    """whether it ends by itself"""
    needs: str = ""
    """the program that it needs"""


_RUN = "--sequence 8 --set model.layers=2 --backend gloo --batch 4"
SCENARIOS: Mapping[str, Scenario] = {
    "plan": Scenario(
        length=2.5, words="plan gpt2 --on dgx-a100-80gb:2 --batch 256 --save {o}/plans --html {o}/page.html",
        files=("page.html", "plans", "plans/plans.csv", "plans/plans.json", "plans/pareto.csv", "plans/experiment.toml",
               "plans/*.sh", "plans/*.yaml", "plans/*.sbatch", "plans/*.json"),
    ),
    "simulate": Scenario(
        length=2.0, words="simulate gpt2 --on dgx-a100-80gb:2 --batch 64 --timeline {o}/t.json --timeline {o}/t.json.gz "
        "--timeline {o}/t.pftrace --links {o}/l.svg --save {o}/s.jsonl",
        files=("t.json", "t.json.gz", "t.pftrace", "l.svg", "s.jsonl"),
    ),
    "study": Scenario(
        length=4.0, words="study {f}/study.toml --executor processes:2 --store {o}/a.sqlite "
        "--xlsx {o}/x.xlsx --html {o}/p.html",
        files=("a.sqlite", "a.sqlite-journal", "x.xlsx", "p.html"),
    ),
    "train": Scenario(
        length=6.0, words=f"train --dp 2 --steps 12 --every 2 --keep 2 --checkpoint {{o}}/c "
        f"--metrics {{o}}/m.jsonl --save {{o}}/r.jsonl {_RUN}",
        files=("c", "c/*", "m.jsonl", "r.jsonl"), again="--resume",
    ),
    "resume": Scenario(
        length=6.0, words=f"train --dp 2 --steps 12 --every 2 --keep 2 --checkpoint {{o}}/c --resume "
        f"--save {{o}}/r.jsonl {_RUN}",
        before=f"train --dp 2 --steps 4 --every 2 --keep 2 --checkpoint {{o}}/c {_RUN}", held=3500,
        files=("c", "c/*", "r.jsonl"),
    ),
    "serve": Scenario(
        length=4.0, words="serve best llama-3.1-8b --on 4xh100 --rate 20/s --ttft 500ms --tpot 30ms "
        "--html {o}/b.html --launch vllm --save {o}/s",
        files=("b.html", "s", "s/serve.sh"),
    ),
    "collective": Scenario(
        length=4.0, words="measure collective all-reduce --ranks 2 --sizes 1K:64K:8 --iters 3 "
        "--save {o}/r.jsonl", files=("r.jsonl",)
    ),
    "tables": Scenario(
        length=4.0, words="measure tables criteo-small --rows 500 --steps 8 --every 2 "
        "--checkpoint {o}/c --folder {o} --save {o}/r.jsonl",
        files=("c", "c/*", "r.jsonl"), again="--resume",
    ),
    "serving": Scenario(
        length=6.0, words="measure serving --requests 25 --loads 0.5 --layers 1 --hidden 32 --tries 1 --save {o}/r.jsonl",
        files=("r.jsonl",),
    ),
    "storage": Scenario(
        length=4.0, words="measure checkpoint --to {o}/c --size 8MB --ranks 2 --repeats 2 "
        "--save {o}/r.jsonl", files=("c", "r.jsonl")
    ),
    "loader": Scenario(
        length=3.0, words="measure loader {o}/d --make 60x20KB --epochs 2 --workers 2 --batch 8 --save {o}/r.jsonl",
        files=("d", "d/*", "r.jsonl"),
    ),
    "emulate": Scenario(
        length=3.0, words="emulate dgx-a100:2 --set gpus_per_node=1 --set nics=1 --scale 1/4000 "
        "--save {o}/w.jsonl -- sleep 1",
        files=("w.jsonl",), needs="tc",
    ),
    "verify": Scenario(
        length=4.0, words="verify --expect dgx-a100-80gb --only storage --folder {o} --size 4M "
        "--seconds 0.5 --junit {o}/v.xml",
        files=("v.xml",), needs="fio",
    ),
    "web": Scenario(length=4.0, words="web --port {p} --workers 1", ends=False),
    "exporter": Scenario(length=2.0, words="exporter arrivals:50 --on dgx-a100:4 --port {p}", ends=False),
    "day": Scenario(
        length=2.0, words="exporter arrivals:50 --on dgx-a100:4 --length 1h --write {o}/d.txt "
        "--files {o}/f", files=("d.txt", "f", "f/*")
    ),
    "queue": Scenario(
        length=2.0, words="queue philly-1 --on 8x8 --plot {o}/q.svg --html {o}/q.html", files=("q.svg", "q.html")
    ),
}  # fmt: skip

_STUDY = """
[common]
model = "gpt2"
[grid]
on = ["dgx-a100-80gb", "dgx-h100"]
gpus = [1, 2, 4, 8]
"""


@dataclass
class Figures:
    """What a run of tries has seen."""

    tries: Counter[str] = field(default_factory=Counter)
    early: Counter[str] = field(default_factory=Counter)
    """signals that came before podsim's first line of Python"""
    whole: Counter[str] = field(default_factory=Counter)
    """runs that ended before their signal"""
    resumed: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    """s from a signal to the end"""
    lengths: dict[str, float] = field(default_factory=dict)


def tries(seed: int, count: int, names: Sequence[str] = ()) -> Iterator[str | None]:
    """For each try a sentence on what was lost or left; None if nothing was."""
    usable = [
        name
        for name in names or SCENARIOS
        if not SCENARIOS[name].needs or shutil.which(SCENARIOS[name].needs)
    ]
    seen = Figures()
    for number in range(count):
        chance = random.Random(f"{seed}/{number}")
        with tempfile.TemporaryDirectory(prefix="kills-") as folder:
            yield _Try(usable[number % len(usable)], chance, Path(folder), seen).problem(number)
    print(f"\nslowest end {seen.slowest:.1f} s")
    for name in usable:
        print(
            f"{name}: {seen.tries[name]} tries, {seen.early[name]} before podsim began, {seen.whole[name]} ended "
            f"before the signal, {seen.resumed[name]} started again"
        )


class _Try:
    """One command in folders of its own."""

    def __init__(self, name: str, chance: random.Random, folder: Path, seen: Figures) -> None:
        self.name, self.chance, self.folder, self.seen = name, chance, folder, seen
        self.scenario = SCENARIOS[name]
        self.out, self.fixed, self.temporary, self.shared, self.twin = (
            folder / each for each in ("out", "fixed", "tmp", "shm", "twin")
        )
        self.cache = folder / "cache" if chance.random() < _COLD else None
        self.mark = f"kills-{os.getpid()}-{chance.random()}"
        self.is_full = False

    def problem(self, number: int) -> str | None:
        """What is wrong after a random end, and after a second start."""
        seen, chance = self.seen, self.chance
        for each in (self.out, self.fixed, self.temporary, self.shared, self.twin, self.cache):
            if each:
                each.mkdir()
        (self.fixed / "study.toml").write_text(_STUDY, "utf-8")
        disk = chance.choice(("", "", "", "full", "read-only")) if IS_ROOT else ""
        number_sent = chance.choice(_SIGNALS)
        moment = chance.random() * seen.lengths.setdefault(self.name, self.scenario.length * _load())
        what = f"{self.name}, {number_sent.name} after {moment:.2f} s, disk {disk or 'good'}, "
        what += f"{'two on an empty cache, ' if self.cache else ''}try {number}: "
        seen.tries[self.name] += 1
        with self._cache_disk(), self._disk(disk, is_replaced=chance.random() < 0.5):
            twin = self._start(out=self.twin) if self.cache and not self.scenario.before else None
            wrong = self._run(number_sent, moment, disk) or self._lost()
            wrong = self._end_twin(twin) or wrong if twin else wrong
            wrong = wrong or self._left(number_sent)
        share = (
            0.5 if self.scenario.again else 0.2 * (self.name != "serving")
        )  # it measures until it has a core
        if wrong is None and self.scenario.ends and chance.random() < share:
            seen.resumed[self.name] += 1
            self.is_full = False
            again = self._start(self.scenario.again.split() if (self.out / "c").is_dir() else [])
            text = "it goes on"
            with suppress(subprocess.TimeoutExpired):
                text = again.communicate(timeout=60 * _load())[1]
            if again.returncode not in (0, 1) and not any(reason in text for reason in _REASONS):
                wrong = f"the second start ends with {again.returncode}: {text[-300:]}"
            wrong = wrong or self._lost() or self._left(None)
        return wrong and what + wrong

    @contextmanager
    def _disk(self, disk: str, *, is_replaced: bool) -> Iterator[None]:
        """The folder of outputs as a small or a read-only disk; what is written there stays afterwards."""
        with ExitStack() as ending:
            if disk:
                size = self.scenario.held + (self.chance.choice((16, 64, 256)) if disk == "full" else 1024)
                subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "none", self.out], check=True)
                ending.callback(self._unmount)
            if self.name == "storage":
                (self.out / "c").mkdir()
                (self.twin / "c").mkdir()
            if self.scenario.before:
                self._start(words=self.scenario.before).communicate(timeout=60 * _load())
            if is_replaced:
                for name in self.scenario.files:
                    if (
                        "*" not in name
                        and "/" not in name
                        and "." in name
                        and "sqlite" not in name
                        and name != "m.jsonl"
                    ):
                        (self.out / name).write_bytes(_BEFORE)
            if disk == "read-only":
                subprocess.run(["mount", "-o", "remount,ro", self.out], check=True)
            self.is_full = bool(disk)
            yield

    @contextmanager
    def _cache_disk(self) -> Iterator[None]:
        """The cache as a good, a small or a read-only disk."""
        options = self.chance.choice(("", "size=16k", "ro")) if self.cache and IS_ROOT else ""
        if options:
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(self.cache)], check=True)
        try:
            yield
        finally:
            if options:
                subprocess.run(["umount", "-l", str(self.cache)], check=True)

    def _end_twin(self, twin: subprocess.Popen[str]) -> str | None:
        """What is wrong with the second start, which no signal reached, or which a server gets once it serves."""
        try:
            if not self.scenario.ends:
                with suppress(subprocess.TimeoutExpired):
                    twin.wait(self.scenario.length * _load())
                twin.terminate()
            text = twin.communicate(timeout=90 * _load())[1]
        except subprocess.TimeoutExpired:
            twin.kill()
            return "the second start does not end"
        good = (0, 1) if self.scenario.ends else (130, -signal.SIGTERM)
        if twin.returncode not in good or "Traceback" in text:
            return f"the second start ends with {twin.returncode}: {text[-600:]}"
        return self._lost(self.twin)

    def _unmount(self) -> None:
        kept = self.folder / "kept"
        shutil.copytree(self.out, kept)
        subprocess.run(["umount", "-l", self.out], check=True)
        self.out.rmdir()
        kept.rename(self.out)

    def _start(
        self, more: Sequence[str] = (), *, words: str = "", out: Path | None = None
    ) -> subprocess.Popen[str]:
        words = (words or self.scenario.words).format(
            o=out or self.out, f=self.fixed, p=self.chance.randrange(20_000, 60_000)
        )
        first, mark, last = words.partition(" -- ")
        command = [sys.executable, "-m", "podsim.cli", *first.split(), *more, *f"{mark}{last}".split()]
        if IS_ROOT:
            command = ["unshare", "-m", "--propagation", "private", "sh", "-c",
                       'mount --bind "$0" /dev/shm && exec "$@"', str(self.shared), *command]  # fmt: skip
        environment = {
            **os.environ, "TMPDIR": str(self.temporary), "PODSIM_KILLS": self.mark, "OMP_NUM_THREADS": "1",
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            **({"XDG_CACHE_HOME": str(self.cache)} if self.cache else {}),
        }  # fmt: skip
        return subprocess.Popen(
            command, env=environment, cwd=self.fixed, start_new_session=True, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - a shell may ignore it
        )  # fmt: skip

    def _run(self, number: signal.Signals, moment: float, disk: str) -> str | None:
        """Start, send the signal at its moment, and see how it ends."""
        seen, started = self.seen, time.monotonic()
        process = self._start()
        with suppress(subprocess.TimeoutExpired):
            process.wait(moment)
        took = time.monotonic() - started
        is_over, has_begun = process.poll() is not None, self._has_begun(process.pid)
        process.send_signal(number)
        sent = time.monotonic()
        try:
            text = process.communicate(timeout=60)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            return "it does not end within 60 s"
        late = time.monotonic() - sent
        if "Traceback" in text and (has_begun or is_over):
            return f"a traceback: {text[-600:]}"
        said = f"status {process.returncode}: {text[-300:]}"
        ends_well = process.returncode in ((0, 1, 2) if disk else (0, 1))
        if is_over:
            seen.whole[self.name] += 1
            seen.lengths[self.name] = 0.5 * (took + seen.lengths[self.name])
            is_named = process.returncode != 2 or str(self.out) in text or "--store" in text
            return None if ends_well and is_named else said
        if number == signal.SIGKILL or not has_begun:
            seen.early[self.name] += not has_begun
            return None
        seen.slowest = max(seen.slowest, late)
        if late > _SOON * _load():
            return f"it ends {late:.1f} s after the signal"
        ended = process.returncode in (130, -signal.SIGINT, -signal.SIGTERM)
        return None if ended or (ends_well and self.scenario.ends) else said

    @staticmethod
    def _has_begun(pid: int) -> bool:
        """Whether podsim's handler of SIGTERM is there: before, Python or its imports have the word."""
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines():
                if line.startswith("SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
        return False

    def _lost(self, out: Path | None = None) -> str | None:
        """The first file that is not whole, or that nobody asked for."""
        out = out or self.out
        for path in sorted(out.rglob("*")):
            name = path.relative_to(out).as_posix()
            if fnmatch(name, "podsim-*.scratch/*"):
                continue  # the next start takes the folder away, see _left
            if not any(fnmatch(name, each) for each in self.scenario.files) and not (
                self.scenario.needs == "fio" or self.name == "tables"
            ):
                return f"{name} is left"
            if path.is_file() and path.read_bytes() != _BEFORE and not name.startswith("c/"):
                try:
                    _CHECKS.get(path.suffix, _is_text)(path, self.is_full)
                except (ValueError, OSError, EOFError, zipfile.BadZipFile, sqlite3.Error) as problem:
                    return f"{name} is not whole: {problem}"
        if self.name in ("train", "resume"):
            kept = steps(out / "c") if (out / "c").is_dir() else []
            for step in kept:
                if why := damage(out / "c", step):
                    return f"the checkpoint of step {step}: {why}"
            if self.scenario.before and not kept:
                return "no checkpoint of the first start is left"
        return None

    def _left(self, number: int | None) -> str | None:
        """Processes, temporary files, shared memory or namespaces that stay."""
        until = time.monotonic() + _SOON * _load()
        while (alive := self._alive()) and time.monotonic() < until:
            time.sleep(0.05)
        if alive:
            for pid in alive:
                with suppress(OSError):
                    os.kill(int(pid), signal.SIGKILL)
            return f"processes stay: {list(alive.values())}"
        left = [path.name for path in (*self.temporary.iterdir(), *self.shared.iterdir())]
        left += [path.name for path in self.out.glob("podsim-*")]
        left = [name for name in left if not name.startswith("torchinductor_")]  # PyTorch's own cache
        if number == signal.SIGKILL:  # the next start takes ours away; multiprocessing leaves its socket
            left = [
                name
                for name in left
                if not fnmatch(name, "podsim-*.scratch") and not name.startswith("pymp-")
            ]
        if left:
            return f"{left} stay"
        held = Path("/run/netns")
        return f"{list(held.iterdir())} stay" if held.is_dir() and any(held.iterdir()) else None

    def _alive(self) -> dict[str, str]:
        """Processes of this try: {pid: command}."""
        found, mark = {}, self.mark.encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (folder / "environ").read_bytes():
                    found[folder.name] = (
                        (folder / "cmdline")
                        .read_bytes()
                        .replace(b"\0", b" ")
                        .decode("utf-8", "replace")[:150]
                    )
        return found


def _load() -> float:
    """How many processes wait for each core: so much longer does everything take."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _is_text(path: Path, is_full: bool) -> None:
    if path.suffix in (".csv", ".txt", ".yml", ".toml", ".xml") and not path.read_bytes().endswith(
        (b"\n", b">")
    ):
        raise ValueError("no end of the last line")


def _is_json(path: Path, is_full: bool) -> None:
    json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())


def _is_lines(path: Path, is_full: bool) -> None:
    """A log that grows by a line may be cut where the disk was full."""
    lines = path.read_bytes().splitlines(keepends=True)
    for line in lines[: -1 if is_full and path.name == "m.jsonl" else None]:
        json.loads(line)


def _is_page(path: Path, is_full: bool) -> None:
    if not path.read_bytes().rstrip().endswith((b"</html>", b"</svg>")):
        raise ValueError("no closing tag")


def _is_archive(path: Path, is_full: bool) -> None:
    with zipfile.ZipFile(path) as archive:
        if wrong := archive.testzip():
            raise ValueError(f"{wrong} is damaged")


def _is_store(path: Path, is_full: bool) -> None:
    with sqlite3.connect(path) as connection:
        (said,) = connection.execute("PRAGMA integrity_check").fetchone()
    connection.close()
    if said != "ok":
        raise ValueError(said)


_CHECKS: Mapping[str, Callable[[Path, bool], None]] = {
    ".json": _is_json, ".gz": _is_json, ".jsonl": _is_lines, ".html": _is_page, ".svg": _is_page, ".xlsx": _is_archive,
    ".npz": _is_archive, ".sqlite": _is_store,
}  # fmt: skip
