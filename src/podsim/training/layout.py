"""The inputs of the law of a step: counts along the paths of plans, and seconds of passes, sends and exchanges.

Arrays alone: `podsim.training.batch` fills them, `podsim.training.step` and `podsim.training.waits` read them.
"""

from __future__ import annotations

from podsim.axes import Shaped
from podsim.records import dataclass
from podsim.training.plan import Plan
from podsim.training.plan_values import Array


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Classes of equal pipeline stages; a class that a pipeline lacks has no stages."""

    blocks: Shaped[Array, "stage block plan"]
    """The copies of each block in a stage of the class; of DualPipe the mean of the two parts that a rank holds."""
    count: Shaped[Array, "stage plan"]
    """The number of stages in the class."""
    first: Shaped[Array, "stage plan"]
    """The position of its first stage; 0 runs first."""
    last: Shaped[Array, "stage plan"]
    """The position of its last stage."""


@dataclass(frozen=True, kw_only=True)
class Paths:
    """Counts along the paths of pipelines; a path that a pipeline lacks repeats another."""

    forward: Shaped[Array, "path block plan"]
    """The forward passes through each block."""
    backward: Shaped[Array, "path block plan"]
    """The backward passes through each block, or gradients of the input alone."""
    weight: Shaped[Array, "path block plan"] | None
    """The gradients of the weights alone minus those of the input alone; None where no schedule separates them."""
    forward_passes: Shaped[Array, "path plan"]
    """The number of forward passes."""
    forward_layers: Shaped[Array, "path plan"]
    """The layers (not embedding nor head) that they pass through."""
    backward_passes: Shaped[Array, "path plan"]
    """The number of backward passes. Separate gradients count in pairs: one gathers weights, the other reduces."""
    backward_layers: Shaped[Array, "path plan"]
    """The layers that they pass through."""
    backward_embeddings: Shaped[Array, "path plan"]
    """The backward passes through the embedding."""
    forward_sends: Shaped[Array, "path plan"]
    """The sends of activations that the path waits for."""
    backward_sends: Shaped[Array, "path plan"]
    """The sends of gradients that it waits for."""
    sends: Shaped[Array, "path plan"]
    """The number of both."""
    far_sends: Shaped[Array, "sharing path plan"]
    """The sends to another node, for each number of ranks that may share a node (plan.BESIDE)."""
    charges: Shaped[Array, "path plan"]
    """The sends and receives that take the compute stream of their rank on the path."""
    closing: Shaped[Array, "path plan"]
    """The last backward passes of stages on the path, except the very last."""
    staying: Shaped[Array, "path plan"]
    """The number of these after which the path stays on their rank."""
    passes_after: Shaped[Array, "path plan"]
    """The passes that follow there at least, before the next of these."""
    paired_forward: Shaped[Array, "path block plan"]
    """The forward passes through each block that run beside another pass, which hides their exchanges."""
    paired_backward: Shaped[Array, "path block plan"]
    """The backward passes that do."""
    pairs: Shaped[Array, "path plan"]
    """The pairs of passes side by side."""
    ends_first: Shaped[Array, "path plan"]
    """Whether a path ends on the rank that holds the embedding."""


@dataclass(frozen=True, kw_only=True)
class PassExchanges:
    """Seconds of what passes exchange within a tensor-, context- or expert-parallel group."""

    seconds: Shaped[Array, "direction block plan"]
    """s. The exchanges of a forward and of a backward pass through a block."""
    hidden: Shaped[Array, "direction block plan"]
    """s. The further tensor-parallel syncs, which hide behind products of their own pass."""


@dataclass(frozen=True, kw_only=True)
class SplitLayers:
    """What differs in a layer whose weight gradients are a pass of their own."""

    launch: Shaped[Array, "pass block plan"]
    """s. The time that the host needs beyond the GPU's, of each half of a backward pass by itself."""
    paired_launch: Shaped[Array, "pass block plan"]
    """s. The same beyond the compute alone, where passes run simultaneously."""
    hidden: Shaped[Array, "direction block plan"]
    """s. The tensor-parallel syncs that hide behind products of their own pass."""


@dataclass(frozen=True, kw_only=True)
class Passes:
    """Seconds of one micro-batch through blocks and stages."""

    stage_parts: Shaped[Array, "part stage plan"]
    """s. The time of the forward and backward pass through a stage, without what pairs of passes may hide."""
    layers: Shaped[Array, "stage plan"]
    """The number of layers of a stage."""
    forward: Shaped[Array, "block plan"]
    """s. The forward pass through a block."""
    backward: Shaped[Array, "block plan"]
    """s. The backward pass through a block, on the stage that recomputes least."""
    weight: Shaped[Array, "block plan"]
    """s. The gradients of a block's weights alone."""
    layer_forward: Shaped[Array, "plan"]
    """s. The forward pass through the mean layer."""
    layer_backward: Shaped[Array, "plan"]
    """s. The backward pass through the mean layer."""
    layer_closing: Shaped[Array, "plan"]
    """s. The time of its last pass in a step: the gradients of weights alone if a schedule separates them."""
    exchanges: PassExchanges | None
    """The exchanges that one pass of a pair may hide of the other; None if no schedule has pairs."""


@dataclass(frozen=True, kw_only=True)
class Sends:
    """Seconds to send one micro-batch's activations to the next pipeline stage, by where that is."""

    near_seconds: Shaped[Array, "plan"]
    """s. A send to a stage on the same node; to any stage where all are on nodes of their own."""
    further_seconds: Shaped[Array, "plan"]
    """s. The further time of a send to another node, if some stages share a node."""
    stages_per_node: Shaped[Array, "plan"]
    """The stages that share a node, where only some do; 1 otherwise."""
    mean_seconds: Shaped[Array, "plan"]
    """s. The mean of all neighbours."""


@dataclass(frozen=True, kw_only=True)
class Exchanges:
    """Seconds of what one pipeline stage exchanges with its data-parallel peers, if nothing hid it."""

    reduce: Shaped[Array, "plan"]
    """s. The gradients, once: all-reduce, or reduce-scatter (and all-reduce across shards)."""
    gather: Shaped[Array, "plan"]
    """s. The updated weights, once a step (ZeRO 1 and 2)."""
    layer_gather: Shaped[Array, "plan"]
    """s. The all-gather of one layer's weights (ZeRO 3)."""
    layer_reduce: Shaped[Array, "plan"]
    """s. The reduce-scatter of one layer's gradients (ZeRO 3)."""
    reduce_layer_share: Shaped[Array, "plan"]
    """The share of `reduce` that is of layers, not of the embedding."""
    gather_layer_share: Shaped[Array, "plan"]
    """The share of `gather` that is of layers."""


@dataclass(frozen=True, kw_only=True)
class Groups(Exchanges):
    """Seconds of a step's data-parallel exchanges if nothing hid them, and of its optimizer."""

    stage_layers: Shaped[Array, "plan"]
    """The layers of the stage whose gradients these are."""
    embedding: Shaped[Array, "plan"]
    """s. The all-reduce of tied embedding gradients between first and last stage."""
    optimizer: Shaped[Array, "plan"]
    """s. The optimizer's update."""


@dataclass(frozen=True, kw_only=True)
class StepEnd:
    """What the ranks that may end a step exchange."""

    last: Groups
    """The exchanges of the stage whose backward pass ends last."""
    first: Groups | None
    """The end of the first stage, if another may end last; None if none may."""


@dataclass(frozen=True)
class Counts:
    """Parameters that stages hold."""

    dense: Shaped[Array, "stage plan"]
    """The parameters, except experts."""
    expert: Shaped[Array, "stage plan"] | None
    """The parameters of experts; None without any."""

    @property
    def total(self) -> Shaped[Array, "stage plan"]:
        """The number of both."""
        return self.dense if self.expert is None else self.dense + self.expert


@dataclass(frozen=True, kw_only=True)
class HeldWeights:
    """What stages hold of weights before ZeRO divides it; values of classes that a pipeline lacks mean nothing."""

    counts: Counts
    """The parameters."""
    copies: tuple[Shaped[Array, "stage plan"], Shaped[Array, "stage plan"]] | None
    """The copies that are trained, and the versions that are kept; None where no plan has several of either."""
    largest: Shaped[Array, "plan"]
    """The parameters of the largest block."""
    trained: Counts | None
    """The parameters that are trained, where fine-tuning leaves only a part; None for all."""
    stored: Counts | None
    """The parameters in 16 bits that take as many bytes, where fine-tuning quantises some; None for all."""

    def copied(self, sizes: list[Array]) -> list[Array]:
        """Bytes of weights, gradients and optimizer of all copies."""
        homes, versions = self.copies or (1.0, 1.0)
        weights, *others = (size * homes for size in sizes)
        return [weights * versions, *others]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Plans, without what their data-parallel ranks divide (zero, shard)."""

    plan: Plan
    stages: Stages
    paths: Paths
    passes: Passes
    sends: Sends
    micro_batches: Shaped[Array, "plan"]
    """The micro-batches of a step."""
    chunks: Shaped[Array, "plan"]
    """The model chunks of a rank that take turns."""
    parts: Shaped[Array, "plan"]
    """The model parts of a rank."""
    charge_seconds: Shaped[Array, "plan"]
    """s. The compute-stream time of a send or receive."""
    far_seconds: Shaped[Array, "path plan"] | None
    """s. The further time of each path's sends to other nodes; None if no node holds some of the stages."""
    path_seconds: Shaped[Array, "path plan"]
    """s. Each path without exchanges."""
    stage_seconds: Shaped[Array, "stage plan"]
    """s. A micro-batch on each class of stages without exchanges; 0 where a pipeline lacks the class."""
