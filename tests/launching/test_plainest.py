"""Plans at their plainest, and single changes of a plan: by hand."""

from __future__ import annotations

from podsim.launching.advice import single_changes
from podsim.launching.job import plainest
from podsim.launching.megatron_model import GPT2_VOCABULARY
from podsim.training.plan import Plan


def test_every_layer_of_a_stage_is_written_as_zero() -> None:
    """32 layers on 4 stages: 8 of 8 computed again are all of them, 7 are not, and selective counts no layers."""
    plan = Plan(pp=4, dp=2, global_batch=8, recompute="full", schedule="1f1b")
    assert plainest(plan.having({"recompute_layers": 8}), 32).recompute_layers == 0
    assert plainest(plan.having({"recompute_layers": 7}), 32).recompute_layers == 7


def test_only_a_pipeline_gets_chunks() -> None:
    def subjects(plan: Plan) -> list[str]:
        return [subject for subject, _ in single_changes(plan) if subject.startswith("virtual_stages")]

    assert subjects(Plan(dp=8, global_batch=8)) == []
    assert subjects(Plan(pp=2, dp=4, global_batch=8)) == ["virtual_stages 1 → 2"]


def test_gpt_2s_vocabulary_is_bytes_merges_and_an_end() -> None:
    """Radford et al. 2019: 256 bytes, 50,000 merges and the end of a text."""
    assert GPT2_VOCABULARY == 256 + 50_000 + 1
