"""Environment variables for NCCL and CUDA, by what joins the nodes."""

from __future__ import annotations

from podsim.launching import titan
from podsim.launching.job import Job

_RAILS = {"dgx-a100": "mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_6,mlx5_7,mlx5_8,mlx5_9"}
"""compute adapters as the operating system names them; of a DGX A100 the other two carry storage (its user guide)"""


def settings(job: Job) -> dict[str, str]:
    """Variables that the ranks need on this fabric; one node needs none for the network.

    Sources: NCCL's documentation of environment variables; aws-ofi-nccl's README for EFA; Megatron-LM's README for
    CUDA_DEVICE_MAX_CONNECTIONS, which keeps collectives ahead of the GEMMs that they hide behind (GPUs before Blackwell),
    and which FSDP refuses.
    """
    variables = {"NCCL_DEBUG": "WARN"}
    own_order = not titan.LIMITS.starts(job.plan.software) and int(job.plan.zero) < 2
    if own_order and job.cluster.gpu.compute_capability < 10:
        variables["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    if job.nodes == 1:
        return variables
    fabric = job.cluster.fabric
    if fabric in ("infiniband", "roce"):
        rails = next(
            (names for key, names in _RAILS.items() if job.cluster.system.name.startswith(key)), "mlx5"
        )
        variables |= {"NCCL_IB_HCA": rails, "NCCL_IB_TIMEOUT": "22"}
    if fabric == "roce":
        variables |= {"NCCL_IB_GID_INDEX": "3", "NCCL_IB_TC": "106"}
    if fabric == "efa":
        variables |= {"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": "1"}
    return variables
