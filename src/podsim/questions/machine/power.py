"""`podsim power`: the power of a cluster by load and component, and its High-Performance Linpack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsim.answers.answer import Answer, View, call
from podsim.answers.expense import Benchmark, LoadPower
from podsim.answers.fields import shown
from podsim.errors import PodsimError
from podsim.fleet.power import (
    LOADS,
    busy_share,
    capped_speed,
    count_switches,
    load_power,
    make_node,
    power_sources,
    read_cap,
)
from podsim.fleet.power_hpl import hpl, law_words
from podsim.fleet.site import read_site
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.options.fleet_options import PoweredCluster, SavedJobOptions
from podsim.options.plan_options import FixedLayout, JobOptions, TrainedFields
from podsim.options.question import like, options_of, question, values_of
from podsim.units import format_quantity
from podsim.workload.catalog import any_model_names
from podsim.workload.model_names import known_model

_OVER = "; over 100 % it holds the GPUs back; peaks are of single samples, all GPUs at once"
"""what a load above a server's limit means"""


@dataclass(frozen=True, kw_only=True)
class PowerOptions(PoweredCluster, TrainedFields, FixedLayout):
    """A cluster or a job on it, and what bounds its power."""

    cluster: str = like(
        PoweredCluster, "cluster", "GPU, system, cluster or TOML file; or a model, with --on."
    )
    on: str = like(
        JobOptions, "on", "The cluster that trains the model: adds the load of its plan.", default=""
    )
    gpus: int | None = like(JobOptions, "gpus", "GPUs of it; default all.")
    batch: int | str | None = like(JobOptions, "batch")


@dataclass(frozen=True, kw_only=True)
class PowerReport(Answer, view=View(rows="loads")):
    """What a cluster draws: by load and component, against its limit, and in High-Performance Linpack."""

    model: str = shown(default="", hide_if="")
    """The model that trains; empty without a job."""
    plan: Mapping[str, object] | None = shown(
        default=None, of_row=lambda report: report.plan and call("report.predictions:layout", report.plan)
    )
    """The plan of the job; None without one."""
    cluster: str
    nodes: int
    gpus: int = shown("GPUs")
    cap: float = shown("cap of a GPU")
    """W. The power that each GPU may draw."""
    speed: float = shown("speed under it", ":.0%", hide_if=1.0)
    """factor. The speed of arithmetic under that cap, relative to none."""
    limit: float = shown("limit of a server", of_row=lambda report: report.limit_text)
    """W. The power for which one server is built."""
    pue: float = shown("PUE", ":g")
    """factor. The power of the site over that of the machine."""
    switches: float = shown(format=":,.4g")
    """count. The switches, or a part's share of them."""
    loads: tuple[LoadPower, ...]
    benchmark: Benchmark | None = shown(title="High-Performance Linpack")
    """The Linpack result; None: its GPUs have no double-precision tensor peak."""
    sources: tuple[str, ...]

    @property
    def limit_text(self) -> str:
        """The power for which a server is built, and the share of it under each load."""
        shares = ", ".join(f"{load.load} {load.node / self.limit:.0%}" for load in self.loads)
        is_over = any(load.node > self.limit for load in self.loads)
        return f"{format_quantity(self.limit, 'W')}: {shares}" + (_OVER if is_over else "")


def _part(options: PowerOptions) -> Cluster:
    """The cluster without a job. Raises PodsimError for a model, or a layout, that has no cluster to train on."""
    if not options.on and (
        known_model(options.cluster, any_model_names()) or options.cluster.endswith(".json")
    ):
        raise PodsimError(f"{options.cluster}: a model draws power on a cluster; name it with --on").offer(
            on="h100"
        )
    if wrong := [name for name in options_of(FixedLayout) if not options.on and getattr(options, name)]:
        raise PodsimError(f"{', '.join(wrong)}: only for a job; give a model, and its cluster with --on")
    return load_cluster(options.on or options.cluster, dict(options.overrides or {}), options.gpus)


@question(PowerOptions, reads=_part)
def power(options: PowerOptions) -> PowerReport:
    """Power of a cluster idle, in training, at its highest and in High-Performance Linpack, by component.

    Of a model on a cluster it adds the load of its fastest plan with the layout that is given: GPUs draw their limit
    while they compute. Raises PodsimError for an unknown cluster, and for an impossible cap or PUE.
    """
    from podsim.runs.best_job import best_job  # it costs jobs of all kinds

    asked = SavedJobOptions(model=options.cluster, **values_of(options, SavedJobOptions))
    job = best_job(asked) if options.on else None
    part = job.cluster if job else _part(options)
    cap = read_cap(options.cap)
    site = read_site(options.pue, None, None)
    node, benchmark = make_node(part, cap), hpl(part, cap=cap)
    loads = [load_power(part, load, pue=site.pue, cap=cap) for load in LOADS]
    if job:
        loads.append(load_power(part, "plan", pue=site.pue, cap=cap, busy=busy_share(job.prediction.parts)))
    if benchmark is not None:
        loads.append(load_power(part, "HPL", pue=site.pue, cap=cap, busy=benchmark.busy))
    linpack = [] if benchmark is None else [f"Linpack: {law_words()}"]
    return PowerReport(
        model=job.model.name if job else "", plan=job.prediction.plan if job else None,
        cluster=part.name, nodes=part.nodes, gpus=part.gpus, cap=node.limit, speed=capped_speed(part, cap),
        limit=node.maximum, pue=site.pue, switches=count_switches(part), loads=tuple(loads), benchmark=benchmark,
        sources=(*power_sources(part, cap), *linpack, *(text for text in site.assumptions if text.startswith("pue"))),
    )  # fmt: skip
