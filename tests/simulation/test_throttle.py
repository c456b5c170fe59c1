"""GPUs that grow hot in a step."""

from __future__ import annotations

import numpy as np
import pytest

import podsim
from podsim.errors import PodsimError
from podsim.simulation.events import play
from podsim.simulation.lower import lower
from podsim.simulation.lower_links import Trouble, throttled_seconds
from podsim.training.plan import Plan

close = pytest.approx


def seconds(model, cluster, plan, **options):
    return play(lower(model, cluster, plan, **options).ops).seconds


def test_the_law_is_what_small_steps_of_it_add_up_to():
    """b grows by dw (1 + (f - 1) (1 - exp(-b / tau))), whatever the kernels are cut into."""
    work, factor, tau = np.array([0.5, 1.0, 0.25, 2.0]), 1.6, 0.8
    ends, busy = {50_000, 150_000, 175_000, 375_000}, 0.0
    found = []
    for place in range(1, 375_001):
        busy += 1e-5 * (1 + (factor - 1) * (1 - np.exp(-busy / tau)))
        if place in ends:
            found.append(busy)
    assert throttled_seconds(work, factor, tau).cumsum() == close(np.array(found), rel=1e-4)
    assert throttled_seconds(np.full(3750, 1e-3), factor, tau).sum() == close(
        throttled_seconds(work, factor, tau).sum()
    )


def test_limits(two, small):
    """At once hot is slow; never hot, and 1 times, is as it was; between them it is between them."""
    plan = Plan(tp=2, pp=2, dp=4, global_batch=16)
    plain = seconds(small, two, plan)
    slow = seconds(small, two, plan, trouble=Trouble(slow={5: 1.5}))
    times = [
        seconds(small, two, plan, trouble=Trouble(throttle={5: (1.5, tau)})) for tau in (1e-9, 0.1, 1.0, 1e9)
    ]
    assert times[0] == close(slow, rel=1e-6)
    assert times[-1] == close(plain, rel=1e-6)
    assert times == sorted(times, reverse=True)
    assert seconds(small, two, plan, trouble=Trouble(throttle={5: (1.0, 0.1)})) == close(plain)


@pytest.mark.parametrize(
    "options", [{"unfold": True}, {"kernels": False}, {"kernels": False, "unfold": True}]
)
def test_folded_or_not_kernel_by_kernel_or_not(two, small, options):
    plan = Plan(tp=2, pp=2, dp=4, global_batch=16)
    trouble = Trouble(throttle={5: (1.5, 0.2), 9: (1.2, 0.1)}, slow={9: 1.1})
    assert seconds(small, two, plan, trouble=trouble, **options) == close(
        seconds(small, two, plan, trouble=trouble), rel=1e-9
    )


def test_what_cannot_be():
    with pytest.raises(PodsimError, match=r"throttled rank 1: 0\.5 times as long") as error:
        podsim.simulate("gpt2", on="dgx-a100:1", batch=8, throttle={1: (0.5, 1.0), 2: (1.2, 0.0)})
    assert "throttled rank 2: hot after 0 s" in str(error.value)
    with pytest.raises(PodsimError, match="rank 8 does not exist"):
        podsim.simulate("gpt2", on="dgx-a100:1", batch=8, throttle={8: (1.5, 1.0)})
