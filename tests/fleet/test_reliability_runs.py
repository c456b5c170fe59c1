"""Drawn runs: against the closed form, against a plain loop over events, and against what is known of one training."""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from podsim.errors import PodsimError
from podsim.fleet.goodput_figures import make_histogram
from podsim.fleet.reliability import HORIZON, LongRun, blocked_share, expected_seconds, failure_free_seconds
from podsim.fleet.reliability_rates import load_study, recovery, studies
from podsim.fleet.reliability_runs import MOST_RUNS, RunSamples, simulate_runs

DAY, HOUR = 86400.0, 3600.0
RUN = LongRun(work=100 * HOUR, mtbf=5 * HOUR, interval=HOUR, stall=120.0, restart=600.0)
SHORT = replace(RUN, work=30.5 * HOUR)
VARIANTS = {
    "plain": RUN,
    "a shorter last interval": SHORT,
    "asynchronous": replace(RUN, stall=10.0, persist=1500.0),
    "hangs": replace(RUN, hang=0.3, timeout=2000.0),
    "slow for good": replace(RUN, slow=0.01, nodes=50, slowdown=0.3),
}


def drawn(run: LongRun, runs: int = 20_000, seed: int = 1) -> np.ndarray:
    return simulate_runs(run, runs, np.random.default_rng(seed)).seconds


@pytest.mark.parametrize("name", VARIANTS)
def test_the_mean_is_the_exact_expectation(name: str) -> None:
    seconds = drawn(VARIANTS[name])
    error = seconds.std() / math.sqrt(seconds.size)
    assert abs(seconds.mean() - expected_seconds(VARIANTS[name])) < 4 * error


def test_failures_come_at_their_rate() -> None:
    """Wald: every second is exposed, so failures are seconds over the mean between them."""
    found = simulate_runs(RUN, 20_000, np.random.default_rng(3))
    assert found.failures.mean() == pytest.approx(found.seconds.mean() / RUN.mtbf, rel=0.01)
    assert (found.restarting <= found.failures * 600.0 + 1e-6).all()


def test_the_same_seed_gives_the_same_runs() -> None:
    first, second = (simulate_runs(SHORT, 100, np.random.default_rng(9)) for _ in range(2))
    for name in ("seconds", "failures", "restarting", "waiting", "slowed"):
        assert (getattr(first, name) == getattr(second, name)).all()
    assert (drawn(SHORT, 100, 10) != first.seconds).any()


@settings(max_examples=25, deadline=None)
@given(
    st.floats(0.5, 100.0), st.floats(0.0, 900.0), st.floats(0.0, 900.0), st.integers(0, 3), st.floats(0.0, 0.5),
    st.floats(0.0, 0.3), st.floats(0.0, 1.0),
)  # fmt: skip
def test_no_run_beats_one_without_failures(
    hours: float, stall: float, persist: float, spares: int, drain: float, slow: float, spread: float
) -> None:
    run = LongRun(
        work=hours * HOUR, mtbf=8 * HOUR, interval=HOUR, stall=stall, persist=persist, restart=300.0, drain=drain,
        repair=2 * HOUR, spares=spares, slow=slow, nodes=4, slowdown=0.2, found=5 * HOUR, spread=spread,
    )  # fmt: skip
    found = simulate_runs(run, 200, np.random.default_rng(0))
    least = failure_free_seconds(run)
    assert (found.seconds >= least * (1 - 1e-9)).all()
    done = np.isfinite(found.seconds)
    spent = (least + found.restarting + found.waiting + found.slowed)[done]
    assert (found.seconds[done] >= spent * (1 - 1e-9)).all()
    untouched = done & (found.failures == 0) & (found.slowed == 0)
    assert found.seconds[untouched] == pytest.approx(least)


def test_reliable_machines_take_no_longer() -> None:
    assert drawn(replace(SHORT, mtbf=1e12), 50) == pytest.approx(failure_free_seconds(SHORT))


def test_waiting_is_erlangs_in_the_long_run() -> None:
    run = replace(RUN, work=3000 * HOUR, drain=0.5, repair=12 * HOUR, spares=2, mtbf=10 * HOUR)
    found = simulate_runs(run, 4000, np.random.default_rng(5))
    share = found.waiting.sum() / found.seconds.sum()
    assert share == pytest.approx(blocked_share(2, 0.5 * 12 / 10), rel=0.03)


def test_more_spares_wait_less() -> None:
    runs = [replace(RUN, drain=0.5, repair=20 * HOUR, spares=spares) for spares in (0, 1, 3, None)]
    waits = [simulate_runs(run, 2000, np.random.default_rng(2)).waiting.mean() for run in runs]
    assert waits[0] > waits[1] > waits[2] > waits[3] == 0.0


def test_a_spread_of_rates_keeps_the_median_and_widens_the_rest() -> None:
    narrow, wide = (
        np.quantile(drawn(run, 5000), (0.1, 0.5, 0.9), method="inverted_cdf")
        for run in (RUN, replace(RUN, spread=0.7))
    )
    assert wide[1] == pytest.approx(narrow[1], rel=0.02)
    assert wide[2] - wide[0] > 2 * (narrow[2] - narrow[0])


def test_a_slow_node_that_is_found_slows_less() -> None:
    slow = replace(RUN, slow=0.02, nodes=100, slowdown=0.3)
    never, soon = drawn(slow, 2000), drawn(replace(slow, found=10 * HOUR), 2000)
    assert drawn(RUN, 2000).mean() < soon.mean() < never.mean()
    assert soon.mean() - drawn(RUN, 2000).mean() < 1.2 * 10 * HOUR * 0.3


def test_runs_are_given_up_at_the_horizon() -> None:
    run = replace(RUN, work=5 * HOUR, mtbf=0.52 * HOUR)
    found = simulate_runs(run, 2000, np.random.default_rng(0))
    assert 0.8 * HORIZON < expected_seconds(run) / failure_free_seconds(run) < HORIZON
    assert 0 < found.unfinished < 0.5
    assert (found.seconds[np.isfinite(found.seconds)] <= (HORIZON + 1.1) * failure_free_seconds(run)).all()


def test_a_wide_spread_ends_in_time() -> None:
    found = simulate_runs(replace(RUN, spread=3.0), 2000, np.random.default_rng(0))
    assert 0.05 < found.unfinished < 0.5


def test_hopeless_runs_are_given_up() -> None:
    found = simulate_runs(replace(RUN, mtbf=300.0), 20, np.random.default_rng(0))
    assert found.unfinished == 1.0
    assert (found.failures > HORIZON * RUN.work / 300.0 * 0.5).all()


@pytest.mark.parametrize("runs", [0, -1, 1.5, True, MOST_RUNS + 1])
def test_numbers_of_runs(runs: int) -> None:
    with pytest.raises(PodsimError, match="runs="):
        simulate_runs(RUN, runs, np.random.default_rng(0))


# ------------------------------------------------------------------------ the same process, one event after the other


class Events:
    """One run as it happens, event after event. Knows nothing of the vectorised draw."""

    def __init__(self, run: LongRun, dice: random.Random) -> None:
        self.run, self.dice = run, dice
        self.clock, self.failures, self.kept = 0.0, 0, 0.0
        self.slow_left = run.found if dice.random() < 1 - (1 - run.slow) ** run.nodes else 0.0
        self.repairs: list[float] = []
        self.spares = run.spares if run.spares is not None else 10**9
        self.fails_at = self._next_failure()

    def _next_failure(self) -> float:
        return self.clock + self.dice.expovariate(1 / self.run.mtbf)

    def play(self) -> tuple[float, int]:
        """(s, failures) of the whole run."""
        while (end := self._train()) is None:
            self.clock, self.failures = self.fails_at, self.failures + 1
            while not self._restart():
                self.clock, self.failures = self.fails_at, self.failures + 1
        return end, self.failures

    def _train(self) -> float | None:
        """Work and checkpoints until the end of the run, which is returned, or until the failure."""
        run, at, done = self.run, self.clock, self.kept
        saved: list[tuple[float, float]] = []  # (complete at, work in it)
        while (piece := min(run.interval, run.work - done)) > 1e-6:
            need = piece + run.stall  # at full pace
            slowed = min(need * (1 + run.slowdown), self.slow_left)
            took = slowed + need - slowed / (1 + run.slowdown)
            if at + took > self.fails_at:
                self.slow_left = max(0.0, self.slow_left - (self.fails_at - at))
                break
            at, done = at + took, done + piece
            self.slow_left -= slowed
            saved.append((at + run.persist, done))
        else:
            if saved and saved[-1][0] <= self.fails_at:
                return saved[-1][0]
        self.kept = max([work for complete, work in saved if complete <= self.fails_at], default=self.kept)
        return None

    def _restart(self) -> bool:
        """Swap a node, wait for one, come back to work: False if it fails before."""
        run = self.run
        if self.dice.random() < run.drain:
            self._swap()
        needs = run.restart + (run.timeout if self.dice.random() < run.hang else 0.0)
        self.fails_at = self._next_failure()
        if self.clock + needs > self.fails_at:
            return False
        self.clock += needs
        return True

    def _swap(self) -> None:
        if self.dice.random() < self.run.slow:
            self.slow_left = self.run.found
        while self.repairs and self.repairs[0] <= self.clock:
            heapq.heappop(self.repairs)
            self.spares += 1
        heapq.heappush(self.repairs, self.clock + self.dice.expovariate(1 / self.run.repair))
        if self.spares:
            self.spares -= 1
        else:
            self.clock = heapq.heappop(self.repairs)


EVENTS = {
    **VARIANTS,
    "spares": replace(SHORT, drain=0.5, repair=10 * HOUR, spares=1),
    "slow until found": replace(SHORT, slow=0.02, nodes=40, slowdown=0.4, found=6 * HOUR, drain=0.4, repair=HOUR),
    "slow replacements": replace(SHORT, slow=0.4, slowdown=0.5, found=6 * HOUR, drain=0.9, repair=HOUR),
    "all at once": replace(
        SHORT, stall=20.0, persist=900.0, hang=0.2, timeout=1800.0, drain=0.5, repair=8 * HOUR, spares=0, slow=0.03,
        nodes=20, slowdown=0.25, found=4 * HOUR,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_loop_gives_the_same_distribution(name: str) -> None:
    run, dice = EVENTS[name], random.Random(7)
    plain = [Events(run, dice).play() for _ in range(1500)]
    found = simulate_runs(run, 15_000, np.random.default_rng(7))
    assert ks_2samp([seconds for seconds, _ in plain], found.seconds).pvalue > 1e-3
    assert ks_2samp([failures for _, failures in plain], found.failures).pvalue > 1e-3


# ------------------------------------------------------------------------------------------------- Llama 3, 54 days

CHECKPOINT, READ = 4.44, 42.5
"""s to write and read the state of 405 B parameters, at the store that is advised for 2,048 nodes"""


def llama(rate: float, spread: float) -> LongRun:
    """54 days of 2,048 nodes at about 95 %: constants of recovery that no row of that training is in."""
    known = {name: constant.value for name, constant in recovery().items()}
    mtbf = 1 / (rate * 2048)
    return LongRun(
        work=0.95 * 54 * DAY, mtbf=mtbf, interval=math.sqrt(2 * CHECKPOINT * mtbf), stall=CHECKPOINT,
        restart=known["start"] + READ, hang=known["hang"], timeout=known["timeout"], drain=known["drain"],
        repair=known["repair"], spares=math.ceil(known["spares"] * 2048), spread=spread,
    )  # fmt: skip


def test_llama_3_with_its_own_rate() -> None:
    """The count only has to come back; the effective time is a prediction, published as over 90 %."""
    run = llama(load_study("llama-3").rate, 0.0)
    assert run.mtbf / HOUR == pytest.approx(3.09, abs=0.01)
    found = simulate_runs(run, 4000, np.random.default_rng(0))
    low, high = np.quantile(found.failures * 54 * DAY / found.seconds, (0.05, 0.95))
    assert low < 419 < high
    assert np.quantile(run.work / found.seconds, 0.05) > 0.90


def site_spread(without: str = "") -> tuple[float, float]:
    """(1/s, the median failure rate of a node over the confirmed studies; deviation of its logarithm at a new site).

    One study per site. Both are geometric: the mean and deviation of logarithms, with a deviation larger by
    sqrt(1 + 1 / n), since the mean is over n sites only. `without` leaves a study out, to predict it from the others.
    """
    counted = [study for study in studies().values() if study.confirmed and study.site == study.name]
    logs = [math.log(study.rate) for study in counted if study.name != without]
    mean = sum(logs) / len(logs)
    spread = math.sqrt(sum((value - mean) ** 2 for value in logs) / (len(logs) - 1))
    return math.exp(mean), spread * math.sqrt(1.0 + 1.0 / len(logs))


def test_sites_count_once_and_only_what_is_confirmed() -> None:
    rates = [load_study(name).rate for name in ("rsc-1", "llama-3", "bloom", "opt-175b")]
    median, spread = site_spread()
    assert median == pytest.approx(math.prod(rates) ** 0.25)
    assert spread > 0.5


def test_llama_3_from_other_sites() -> None:
    """Rate and spread of three other sites: the published count and effective time are inside the 90 % band."""
    rate, spread = site_spread(without="llama-3")
    assert rate * DAY == pytest.approx((6.5e-3 * 1.5 / 48 / 7 * 2 / 124) ** (1 / 3))
    run = llama(rate, spread)
    found = simulate_runs(run, 200, np.random.default_rng(0))
    low, high = np.quantile(found.failures * 54 * DAY / found.seconds, (0.05, 0.95))
    assert low < 419 < high
    share = np.quantile(run.work / found.seconds, (0.05, 0.95))
    assert share[0] < 0.90 < share[1]


def test_a_histogram_leaves_out_the_longest_hundredth() -> None:
    """Of 150 runs that end, two are not of the first 99 %: 148.5 runs, so 149, are drawn."""
    ended = np.append(np.arange(150.0), np.inf)
    none = np.zeros(151)
    runs = RunSamples(seconds=ended, failures=none.astype(int), restarting=none, waiting=none, slowed=none)
    edges, counts = make_histogram(runs)
    assert (edges[0], edges[-1], sum(counts)) == (0.0, 148.0, 149)
