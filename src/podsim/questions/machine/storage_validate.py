"""`podsim storage validate`: predictions of storage compared with published figures."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from podsim.accuracy.score import assess
from podsim.answers.answer import Answer, View
from podsim.answers.comparison import ComparedRow, Comparison, Verdict
from podsim.options.question import NoOptions, question
from podsim.questions.registry import ask
from podsim.storage.mlperf_storage import Result, at_limit, by_utilisation, results, unhindered
from podsim.storage.published import published_systems
from podsim.storage.training import published_times
from podsim.storage.workloads import load_workload

_MARGIN = 0.05
"""utilisation above what a result must reach from which on its system was clearly not the limit"""


_ENDS = {
    "": "were the storage no limit",
    "-limit": "were there as many as the utilisation allows",
    "-au": "given its utilisation",
}
"""end of a table's name -> what its law supposes"""


@dataclass(frozen=True, kw_only=True)
class StorageValidation(
    Answer, view=View(report="report.comparisons:summary_report", rows="report.comparisons:comparison_rows")
):
    """Predictions against published results, and the bars they are meant to meet."""

    comparisons: tuple[Comparison, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def met(self) -> bool:
        """Whether every bar is met."""
        return all(verdict.met for verdict in self.verdicts)


@question(NoOptions, status=lambda validation: int(not validation.met))
def storage_validate(options: NoOptions) -> StorageValidation:
    """MLPerf Storage v1.0, times of ResNet-50, and published rates, each against its prediction."""
    blind, limit, defined = (_mlperf(f"mlperf-storage{end}") for end in _ENDS)
    times, rates = _times(), _rates()
    bars = (
        _bar(blind, "all", "median", 0.10, "a system that keeps up, its utilisation not known"),
        _bar(defined, "all", "median", 0.10, "at the utilisation that was measured"),
        _bar(times, "weka-ra", "worst", 0.08, "the reference architecture's 41, 22 and 12 minutes"),
    )
    return StorageValidation(comparisons=(blind, limit, defined, times, rates), verdicts=bars)


def _mlperf(table: str) -> Comparison:
    end = table.removeprefix("mlperf-storage")
    law, how = {"": unhindered, "-limit": at_limit, "-au": by_utilisation}[end], _ENDS[end]
    rows = tuple(
        ComparedRow(
            id=row.id, role=row.role, table=table, predicted=law(row), measured=row.rate, group=_group(row),
            note=f"{row.submitter}, {row.accelerators} {row.accelerator}, AU {row.utilisation:.1%}",
        )
        for row in results()
    )  # fmt: skip
    return assess(
        Comparison(
            table=table, title=f"MLPerf Storage v1.0, samples/s of an accelerator, {how}", what="samples/s", rows=rows,
            sources=("github:mlcommons/storage_results_v1.0",),
        )
    )  # fmt: skip


def _group(row: Result) -> str:
    clear = row.utilisation >= load_workload(row.workload).threshold + _MARGIN
    return f"{row.workload.removeprefix('mlperf-')}, {'clear of' if clear else 'near'} the threshold"


def _times() -> Comparison:
    rows = []
    for row in published_times():
        nodes, batch, software = int(str(row["nodes"])), int(str(row["batch"])), str(row["software"])
        training = ask(
            "storage_input",
            str(row["workload"]),
            on=f"{row['system']}:{nodes}",
            batch=batch,
            era=software,
            client=str(row["client"]),
        ).training
        assert training is not None
        rows.append(ComparedRow(
            id=f"{row['system']}/{software}/{nodes}", role=str(row["role"]), table="resnet50-times",
            predicted=training.seconds, measured=float(str(row["seconds"])),
            note=f"{nodes} nodes, {batch} a GPU; {row['source']}",
            group=str(row["system"]),
        ))  # fmt: skip
    return assess(
        Comparison(
            table="resnet50-times", title="ResNet-50 on DGX A100, from start to target", what="seconds to train",
            rows=tuple(rows), sources=tuple(dict.fromkeys(str(row["source"]) for row in published_times())),
        )
    )  # fmt: skip


def _rates() -> Comparison:
    rows = []
    for system, rw, points in published_systems():
        for point in points:
            run = ask("storage_fio", f"{system}:{point.clients}", rw=rw)
            last = run.rows[-1]
            predicted = last.bandwidth if point.bandwidth else last.iops * run.block
            measured = point.bandwidth or point.iops * run.block
            rows.append(ComparedRow(
                id=f"{system}/{rw}/{point.clients}", role="calibrate", table="storage-rates", predicted=predicted,
                measured=measured, note=f"a fit; {point.what}", group=system,
            ))  # fmt: skip
    return assess(
        Comparison(
            table="storage-rates", title="Rates of storage systems: fits, as these rows gave the systems their speeds",
            what="B/s", rows=tuple(rows),
        )
    )  # fmt: skip


def _bar(comparison: Comparison, of: str, metric: str, limit: float, note: str) -> Verdict:
    """The verdict on the rows of a group, or on all test rows."""
    errors = [
        abs(row.error) for row in comparison.rows if (row.role == "test" if of == "all" else row.group == of)
    ]
    value = median(errors) if metric == "median" else max(errors)
    return Verdict(
        table=comparison.table, role="test", of=of, rows=len(errors), metric=metric, value=value, limit=limit,
        met=value <= limit, note=note,
    )  # fmt: skip
