"""Sharpness of minima, and what small and large batches learn."""

from __future__ import annotations

import pytest

from podsim.errors import PodsimError
from podsim.lab.training.sharpness import SharpnessTask, drawn_samples, largest_eigenvalues, losses
from podsim.learning.batch_critical import published_rows
from podsim.questions.learn.scale_sharpness import scale_sharpness

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def test_power_iteration_finds_the_largest_eigenvalue_of_the_dense_hessian() -> None:
    draws = torch.Generator().manual_seed(3)
    inputs, labels = torch.randn(40, 5, generator=draws), torch.randint(3, (40,), generator=draws)
    weights = [torch.randn(2, rows, columns, generator=draws) for rows, columns in ((5, 6), (6, 3))]

    def loss_of_one(flat: object) -> object:
        first, second = flat[:30].view(5, 6), flat[30:].view(6, 3)  # type: ignore[index]
        return torch.nn.functional.cross_entropy((inputs @ first).clamp(min=0) @ second, labels)

    flats = [torch.cat([weight[run].flatten() for weight in weights]) for run in range(2)]
    dense = [torch.linalg.eigvalsh(torch.autograd.functional.hessian(loss_of_one, flat)) for flat in flats]
    for weight in weights:
        weight.requires_grad_()
    found = largest_eigenvalues(torch, weights, inputs, labels)
    assert found.tolist() == pytest.approx([float(each.abs().max()) for each in dense], rel=2e-2)
    alone = [float(loss_of_one(flat)) for flat in flats]  # type: ignore[arg-type]
    assert losses(torch, weights, inputs, labels).tolist() == pytest.approx(alone, rel=1e-5)


def test_samples_are_drawn_alike_and_apart() -> None:
    task = SharpnessTask(samples=200, target=0.1, epochs=1, data_seed=1)
    (inputs, labels), (others, _) = drawn_samples(task)
    assert inputs.shape == (200, 144)
    assert set(labels.tolist()) == set(range(10))
    assert torch.equal(drawn_samples(task)[0][0], inputs)
    assert not torch.equal(others[:200], inputs)


def test_a_large_batch_ends_sharper_at_the_same_rate() -> None:
    """Keskar et al. 2017, at the same training loss; a larger rate makes it flatter (Jastrzebski et al. 2018)."""
    answer = scale_sharpness(batches="8,256", samples=512, seeds=2, epochs=400)
    small, same, root, *_ = answer.rows
    for row in (small, same, root):
        assert row.training is not None
        assert row.training <= 0.02
    assert (same.sharpness or 0) > 1.2 * (small.sharpness or 0)
    assert (same.validation or 0) > (small.validation or 0) + 2 * (same.spread or 0)
    assert (root.sharpness or 0) < (same.sharpness or 0)
    assert same.gap == pytest.approx((same.validation or 0) - (same.training or 0))


def test_a_target_out_of_reach_is_said() -> None:
    answer = scale_sharpness(batches="64,128", samples=128, seeds=2, epochs=1)
    assert {row.verdict for row in answer.rows} == {"not at the target"}
    assert answer.rows[0].validation is None


@pytest.mark.parametrize("batches", ["8", "8,x", "0,8", "8,5000"])
def test_batches_that_make_no_sense(batches: str) -> None:
    with pytest.raises(PodsimError, match="two or more"):
        scale_sharpness(batches=batches)


@pytest.mark.parametrize("wrong", [{"seeds": 0}, {"seeds": 65}, {"samples": 63}, {"epochs": 0}])
def test_sizes_outside_their_bounds_are_refused_before_training(wrong: dict[str, int]) -> None:
    with pytest.raises(PodsimError, match=f"{next(iter(wrong))}=.*: give .* to "):
        scale_sharpness(batches="8,16", **wrong)


@pytest.mark.long
def test_the_run_of_the_documents_comes_again() -> None:
    """Another machine sums in another order, so that runs part; means of five seeds do not part far."""
    rows = {(row.batch, row.rate): row for row in scale_sharpness().rows if row.steps}
    kept = [row for row in published_rows() if row.name == "sharpness"]
    assert len(kept) == 2 * len(rows)
    for each in kept:
        rate = each.notes.partition(",")[0]
        near = next(row for key, row in rows.items() if (key[0], f"rate {key[1]:.2g}") == (each.batch, rate))
        value = near.validation if "validation" in each.metric else near.sharpness
        assert value == pytest.approx(each.value, rel=0.1 if "validation" in each.metric else 0.3)
