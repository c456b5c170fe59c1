"""A page printed as PDF by the browser of this machine: chromium or chrome, without a window."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from podsim.errors import PodsimError
from podsim.whole_files import scratch_folder, write_whole

BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
)
_PATIENCE = 120.0
"""s. The time limit of a browser."""
_QUIET = (
    "--headless", "--disable-gpu", "--no-sandbox", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-dev-shm-usage", "--no-pdf-header-footer", "--no-first-run",
)  # fmt: skip


def print_pdf(page: str, path: Path) -> None:
    """Print an HTML page to a PDF file. PodsimError where there is no browser, or it fails.

    The page is our own and fetches nothing, so it needs no browser sandbox, which root cannot have.
    """
    browser = next((program for name in BROWSERS if (program := shutil.which(name))), None)
    if browser is None:
        raise PodsimError(
            f"--pdf {path}: there is no browser here ({', '.join(BROWSERS[:3])}): apt install chromium, or write --html "
            "and print that page"
        )
    with scratch_folder() as folder:
        source, made = Path(folder, "page.html"), Path(folder, "page.pdf")
        source.write_text(page, "utf-8")
        command = [
            browser,
            *_QUIET,
            f"--user-data-dir={folder}/profile",
            f"--print-to-pdf={made}",
            source.as_uri(),
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=_PATIENCE, check=False,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise PodsimError(f"--pdf {path}: {browser} did not end within {_PATIENCE:g} s") from None
        except OSError as problem:
            raise PodsimError(f"--pdf {path}: {browser}: {problem.strerror or problem}") from None
        if done.returncode or not made.is_file():
            said = (done.stderr.strip().splitlines() or ["no reason given"])[-1][:200]
            raise PodsimError(f"--pdf {path}: {browser} ended with status {done.returncode}: {said}")
        write_whole(path, made.read_bytes())
