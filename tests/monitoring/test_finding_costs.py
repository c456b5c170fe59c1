"""What findings cost: simulated with and without them where a rate is left, else as measured; the money by hand."""

from pathlib import Path

import pytest
from tests.monitoring.small_day import write_day

import podsim
from podsim.answers.diagnosis import Effect, Finding
from podsim.errors import PodsimError

ON = "dgx-a100-80gb:3"
PRICE = 2.0


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    faults = ("hot-gpu@0/3@1h+1h", "slow-link@1/1@3h+1h", "late-rank@2/5@5h+1h")
    return write_day(tmp_path_factory.mktemp("costs"), *faults)


def effect_of(findings: tuple[Finding, ...], part: str) -> Effect:
    (effect,) = [each.effect for each in findings if each.part == part]
    assert effect is not None
    return effect


def test_a_clock_costs_what_simulations_with_and_without_it_say(day: Path) -> None:
    found = podsim.diagnose(day, cost=True, on=ON, model="bert-large", price=str(PRICE)).findings
    effect = effect_of(found, "GPU 3")
    plan = podsim.plan("bert-large", on=ON, gpus=16).ranked[0].prediction
    fields = {
        name: plan.plan[name]
        for name in ("tp", "pp", "dp", "micro_batch", "zero", "recompute", "schedule", "sequence_parallel")
    }
    sound, ill = (
        podsim.simulate("bert-large", on=ON, gpus=16, batch=plan.plan["global_batch"], slow=slow, **fields)
        for slow in (None, {3: 1 / effect.clock})
    )
    assert (effect.job, effect.gpus, effect.ranks) == ("0", 16, (3,))
    assert effect.clock == pytest.approx(0.65, abs=0.02)
    assert effect.lost == pytest.approx(1 - sound.step_time / ill.step_time, rel=1e-9)
    assert effect.lost == pytest.approx(1 - effect.speed, abs=0.02)  # the day has its own law
    assert effect.daily == pytest.approx(effect.lost * 16 * PRICE * 24)
    assert effect.restart_pays == pytest.approx(300 / effect.lost)  # a restart takes 5 min
    link = effect_of(found, "mlx5_1")
    assert (link.ranks, link.link, link.is_simulated) == ((9,), pytest.approx(0.25), True)


def test_without_a_model_or_a_rate_the_cost_is_measured(day: Path) -> None:
    for model in ("", "bert-large"):
        effect = effect_of(podsim.diagnose(day, cost=True, on=ON, model=model, price="2").findings, "GPU 5")
        assert (effect.job, effect.gpus, effect.is_simulated) == ("1", 8, False)
        assert effect.lost == pytest.approx(1 - 0.7, abs=0.02)
        assert effect.daily == pytest.approx(effect.lost * 8 * 2 * 24)


def test_costs_need_the_machine(day: Path) -> None:
    with pytest.raises(PodsimError, match="--on dgx-h100:4"):
        podsim.diagnose(day, cost=True)
    with pytest.raises(PodsimError, match="--cost"):
        podsim.diagnose(day, model="bert-large")
