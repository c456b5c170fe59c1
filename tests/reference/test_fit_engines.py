"""The constants of engines' kernels are those that their command gives."""

from __future__ import annotations

import pytest
from reference.fit_engines import fit_kernel, groups_of

from podsim.kernels.engine_constants import engine_file

KEY = "trtllm/default/bf16/bf16"


def test_a_fit_gives_the_packaged_constants() -> None:
    groups = [g for g in groups_of("mla-prefill") if g.gpu.architecture == "hopper" and g.run.cache == "bf16"]
    groups = [group for group in groups if group.run.engine == "trtllm"]
    fitted, packaged = fit_kernel(groups), engine_file("mla-prefill")["architecture"]["hopper"][KEY]
    assert fitted.keys() == packaged.keys() - {"evidence"}
    for name, value in fitted.items():
        assert value == pytest.approx(float(packaged[name]), rel=1e-3), name
