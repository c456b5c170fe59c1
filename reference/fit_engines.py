"""Fits the constants of the laws of engines' kernels to reference/raw/kernels, rows of role calibrate:

    python -m reference.fit_engines [LAW ...]              # writes src/podsim/hardware/catalog/engines/LAW.toml
    python -m reference.fit_engines LAW --check            # writes nothing; exit status 1 if a file would differ
    python -m reference.fit_engines LAW --without gb200    # writes nothing; scores the GPU that was left out

Each kernel (engine, source, number formats) on each architecture has constants of its own. Whether a prefill kernel
packs the heads of a group, and how decode divides keys over blocks, is chosen from a few values by the error of the fit.
Errors are printed by role; rows of role test are only scored.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import podsim.hardware.catalog as shipped
from podsim.accuracy.price_engines import (
    COLUMNS,
    attention_shape,
    engine_gpu,
    engine_run,
    engine_sum,
    expert_shape,
    numbers_of,
)
from podsim.axes import Bools, Floats
from podsim.fitting import Fit, Parameter, Values, solve
from podsim.hardware.parts import Gpu
from podsim.kernels.engine_attention import decode_law, is_alone, prefill_law
from podsim.kernels.engine_constants import LAWS, engine_key
from podsim.kernels.engine_experts import expert_rows, experts_law
from podsim.kernels.engine_run import EngineRun
from podsim.kernels.engine_sums import sums_law

HERE = Path(__file__).parent
SHIPPED = Path(shipped.__path__[0]) / "engines"
_OPERATIONS = {
    "prefill": ("context_attention",),
    "decode": ("generation_attention",),
    "mla-prefill": ("context_mla",),
    "mla-decode": ("generation_mla",),
    "moe": ("moe",),
    "all-reduce": ("custom_allreduce",),
}
"""Law -> the words in the names of its raw tables."""
_FEW, _MOST, _TRIED = 40, 3000, 500
"""The fewest rows of a fit, the most, and those with which discrete values are tried."""
_UNGATED = ((2688, 1856), (1024, 2688), (2048, 5120))
"""Hidden and inner widths of networks whose experts have no gate: those of the kernel moe_torch_flow_nongated."""
_GROUPED = {"hopper-trtllm": (2.0, 32.0), "ampere-trtllm": (2.0, 32.0), "blackwell-trtllm": (1.0, 32.0)}
"""architecture and engine -> the groups of heads that run in the grouped kernel of decode, the least and the most"""


_FORCED = {"vllm_flash_attn_fa4": {"forced": 32.0, "forced_batch": 512.0}}
"""kernel -> the blocks over which it always divides a sequence, up to a batch: vLLM's CUDA graphs hold that many"""


def _around(start: float, factor: float = 200.0) -> Parameter:
    """A parameter fitted in its logarithm."""
    return Parameter(start=start, low=start / factor, high=start * factor, is_log=True)


def _share(start: float) -> Parameter:
    return Parameter(start=start, low=0.005, high=1.0, is_log=True)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is fitted of a law."""

    parameters: Mapping[str, Parameter]
    widths: tuple[str, ...] = ()
    """The constants that depend on the head width."""
    tried: Mapping[str, tuple[float, ...]]
    """The values that are tried in all combinations."""


_PREFILL = Plan(
    parameters={
        "share": _share(0.6), "fill": _around(60.0), "tail": Parameter(start=0.5, low=0.01, high=3.0, is_log=True),
        "block": _around(1e-6), "rounding": _around(128.0, 16.0), "window": _around(64.0, 32.0), "moved": _around(2.0),
        "token_head": _around(1e-10), "token": _around(3e-10), "launch": _around(1e-5, 20.0),
        "exponent": Parameter(start=0.7, low=0.01, high=1.5, is_log=True),
    },
    widths=("share",), tried={"packed": (0.0, 1.0)},
)  # fmt: skip
_DECODE = Plan(
    parameters={
        "share": _share(0.85), "key": _around(3e-9), "block": _around(1e-6), "near": _around(1.2, 8.0),
        "again": _around(0.3),
        "arithmetic": _share(0.3), "moved": _around(1.0), "splitting": _around(8e-7), "token": _around(3e-10),
        "launch": _around(8e-6, 20.0),
    },
    widths=("share", "key"),
    tried={"cap": (0.0, 1.0, 2.0, 8.0), "split": (32.0, 128.0), "occupancy": (0.5, 1.0, 4.0, 8.0)},
)  # fmt: skip
_MOE = Plan(
    parameters={
        "share": _share(0.6), "memory": _share(0.8), "fill": _around(60.0), "moved": _around(3.0),
        "sharpness": Parameter(start=1.5, low=0.7, high=8.0, is_log=True), "hot": _around(0.3), "token": _around(5e-9),
        "expert": _around(5e-8), "launch": _around(2.5e-5, 20.0),
    },
    tried={},
)  # fmt: skip
_SUMS = Plan(
    parameters={
        "first": _around(4e-6, 20.0), "second": _around(6e-6, 20.0), "third": _around(2.5e-5, 20.0),
        "rank": _around(1e-7, 30.0), "share": _share(0.7), "far": _share(0.7), "large": _share(0.7),
    },
    tried={},
)  # fmt: skip
PLANS = {
    "prefill": _PREFILL, "decode": _DECODE, "mla-prefill": _PREFILL, "mla-decode": _DECODE, "moe": _MOE,
    "all-reduce": _SUMS,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Group:
    """Rows of one kernel on one GPU."""

    gpu: Gpu
    run: EngineRun
    family: str
    table: str
    law: str
    sizes: Mapping[str, Floats]
    measured: Floats
    """s. The measured time of each row."""
    is_test: Bools

    def take(self, where: Floats | Bools) -> Group:
        """Some of the rows."""
        sizes = {name: values[where] for name, values in self.sizes.items()}
        return replace(self, sizes=sizes, measured=self.measured[where], is_test=self.is_test[where])

    def predictor(self) -> Callable[[Values], Floats]:
        """The law of these rows as a function of the constants."""
        if self.law == "moe":
            experts = expert_shape(self.sizes)
            rows = expert_rows(experts)
            return lambda c: experts_law(c, self.gpu, self.run, experts, rows)
        if self.law == "all-reduce":
            sums = engine_sum(self.sizes["num_gpus"], self.sizes["bytes"])
            return lambda c: sums_law(c, self.gpu, sums)
        shape = attention_shape(self.law, self.sizes)
        if self.law.endswith("prefill"):
            return lambda c: prefill_law(c, self.gpu, self.run, shape)
        return lambda c: decode_law(c, self.gpu, self.run, shape, is_alone=self.family == "alone")


def groups_of(law: str) -> Iterator[Group]:
    """The measured rows of a law, by table and kernel."""
    for path in sorted((HERE / "raw" / "kernels").glob("*.csv.gz")):
        table = path.name.removesuffix(".csv.gz")
        if not any(f"_{word}_" in table for word in _OPERATIONS[law]):
            continue
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        kernels: dict[EngineRun, list[dict[str, str]]] = {}
        for row in rows:
            kernels.setdefault(engine_run(row), []).append(row)
        for run, members in kernels.items():
            gpu = engine_gpu(members[0]["device"])
            sizes = {name: numbers_of([row.get(name, "") for row in members], name) for name in COLUMNS[law]}
            group = Group(
                gpu=gpu, run=run, family="", table=table, law=law, sizes=sizes,
                measured=np.array([float(row["latency"]) for row in members]) * 1e-3,
                is_test=np.array([row["role"] == "test" for row in members]),
            )  # fmt: skip
            yield from _families(group)


def _families(group: Group) -> Iterator[Group]:
    """The rows of decode by family of the kernel; all rows of the others."""
    if not group.law.endswith("decode"):
        yield group
        return
    shape = attention_shape(group.law, group.sizes)
    alone = (
        is_alone(group.gpu, group.run, shape.group)
        if group.law == "decode"
        else np.zeros(len(group.measured), bool)
    )
    for family, where in (("grouped", ~alone), ("alone", alone)):
        if where.any():
            part = group.take(where)
            yield Group(
                **{**{name: getattr(part, name) for name in part.__dataclass_fields__}, "family": family}
            )


def fit_kernel(groups: Sequence[Group], seed: int = 0) -> dict[str, float]:
    """Constants of one kernel on the GPUs of one architecture."""
    plan = PLANS[groups[0].law]
    calibrate = [group.take(~group.is_test) for group in groups]
    start = _parameters(plan, calibrate)
    few = [_sampled(group, _TRIED // len(groups), seed) for group in calibrate]
    if not any(np.any(group.sizes.get("window_size", np.zeros(1)) > 0) for group in calibrate):
        start.pop("window", None)
    if len({group.gpu.exponentials for group in calibrate}) < 2:
        start.pop("exponent", None)
    best: tuple[float, dict[str, float], dict[str, float]] | None = None
    for values in itertools.product(*plan.tried.values()):
        fixed = dict(zip(plan.tried, values, strict=True)) | _FORCED.get(groups[0].run.kernel, {})
        fitted, cost = _solve(few, start, fixed)
        if best is None or cost < best[0]:
            best = cost, fitted, fixed
    assert best is not None
    _, near, fixed = best
    again = {name: _restarted(parameter, near[name]) for name, parameter in start.items()}
    return (
        fixed | _solve([_sampled(group, _MOST // len(groups), seed) for group in calibrate], again, fixed)[0]
    )


def _restarted(parameter: Parameter, value: float) -> Parameter:
    """The parameter with another start, inside its bounds."""
    inside = float(np.clip(value, parameter.low * 1.001, parameter.high * 0.999))
    return replace(parameter, start=inside)


def _parameters(plan: Plan, groups: Sequence[Group]) -> dict[str, Parameter]:
    """The parameters, those of head widths once for each width with rows."""
    widths: set[float] = set()
    if plan.widths:
        for group in groups:
            shape = attention_shape(group.law, group.sizes)
            widths |= set(((shape.head_dim + shape.value_dim) / 2).tolist())
    named = {}
    for name, parameter in plan.parameters.items():
        if name in plan.widths:
            named |= {f"{name}_{width:.0f}": parameter for width in sorted(widths)}
        else:
            named[name] = parameter
    return named


def _sampled(group: Group, most: int, seed: int) -> Group:
    order = np.random.default_rng(seed).permutation(len(group.measured))[: max(most, _FEW)]
    return group.take(np.sort(order))


def _solve(
    groups: Sequence[Group], parameters: Mapping[str, Parameter], fixed: Values
) -> tuple[dict[str, float], float]:
    """(the fitted constants, the mean absolute residual)."""
    laws = [(group.predictor(), group.measured) for group in groups]

    def residuals(values: Values) -> Floats:
        constants = {**values, **fixed}
        return np.concatenate([np.log(predict(constants) / measured) for predict, measured in laws])

    fit = Fit(parameters=parameters, softness=0.1, pull=0.02, differences=(1e-3,), evaluations=80)
    values = solve(fit, residuals).values
    return values, float(np.abs(residuals(values)).mean())


def _errors(groups: Sequence[Group], constants: Values) -> tuple[Floats, Bools]:
    """(relative errors, whether each is a row of role test)."""
    errors = [group.predictor()(constants) / group.measured - 1 for group in groups]
    return np.concatenate(errors), np.concatenate([group.is_test for group in groups])


def fit_law(law: str, without: str = "") -> str:
    """The file of a law's constants as TOML; prints the errors of each kernel by role."""
    kernels: dict[tuple[str, str], list[Group]] = {}
    for group in groups_of(law):
        kernels.setdefault((group.gpu.architecture, engine_key(group.run, group.family)), []).append(group)
    lines = [
        f"# Constants of {law}, by architecture and kernel (engine/source/number formats).",
        "# SI units: s, 1 (shares and factors), counts of keys and rows. Their meaning: podsim.kernels.engine_*.",
        f'made_by = "python -m reference.fit_engines {law}"',
    ]
    if law == "decode":
        lines += ["", "[grouped]"] + [f"{name} = [{low}, {high}]" for name, (low, high) in _GROUPED.items()]
    if law == "moe":
        lines += ["", "[ungated]", f"widths = {json.dumps(_UNGATED)}"]
    pooled: list[tuple[str, Floats, Bools]] = []
    for (architecture, key), groups in sorted(kernels.items()):
        fitted = [group for group in groups if not without or not group.table.startswith(f"{without}_")]
        if sum(int((~group.is_test).sum()) for group in fitted) < _FEW:
            print(f"{architecture} {key}: too few rows")
            continue
        constants = fit_kernel(fitted)
        errors, is_test = _errors(fitted, constants)
        figures = _print(f"{architecture} {key}", errors, is_test)
        pooled += [(group.table, *_errors([group], constants)) for group in groups]
        lines += ["", f"[architecture.{architecture}.{json.dumps(key)}]"]
        lines += [_line(name, value) for name, value in sorted(constants.items())]
        tables = sorted({group.table for group in fitted})
        lines += ["", f"[architecture.{architecture}.{json.dumps(key)}.evidence]"]
        lines += [
            f"rows = {int((~is_test).sum())}",
            f"mean_error = {figures:.4f}",
            f"sources = {json.dumps(tables)}",
        ]
    for table in sorted({table for table, *_ in pooled}):
        parts = [(errors, is_test) for name, errors, is_test in pooled if name == table]
        note = " (left out)" if without and table.startswith(f"{without}_") else ""
        _print(f"table {table}{note}", *(np.concatenate(column) for column in zip(*parts, strict=True)))
    return "\n".join(lines) + "\n"


def _line(name: str, value: float) -> str:
    """A line of TOML; what a kernel does or does not do is true or false."""
    return f"{name} = {str(value > 0).lower()}" if name == "packed" else f"{name} = {float(f'{value:.4g}')!r}"


def _print(name: str, errors: Floats, is_test: Bools) -> float:
    """Print mean errors by role; gives that of the calibrate rows."""
    texts = []
    for role, where in (("calibrate", ~is_test), ("test", is_test)):
        if where.any():
            part = errors[where]
            texts.append(f"{role} {len(part)} rows: mean {np.abs(part).mean():.1%}, bias {part.mean():+.1%}")
    print(f"{name}: {'; '.join(texts)}", flush=True)
    return float(np.abs(errors[~is_test]).mean()) if (~is_test).any() else 0.0


def main() -> int:
    """Write or check the files; 0 if those of the catalog agree."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("laws", nargs="*", help=f"{', '.join(LAWS)}; default: all")
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if a file differs")
    parser.add_argument(
        "--without", default="", help="leave the tables of a GPU out of the fit; writes nothing"
    )
    arguments = parser.parse_args()
    if unknown := [law for law in arguments.laws if law not in LAWS]:
        parser.error(f"{unknown[0]!r} is no law: {', '.join(LAWS)}")
    differ = 0
    for law in arguments.laws or LAWS:
        text, path = fit_law(law, arguments.without), SHIPPED / f"{law}.toml"
        same = path.is_file() and path.read_text("utf-8") == text
        differ += not same
        if not (same or arguments.check or arguments.without):
            path.write_text(text, "utf-8")
    return 1 if arguments.check and differ else 0


if __name__ == "__main__":
    sys.exit(main())
