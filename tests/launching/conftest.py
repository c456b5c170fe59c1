"""The command line in this process; and a Slurm of four emulated 8-GPU nodes on loopback, in a private directory."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from podsim.cli import app

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
STEPD = Path("/usr/sbin/slurmstepd")
"""where Debian's slurmd looks for it, whatever its configuration says"""


@pytest.fixture
def podsim() -> Callable[..., Result]:
    def run(*arguments: object, **named: str) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments], **named)  # type: ignore[arg-type]

    return run


class Slurm:
    """Where its programs are, and the environment that they need."""

    def __init__(self, home: Path, root: Path) -> None:
        self.home, self.root = home, root
        libraries = [root / "usr/lib" / f"{os.uname().machine}-linux-gnu"]
        libraries.append(libraries[0] / "slurm-wlm")
        self.plugins = libraries[1]
        path = [home / "bin", root / "usr/sbin", root / "usr/bin"]
        self.environment = {
            "PATH": ":".join([*map(str, path), os.environ["PATH"]]),
            "SLURM_CONF": str(home / "slurm.conf"), "HOME": str(home), "MEGATRON": str(home), "DATA": "mock",
            **({"LD_LIBRARY_PATH": ":".join(map(str, libraries))} if root != Path("/") else {}),
        }  # fmt: skip

    def run(self, *words: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(word) for word in words], env=self.environment, cwd=self.home, capture_output=True, text=True,
            check=False, timeout=60,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def finish(self, script: Path) -> str:
        """Submit a script and wait for its end; the number of the job."""
        number = self.run("sbatch", "--parsable", script).stdout.strip()
        for _ in range(300):
            shown = self.run("scontrol", "show", "job", number).stdout
            if not any(state in shown for state in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING")):
                break
            time.sleep(0.1)
        assert "JobState=COMPLETED" in shown, shown
        return number


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Slurm]:
    """A running cluster; the test is skipped, with the reason, where there can be none."""
    if os.geteuid() != 0:
        pytest.skip("Slurm's daemons need root here")
    there = all(shutil.which(name) for name in ("slurmctld", "slurmd", "munged", "sbatch"))
    root = Path("/") if there else _unpacked(tmp_path)
    linked = not STEPD.exists()
    made = Slurm(tmp_path, root)
    try:
        if linked:
            STEPD.unlink(missing_ok=True)  # what an interrupted run may have left
            STEPD.symlink_to(root / "usr/sbin/slurmstepd")
        _configure(made)
        _start(made)
        yield made
    finally:
        _stop(tmp_path)
        if linked:
            STEPD.unlink(missing_ok=True)


def _unpacked(home: Path) -> Path:
    """Debian's packages unpacked into a private directory: nothing is installed."""
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        pytest.skip("no Slurm on this machine, and no apt-get to fetch Debian's packages")
    archives, root = home / "archives", home / "root"
    (archives / "partial").mkdir(parents=True)
    fetch = ["apt-get", "-qq", "-y", "-o", "Debug::NoLocking=1", "-o", f"Dir::Cache::archives={archives}",
             "-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=10", "--no-install-recommends",
             "--download-only", "install", *PACKAGES]  # fmt: skip
    try:
        done = subprocess.run(fetch, capture_output=True, text=True, check=False, timeout=60)
    except subprocess.TimeoutExpired:
        pytest.skip("apt-get did not fetch Slurm within a minute")
    packages = sorted(archives.glob("*.deb"))
    if done.returncode or not packages:
        pytest.skip(f"apt-get cannot fetch Slurm: {(done.stderr or done.stdout).strip()[-200:]}")
    for package in packages:
        subprocess.run(["dpkg", "-x", package, root], check=True, timeout=30)
    for daemon in ("slurmctld", "slurmd", "slurmstepd"):  # they look at their own names, which Debian links
        if (root / "usr/sbin" / f"{daemon}-wlm").exists() and not (root / "usr/sbin" / daemon).exists():
            (root / "usr/sbin" / daemon).symlink_to(f"{daemon}-wlm")
    return root


def _ports(count: int) -> list[int]:
    opened = [socket.socket() for _ in range(count)]
    for one in opened:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in opened]
    for one in opened:
        one.close()
    return ports


def _configure(slurm: Slurm) -> None:
    home, host = slurm.home, socket.gethostname().split(".")[0]
    for name in ("run", "log", "state", "spool", "bin"):
        (home / name).mkdir()
    for place in range(8):
        (home / f"gpu{place}").touch()
    (home / "key").write_bytes(os.urandom(1024))
    (home / "key").chmod(0o400)
    control, *ports = _ports(5)
    nodes = "".join(
        f"NodeName=dgx{place} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=256 SocketsPerBoard=2 "
        "CoresPerSocket=64 ThreadsPerCore=2 RealMemory=1024000 Gres=gpu:a100:8\n"
        for place, port in enumerate(ports, 1)
    )
    (home / "slurm.conf").write_text(
        f"ClusterName=emulated\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={control}\nSlurmUser=root\n"
        f"SlurmdUser=root\nAuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket={home}/run/munge.sock\n"
        f"{f'PluginDir={slurm.plugins}' if slurm.root != Path('/') else ''}\nStateSaveLocation={home}/state\n"
        f"SlurmdSpoolDir={home}/spool/%n\nSlurmctldPidFile={home}/run/control.pid\n"
        f"SlurmdPidFile={home}/run/%n.pid\nSlurmctldLogFile={home}/log/control\nSlurmdLogFile={home}/log/%n\n"
        "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n"
        "SelectType=select/cons_tres\nGresTypes=gpu\nSlurmdParameters=config_overrides\nMpiDefault=none\n"
        f"ReturnToService=2\nSchedulerParameters=sched_min_interval=100000\n{nodes}"
        "PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
    )
    (home / "gres.conf").write_text(f"NodeName=dgx[1-4] Name=gpu Type=a100 File={home}/gpu[0-7]\n")


def _start(slurm: Slurm) -> None:
    home = slurm.home
    slurm.run("munged", "--force", f"--key-file={home}/key", f"--socket={home}/run/munge.sock",
              f"--pid-file={home}/run/munged.pid", f"--log-file={home}/log/munged",
              f"--seed-file={home}/run/seed")  # fmt: skip
    slurm.run("slurmctld", "-f", home / "slurm.conf", "-c")
    for place in range(1, 5):
        (home / "spool" / f"dgx{place}").mkdir()
        slurm.run("slurmd", "-f", home / "slurm.conf", "-N", f"dgx{place}")
    for _ in range(100):
        shown = slurm.run("sinfo", "-h", "-o", "%D %T", check=False).stdout.strip()
        if shown == "4 idle":
            return
        time.sleep(0.1)
    log = (home / "log" / "control").read_text()[-1500:] if (home / "log" / "control").exists() else ""
    pytest.fail(f"Slurm's nodes did not come up: {shown}\n{log}")


def _stop(home: Path) -> None:
    """End the daemons that were started here, by their own process numbers."""
    running = {int(file.read_text()) for file in (home / "run").glob("*.pid")}
    for sign, patience in ((signal.SIGTERM, 40), (signal.SIGKILL, 10)):
        for number in running:
            with suppress(ProcessLookupError):
                os.kill(number, sign)
        for _ in range(patience):
            running = {number for number in running if Path(f"/proc/{number}").exists()}
            if not running:
                return
            time.sleep(0.05)
