"""The noise scale and the critical batch: against gradients and steps whose truth is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from podsim import PodsimError, scale_batch
from podsim.learning.batch_critical import fit_batch_law
from podsim.learning.batch_noise import gradient_noise
from podsim.learning.batch_rules import noisy_rate, scaled_rate, warmed_rate


def test_the_noise_scale_of_drawn_gradients() -> None:
    draws = np.random.default_rng(3)
    true, spread, small, large, steps = np.full(50, 0.1), 1.5, 4, 64, 400
    samples = true + draws.normal(0, spread, (steps, large, 50))
    micro = samples.reshape(steps, large // small, small, 50).mean(axis=2)
    noise = gradient_noise(
        small, large, (micro**2).sum(axis=2).mean(axis=1), (samples.mean(axis=1) ** 2).sum(axis=1)
    )
    expected = 50 * spread**2 / (true @ true)
    assert noise.low < expected < noise.high
    assert noise.critical == pytest.approx(expected, rel=0.1)


def test_noise_that_cannot_be_measured() -> None:
    with pytest.raises(PodsimError, match="two sizes"):
        gradient_noise(8, 8, np.ones(5), np.ones(5))
    with pytest.raises(PodsimError, match="noise hides"):
        gradient_noise(1, 8, np.full(5, 8.0), np.full(5, 0.5))


@pytest.mark.parametrize("critical", [30.0, 500.0, 9000.0])
def test_the_law_is_recovered(critical: float) -> None:
    batches = [16, 64, 256, 1024, 4096]
    law = fit_batch_law(batches, [700 * (1 + critical / batch) for batch in batches])
    assert (law.critical, law.fewest_steps) == pytest.approx((critical, 700), rel=1e-4)
    assert law.steps(critical) == pytest.approx(1400, rel=1e-4)


def test_published_steps_at_batches_that_were_not_fitted() -> None:
    errors = {name: scale_batch(name).held_out for name in ("zhang-85m", "zhang-151m", "zhang-302m")}
    assert all(error is not None and error < 0.25 for error in errors.values()), errors


def test_rates() -> None:
    assert scaled_rate(0.1, 256, 8192, "linear") == pytest.approx(3.2)  # Goyal et al. 2017
    assert scaled_rate(0.1, 256, 1024, "sqrt") == pytest.approx(0.2)
    assert [warmed_rate(1.0, step, 4) for step in (0, 1, 3, 9)] == [0.25, 0.5, 1.0, 1.0]
    assert noisy_rate(0.1, 100, 10**9, 100, "linear") == pytest.approx(0.2, rel=1e-4)
    assert noisy_rate(0.1, 1, 4, 10**9, "sqrt") == pytest.approx(0.2, rel=1e-4)


def test_a_users_table(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_text("Batch,Steps\n32,1000\n64,560\n128,340\n256,230\n")
    advice = scale_batch(path, rate=1e-3, optimizer="sgd", batch="32,64")
    assert [row.linear for row in advice.rows] == pytest.approx([1e-3, 2e-3])
    assert 1e-3 < (advice.rows[1].usual or 0) < 2e-3  # the rule ends at the critical batch
    path.write_text("batch,loss\n32,1000\n")
    with pytest.raises(PodsimError, match="no column steps"):
        scale_batch(path)
    path.write_text("batch,steps\n32,many\n")
    with pytest.raises(PodsimError, match="row 1"):
        scale_batch(path)
    path.write_text("batch,steps\n32,9\n64,5\n")
    with pytest.raises(PodsimError, match="needs 3"):
        scale_batch(path)
    with pytest.raises(PodsimError, match="give a source"):
        scale_batch()
