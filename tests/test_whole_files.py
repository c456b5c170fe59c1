"""Outputs appear whole or not at all, on full and read-only disks too; folders of killed processes go."""

from __future__ import annotations

import ast
import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import podsim
from podsim.whole_files import scratch_folder, whole_file, write_files, write_whole

SOURCES = Path(podsim.__file__).parent
WRITERS = {"write_text", "write_bytes", "savefig", "to_excel", "to_parquet", "save_file", "copyfile", "copy2", "mkdtemp",
           "NamedTemporaryFile", "TemporaryDirectory"}  # fmt: skip
ALLOWED = {
    "whole_files.py": "it is what the others call",
    "metrics_log.py": "a log to which each step adds a line",
    "samples.py": "a lock without content",
    "places.py": "blocks that are written to be timed, then removed",
    "resnet.py": "records of a scratch folder",
    "steps.py": "a table of a scratch folder",
    "host_entry.py": "a draft of a scratch folder",
    "plots.py": "a picture in memory",
    "browser.py": "a page of a scratch folder",
    "sessions.py": "a visitor's upload in a scratch folder",
    "checkpoint_files.py": "the folder of a checkpoint gets its name when all is in it",
    "training_state.py": "a part of such a folder",
    "shards.py": "a part of such a folder",
    "namespaces.py": "the kernel's files in /proc",
    "emulated_cluster.py": "the kernel's files in /proc",
}


def test_every_output_is_written_whole() -> None:
    found = {path.name for path in SOURCES.rglob("*.py") if any(_writes(ast.parse(path.read_text("utf-8"))))}
    assert found <= ALLOWED.keys(), "write through podsim.whole_files"
    assert ALLOWED.keys() <= found, "a reason that is not needed"


def _writes(tree: ast.Module) -> Iterator[bool]:
    """Calls that write a file in place, or make a folder that may stay."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            modes = [each.value for each in (*node.args[:2], *(word.value for word in node.keywords))
                     if isinstance(each, ast.Constant) and isinstance(each.value, str)]  # fmt: skip
            is_open = name == "open" and any(mode[:1] in "wax" and len(mode) < 4 for mode in modes if mode)
            is_terminal = isinstance(node.func, ast.Attribute) and "formatter" in ast.dump(node.func.value)
            yield (name in WRITERS and not is_terminal) or is_open


@contextmanager
def small_files() -> Iterator[None]:
    """Files may have 4096 B, as if the disk were full then."""
    before, handler = (
        resource.getrlimit(resource.RLIMIT_FSIZE),
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.fixture(params=["unnamed", "named"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "named":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    return tmp_path


def test_a_full_disk_leaves_what_was_there(folder: Path) -> None:
    old, new = folder / "old.json", folder / "new.json"
    old.write_text("before", "utf-8")
    with small_files(), pytest.raises(OSError, match=r"\[Errno 27\].*new.json"):
        write_files({old: "after", new: b"x" * 10_000})
    with small_files(), pytest.raises(OSError, match="old"), whole_file(old) as file:
        file.write(b"x" * 100_000)
    with suppress(KeyboardInterrupt), whole_file(old) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert {path.name: path.read_text("utf-8") for path in folder.iterdir()} == {"old.json": "before"}


FAILING: dict[str, tuple[Callable[[Path], Path], int]] = {
    "no folder": (lambda folder: folder / "none" / "x.json", errno.ENOENT),
    "a folder": (lambda folder: folder, errno.EISDIR),
    "below a file": (lambda folder: folder / "file" / "x.json", errno.ENOTDIR),
    "a long name": (lambda folder: folder / ("x" * 300), errno.ENAMETOOLONG),
    "a loop": (lambda folder: folder / "loop", errno.ELOOP),
    "full": (lambda folder: Path("/dev/full"), errno.ENOSPC),
    "a system folder": (lambda folder: Path("/proc/self/x"), errno.ENOENT),
}


@pytest.mark.parametrize("case", FAILING)
def test_an_error_names_the_file(folder: Path, case: str) -> None:
    (folder / "file").write_text("before", "utf-8")
    (folder / "loop").symlink_to("loop")
    place, number = FAILING[case]
    path = place(folder)
    with pytest.raises(OSError, match="Errno") as problem:
        write_whole(path, "text")
    assert (problem.value.errno, problem.value.filename) == (number, str(path))
    assert sorted(each.name for each in folder.iterdir()) == ["file", "loop"]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write what nobody may")
def test_a_protected_file_stays(folder: Path) -> None:
    path = folder / "kept"
    path.write_text("before", "utf-8")
    path.chmod(0o444)
    with pytest.raises(PermissionError, match="kept"):
        write_whole(path, "after")
    assert path.read_text("utf-8") == "before"


def test_permissions_and_links_stay(folder: Path) -> None:
    target, link, dangling = folder / "target", folder / "link", folder / "dangling"
    target.write_text("before", "utf-8")
    target.chmod(0o640)
    link.symlink_to("target")
    dangling.symlink_to("made")
    write_whole(link, "after")
    write_whole(dangling, "new")
    assert (target.read_text("utf-8"), stat.S_IMODE(target.stat().st_mode)) == ("after", 0o640)
    assert link.is_symlink()
    assert (folder / "made").read_text("utf-8") == "new"
    mask = os.umask(0o027)
    try:
        write_whole(folder / "fresh", "")
        assert stat.S_IMODE((folder / "fresh").stat().st_mode) == 0o640
    finally:
        os.umask(mask)
    long = folder / ("\N{GRINNING FACE}" * 63)  # a name that is just short enough
    write_whole(long, "x")
    assert long.read_text("utf-8") == "x"


def test_pipes_and_devices_are_written_as_they_are(tmp_path: Path) -> None:
    pipe, heard = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: heard.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, "through")
    reader.join(10)
    assert heard == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    words = ["schedule", "1f1b", "--pp", "2", "--micro-batches", "4", "--csv-torch", "/dev/stdout"]
    command = [sys.executable, "-m", "podsim.cli", *words]
    with (tmp_path / "out").open("w") as out:
        subprocess.run(command, stdout=out, check=True)
        assert os.fstat(out.fileno()).st_nlink == 1, "the shell's file was replaced"


HOLD = """
import sys, time
from pathlib import Path
from podsim.whole_files import scratch_folder
with scratch_folder(Path(sys.argv[1])) as own:
    (own / "deep").mkdir()
    print(own, flush=True)
    time.sleep(60)
"""


def test_folders_of_killed_processes_go(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as held:
        assert held.stdout is not None
        left = Path(held.stdout.readline().strip())
        with scratch_folder(tmp_path) as own:
            assert left.is_dir(), "a living process keeps its own"
        assert not own.exists()
        held.kill()
    assert left.is_dir()
    with scratch_folder(tmp_path):
        assert not left.exists()
    assert not list(tmp_path.iterdir())


def test_a_killed_writer_leaves_nothing(tmp_path: Path) -> None:
    script = f"""
from pathlib import Path
from podsim.whole_files import whole_file
with whole_file(Path({str(tmp_path / "big.gz")!r})) as file:
    file.write(b"x" * 1_000_000)
    print("half", flush=True)
    import time; time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"half\n"
        writer.kill()
    names = [path.name for path in tmp_path.iterdir()]
    assert not names or (not hasattr(os, "O_TMPFILE") and names[0].startswith(".podsim-"))
