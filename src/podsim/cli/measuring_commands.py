"""The commands that run things for real and time them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from podsim.cli.command import Row

MEASURING: Mapping[str, Row] = MappingProxyType(
    {
        "why": Row(
            help="Say which link was slow, when, and whose traffic met.",
            options="measure_options:WhyOptions",
            verb="why",
            activity="reading the record",
            report="report.why_tables:why_report",
            rows="faults",
        ),
        "measure collective": Row(
            help="Run a collective for real, checked and timed. Exit status 1: wrong results.",
            options="measure_options:MeasureCollectiveOptions",
            verb="measure_collective",
            report="report.collectives:measured_report",
            rows="rows",
            ranked=True,
            status=lambda run: int(any(row.wrong or row.in_place_wrong for row in run.rows)),
        ),
        "measure ranks": Row(
            help="Time each rank by itself and each pair of ranks, to find the slow one.",
            options="measure_options:MeasureRanksOptions",
            verb="measure_ranks",
            report="report.lab_tables:ranks_report",
            rows="rows",
            ranked=True,
        ),
        "measure ddp": Row(
            help="Time torch's DistributedDataParallel with real communication and compute as pauses.",
            options="measure_options:MeasureDdpOptions",
            verb="measure_ddp",
            report="report.training_tables:ddp_report",
            rows="rows",
            ranked=True,
        ),
        "exporter": Row(
            help="Export metrics for Prometheus: a day, a run, a host.",
            options="monitoring_options:ExporterOptions",
            verb="exporter",
            output="output_options:NoOutput",
        ),
        "diagnose": Row(
            help="Name idle, slow and failing parts by metrics. Exit status 1: there are some.",
            options="monitoring_options:DiagnoseOptions",
            verb="diagnose",
            report="report.views:report_of",
            rows="report.views:rows_of",
            status=lambda diagnosis: int(bool(diagnosis.findings)),
        ),
        "measure host": Row(
            help="Measure this machine, and make a catalog entry of it.",
            options="measure_options:MeasureHostOptions",
            verb="measure_host",
            report="report.lab_tables:host_report",
            rows="kernels",
            progress="doing",
        ),
        "measure checkpoint": Row(
            help="Write and read a checkpoint for real. Exit status 1: other bytes came back than were written.",
            options="measure_options:MeasureCheckpointOptions",
            verb="measure_checkpoint",
            report="report.lab_tables:checkpoints_report",
            rows="rows",
            progress="checkpoints",
            status=lambda run: int(any(row.wrong for row in run.rows)),
        ),
        "measure serving": Row(
            help="Serve a small language model for real under load, or load a server of others.",
            options="measure_options:MeasureServingOptions",
            verb="measure_serving",
            report="report.serving_lab_tables:measured_report",
            rows="rows",
            progress="answering requests",
        ),
        "measure tables": Row(
            help="Train a small DLRM for real on embedding tables that parameter servers hold.",
            options="measure_options:MeasureTablesOptions",
            verb="measure_tables",
            report="report.training_tables:sparse_report",
            rows="rows",
            progress="training",
        ),
        "measure loader": Row(
            help="Read samples for real, epoch after epoch. Ctrl-C keeps what was measured; exit status 130.",
            options="measure_options:MeasureLoaderOptions",
            verb="measure_loader",
            report="report.lab_tables:loader_report",
            rows="rows",
            progress="reading samples",
            status=lambda run: 130 if run.stopped else 0,
        ),
    }
)
"""the rows of COMMANDS for `podsim measure`"""
