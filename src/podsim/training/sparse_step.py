"""A predicted step whose forward products read weights pruned 2:4."""

from __future__ import annotations

from dataclasses import replace

from podsim.answers.prediction import Prediction
from podsim.hardware.cluster import Cluster
from podsim.kernels.sparse_products import check_sparse, gain_note, saved_seconds, sparse_gain
from podsim.training.op_reports import op_reports
from podsim.training.plan import Plan
from podsim.workload.model import Model


def with_sparsity(prediction: Prediction, model: Model, cluster: Cluster, plan: Plan) -> Prediction:
    """The prediction with sparse forward products. Raises PlanError for a GPU that has none in this precision.

    The arithmetic of the step is divided as the times of its ops are. A forward pass that is recomputed gains, too, which
    is left out.
    """
    check_sparse(cluster.gpu, plan.precision)
    ops = op_reports(model, cluster, plan)
    products = sum(op.copies * op.forward for op in ops if op.kind == "gemm")
    busy = sum(op.copies * (op.forward + op.backward) for op in ops if op.kind in ("gemm", "attention"))
    gain = sparse_gain(prediction.parts["compute"] * products / busy, prediction.step_time)
    saved = saved_seconds(gain.products * gain.dense_time)
    return replace(
        prediction, step_time=prediction.step_time - saved,
        parts={**prediction.parts, "compute": prediction.parts["compute"] - saved},
        tokens_per_second=prediction.tokens_per_second * gain.gain,
        samples_per_second=prediction.samples_per_second * gain.gain, mfu_6pd=prediction.mfu_6pd * gain.gain,
        mfu=prediction.mfu * gain.gain, hfu=prediction.hfu * gain.gain, sparse=gain,
        warnings=(*prediction.warnings, gain_note(gain)),
    )  # fmt: skip
