"""What is said of a plan whose step is simulated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from podsim.simulation.played_plan import _plan_warnings


@pytest.mark.parametrize(("share", "pp", "said"), [(0.5, 2, 1), (1.0, 2, 0), (0.5, 1, 0), (None, 2, 0)])
def test_ranks_that_share_cores_wait_in_a_pipeline(share: float | None, pp: int, said: int) -> None:
    host = None if share is None else SimpleNamespace(share=share)
    setting: Any = SimpleNamespace(
        default_batch=False, cluster=SimpleNamespace(host=host), plan=SimpleNamespace(pp=pp)
    )
    assert len(_plan_warnings(setting, True)) == said
    assert len(_plan_warnings(setting, False)) == said + 1
    setting.default_batch = True
    assert len(_plan_warnings(setting, True)) == said + 1
