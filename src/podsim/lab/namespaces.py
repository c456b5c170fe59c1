"""Network namespaces without names: they live as long as somebody holds them open, so a crash leaves nothing behind.

A namespace made with unshare(2) has no entry in the file system. Its maker holds a file descriptor; processes in it
hold it too; when the last of them ends, however it ends, the kernel takes the namespace away with all links in it.
Nothing is ever deleted by name, so nothing of anybody else's can be.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from podsim.errors import LabError
from podsim.lab.processes import end_of, fork

_NEWUSER, _NEWNET = 0x10000000, 0x40000000
_CAP_NET_ADMIN, _CAP_SYS_ADMIN = 12, 21
if sys.platform == "linux":
    _LIBC = ctypes.CDLL(None, use_errno=True)
_TOOLS = ("ip", "tc")
_PLACES = ("/usr/sbin", "/sbin", "/usr/bin", "/bin")


def unable() -> str:
    """Why this process cannot make namespaces with links in them, empty if it can. It is tried, not guessed."""
    lacking = [tool for tool in _TOOLS if not tool_path(tool)]
    if lacking:
        return f"{' and '.join(lacking)} (the package iproute2) {'is' if len(lacking) == 1 else 'are'} not installed"
    pid = fork(_try)
    status = os.waitpid(pid, 0)[1]
    if not end_of(status):
        return ""
    return (
        "making network namespaces needs CAP_NET_ADMIN and CAP_SYS_ADMIN (root has both), or user namespaces that "
        "are open to everyone; this process has neither"
    )


def _try() -> int:
    """0 if a namespace with a shaped link can be made here."""
    try:
        own_user()
        unshare()
        configure(["link add name here type veth peer name there"], [])
    except (OSError, LabError):
        return 1
    return 0


def tool_path(name: str) -> str | None:
    """Where ip or tc is; they are often outside the path of an ordinary user."""
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(_PLACES))


def _privileged() -> bool:
    """Whether this process may make namespaces and links in them."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text("ascii").splitlines():
            if line.startswith("CapEff:"):
                held = int(line.split()[1], 16)
                return bool(held >> _CAP_NET_ADMIN & 1 and held >> _CAP_SYS_ADMIN & 1)
    return False


def own_user() -> None:
    """Without privileges: become root of a new user namespace, for good. Raises OSError if refused."""
    if _privileged():
        return
    user, group = os.getuid(), os.getgid()
    _call(_LIBC.unshare(_NEWUSER))
    with suppress(FileNotFoundError):  # kernels before 3.19 have no such file
        Path("/proc/self/setgroups").write_text("deny", "ascii")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1", "ascii")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1", "ascii")


def _call(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def unshare() -> int:
    """Put this process into a new namespace; a descriptor that holds it open. Raises OSError where that is refused."""
    _call(_LIBC.unshare(_NEWNET))
    return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def enter(namespace: int) -> None:
    """Put this process into a namespace held open by a descriptor."""
    _call(_LIBC.setns(namespace, _NEWNET))


def configure(links: Sequence[str], shapes: Sequence[str]) -> None:
    """Run commands of ip, then of tc, in this process's namespace. Raises LabError with what they complain of."""
    for name, commands in (("ip", links), ("tc", shapes)):
        tool = tool_path(name)
        if not commands:
            continue
        if tool is None:
            raise LabError(f"{name} (the package iproute2) is not installed")
        text = "".join(f"{command}\n" for command in commands)
        done = subprocess.run([tool, "-batch", "-"], input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise LabError(f"{name} refused to set up the emulated links: {' '.join(said[:2])[:300]}")
