"""The command `podsim verify`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from podsim.cli.options import print_result


def verify_machine(
    expect: Annotated[
        str, typer.Option(help="What it should be: dgx-a100-80gb, a TOML file, what `measure host` wrote.")
    ],
    only: Annotated[
        str, typer.Option(help="inventory, storage, network, training, with commas; default all.")
    ] = "",
    folder: Annotated[Path, typer.Option(help="Folder on the storage that is judged.")] = Path(),
    storage: Annotated[
        str, typer.Option(help="What is expected there: local-nvme, or a storage system, weka-ra:1.")
    ] = "local-nvme",
    ranks: Annotated[
        int | None, typer.Option(help="Processes; default one a GPU, else the expected node's, up to 8.")
    ] = None,
    sizes: Annotated[str, typer.Option(help="Of the all-reduce, FIRST:LAST:FACTOR.")] = "256K:64M:4",
    size: Annotated[str, typer.Option(help="Of fio's file, as fio writes it.")] = "1G",
    seconds: Annotated[float, typer.Option(help="Of each run of fio.")] = 5.0,
    fio: Annotated[
        list[Path] | None, typer.Option(help="JSON of fio to judge instead of running it. Repeatable.")
    ] = None,
    mdtest: Annotated[Path | None, typer.Option(help="What mdtest printed.")] = None,
    run: Annotated[
        Path | None, typer.Option(help="What `measure collective --algo library --save` kept.")
    ] = None,
    root: Annotated[Path, typer.Option(help="Where the machine's file systems lie.")] = Path("/"),
    html: Annotated[Path | None, typer.Option(help="Write the report as one HTML page.")] = None,
    pdf: Annotated[Path | None, typer.Option(help="Write it as PDF, by the browser on this machine.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, numbers in SI.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print the checks as CSV, numbers in SI.")] = False,
) -> None:
    """Hold this machine against what it should be. Exit status 1: it is not."""
    from podsim.cli.options import one_format
    from podsim.report.acceptance import print_acceptance
    from podsim.report.acceptance_page import acceptance_page
    from podsim.report.browser import print_pdf
    from podsim.report.progress import doing
    from podsim.verbs.verify import verify_machine as verb

    one_format(json, csv)
    _writable(html, pdf)
    with doing() as progress:
        found = verb(
        expect=expect, only=only, folder=folder, storage=storage, ranks=ranks, sizes=sizes, size=size, seconds=seconds,
        fio=fio or (), mdtest=mdtest, run=run, root=root, progress=progress,
      )  # fmt: skip
    print_result(found, print_acceptance, json=json, csv=csv, rows=found.checks)
    if html is not None or pdf is not None:
        page = acceptance_page(found)
        if html is not None:
            html.write_text(page, "utf-8")
        if pdf is not None:
            print_pdf(page, pdf)
    if not found.accepted:
        raise typer.Exit(1)


def _writable(*paths: Path | None) -> None:
    """Raise before minutes of work, not after."""
    from podsim.errors import PodsimError

    for path in paths:
        if path is not None and not path.parent.is_dir():
            raise PodsimError(f"{path}: there is no folder {path.parent}")


def register(app: typer.Typer, guarded: Callable[[Callable[..., None]], Callable[..., None]]) -> None:
    """Add the command; the function cannot bear its name, which is a package's."""
    app.command("verify")(guarded(verify_machine))
