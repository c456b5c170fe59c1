"""Jobs of a queue with their requests, submission times and lengths: single jobs, or columns of arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from podsim.axes import Floats, Ints, Shaped
from podsim.errors import TableError
from podsim.fleet.queue_state import JOB, NOTCHES, Work

_SHOWN = 5
"""The number of problems of one kind that an error lists."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One job."""

    id: str
    submit: float
    """s. The time of submission."""
    gpus: int
    seconds: float
    """s. The run time at full speed."""
    user: str = ""
    limit: float | None = None
    """s. The time limit; None: there is none, and the scheduler knows the length."""
    guess: float | None = None
    """s. The run time that the scheduler assumes; None: it knows the true one."""
    after: tuple[str, ...] = ()
    """The ids of the jobs that must end first."""
    rank: float = 0.0
    """share. The site's rank for the job (quality of service), 0 to 1."""
    partition: str = ""
    """The partition whose nodes it may use; "" for the default."""
    mig: str = ""
    """The MIG instance that it needs instead of a GPU, as 1g.10gb or 3g."""
    slow: tuple[float, float] = (1.0, 1.0)
    """share. The speed on more than one node, and under more than one leaf switch, relative to one node."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Jobs:
    """Jobs as columns, in order of submission; J of them."""

    ids: Sequence[str] | range
    """The names of the jobs; a range where they are numbers."""
    submit: Floats
    """s. The time of submission, after that of the first job."""
    gpus: Ints
    seconds: Floats
    """s. The run time at full speed, cut at the limit."""
    limit: Floats
    """s. The time limit; the run time itself where there is none."""
    guess: Floats
    """s. The run time that the scheduler assumes."""
    user: Ints
    """The position of each job's user in `users`."""
    users: tuple[str, ...]
    after: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """The jobs that must end first, by job."""
    rank: Floats
    """share. The site's rank for each job (quality of service)."""
    slow: Shaped[Floats, "job reach"]
    """share. The speed on one node, on several, and under several leaves."""
    pace: Shaped[Floats, "job notch"] = field(default_factory=lambda: np.zeros((0, NOTCHES)))
    """factor. The speed of elastic jobs at each size, as in Work.pace; empty if no job is elastic."""
    partition: Sequence[str] = ()
    """The partition of each job, "" for the default; empty if no job names one."""
    mig: Sequence[str] = ()
    """The MIG instance of each job, "" for whole GPUs; empty if no job needs one."""
    source: str = ""
    """The origin of the jobs."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """The number of jobs of the source that were left out, by reason."""
    cut: int = 0
    """The number of jobs that would have run longer than their limit."""
    rounded: int = 0
    """The number of jobs that asked for a part of a GPU and get a whole one."""
    warm: int = 0
    """The number of first jobs that only warm the machine up, so that no figure counts them."""

    def __len__(self) -> int:
        """The number of jobs."""
        return len(self.submit)

    def at_once(self) -> Jobs:
        """The same jobs, all submitted at time 0."""
        return replace(self, submit=np.zeros(len(self)))

    def only(self, kept: NDArray[np.bool_], reason: str) -> Jobs:
        """The jobs to keep, without dependencies on the others, which are counted as left out."""
        position = np.cumsum(kept) - 1
        after = {
            int(position[j]): tuple(int(position[p]) for p in parents if kept[p])
            for j, parents in self.after.items()
            if kept[j]
        }
        parts = {
            name: getattr(self, name)[kept]
            for name in ("gpus", "seconds", "limit", "guess", "user", "rank", "slow")
        }
        return replace(
            self, ids=[str(self.ids[j]) for j in np.flatnonzero(kept).tolist()], submit=self.submit[kept],
            after=after, **parts,
            pace=self.pace[kept] if len(self.pace) else self.pace,
            partition=_kept_names(self.partition, kept), mig=_kept_names(self.mig, kept),
            left_out={**self.left_out, reason: int(np.count_nonzero(~kept))},
        )  # fmt: skip

    def work(self) -> Work:
        """The jobs as arrays for the kernels; users have equal shares."""
        n = len(self)
        parents = np.zeros(n, np.int64)
        pairs = np.array([(p, j) for j, ps in self.after.items() for p in ps], np.int64).reshape(-1, 2)
        np.add.at(parents, pairs[:, 1], 1)
        pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
        ptr = np.concatenate([[0], np.cumsum(np.bincount(pairs[:, 0], minlength=n))]).astype(np.int64)
        equal = np.full(max(len(self.users), 1), 1.0 / max(len(self.users), 1))
        job = np.zeros(n, JOB)
        for name in ("submit", "seconds", "guess", "limit", "gpus", "user", "rank"):
            job[name] = getattr(self, name)
        job["parents"] = parents
        return Work(
            job=job, shares=equal, child_ptr=ptr,
            child=np.ascontiguousarray(pairs[:, 1]), slow=self.slow, pace=self.pace,
            goodput=self.pace, jobs=n, users=len(equal),
        )  # fmt: skip


def _kept_names(names: Sequence[str], kept: NDArray[np.bool_]) -> Sequence[str]:
    return [name for name, keep in zip(names, kept, strict=True) if keep] if names else ()


def jobs_of(jobs: Iterable[Job]) -> Jobs:
    """The same jobs as columns. Raises TableError with all kinds of problems."""
    rows = list(jobs)
    given = JobColumns(
        ids=[job.id for job in rows], submit=[job.submit for job in rows], gpus=[job.gpus for job in rows],
        seconds=[job.seconds for job in rows], user=[job.user for job in rows],
        limit=[np.nan if job.limit is None else job.limit for job in rows],
        guess=[np.nan if job.guess is None else job.guess for job in rows],
        after=[job.after for job in rows], rank=[job.rank for job in rows],
        slow=np.array([(1.0, *job.slow) for job in rows]).reshape(-1, 3), mig=[job.mig for job in rows],
        partition=[job.partition for job in rows],
    )  # fmt: skip
    return make_jobs(given)


@dataclass(frozen=True, kw_only=True, eq=False)
class JobColumns:
    """Jobs in any order, with one value per job in each column; None for an unknown column."""

    ids: Sequence[str] | range
    submit: ArrayLike
    gpus: ArrayLike
    seconds: ArrayLike
    user: Sequence[str] | None = None
    """The user of each job; with `user_of`, all users."""
    user_of: ArrayLike | None = None
    """The position of each job's user in `user`."""
    limit: ArrayLike | None = None
    """s. The time limit; NaN for none, as in `guess`."""
    guess: ArrayLike | None = None
    after: Sequence[Sequence[str]] | None = None
    rank: ArrayLike | None = None
    slow: Floats | None = None
    """share. The speeds, [jobs, 3]."""
    mig: Sequence[str] | None = None
    partition: Sequence[str] | None = None
    pace: Floats | None = None
    """factor. The speeds at each size, as in Jobs.pace; a row of zeros for a job without a prediction."""
    warm: int = 0
    """The number of first jobs, submitted at 0, that no figure counts."""


def make_jobs(given: JobColumns, *, source: str = "", left_out: Mapping[str, int] | None = None) -> Jobs:
    """The jobs of columns.

    Raises TableError for negative or infinite times, sizes below 1, duplicate ids, dependencies on unknown jobs, and
    cycles of dependencies: all kinds at once, with the first few jobs of each.
    """
    ids, after, mig, n = given.ids, given.after, given.mig, len(given.ids)
    partition = given.partition
    times, sizes = np.asarray(given.submit, np.float64), np.asarray(given.gpus, np.float64)
    length = np.asarray(given.seconds, np.float64)
    bound, believed = (
        np.full(n, np.nan) if column is None else np.asarray(column, np.float64)
        for column in (given.limit, given.guess)
    )
    ranks = np.zeros(n) if given.rank is None else np.asarray(given.rank, np.float64)
    speeds = np.ones((n, 3)) if given.slow is None else np.asarray(given.slow, np.float64)
    problems = _problems(ids, times, sizes, length, bound, believed, ranks, speeds)
    order = np.argsort(times, kind="stable")
    names: Sequence[str] | range = (
        ids if isinstance(ids, range) and (order[1:] > order[:-1]).all() else [str(ids[at]) for at in order]
    )
    waits = (
        {}
        if after is None
        else _dependencies([str(name) for name in names], [after[at] for at in order], problems)
    )
    if problems:
        raise TableError(f"{source or 'jobs'}: " + "; ".join(problems))
    cut = np.where(np.isnan(bound), length, np.minimum(length, bound))
    owners, position = _user_positions(given.user, given.user_of, n)
    return Jobs(
        ids=names, submit=(times - times.min())[order] if n else times,
        gpus=sizes.astype(np.int64)[order], seconds=cut[order],
        limit=np.where(np.isnan(bound), length, bound)[order],
        guess=np.where(np.isnan(believed), cut, believed)[order],
        user=position[order], users=owners, after=waits, rank=ranks[order],
        slow=np.ascontiguousarray(speeds[order]), mig=[mig[at] for at in order] if mig and any(mig) else (),
        partition=[partition[at] for at in order] if partition and any(partition) else (),
        pace=np.zeros((0, NOTCHES)) if given.pace is None else given.pace[order],
        source=source, left_out=dict(left_out or {}), warm=given.warm,
        cut=int(np.count_nonzero(length > bound)),
    )  # fmt: skip


def _user_positions(
    user: Sequence[str] | None, user_of: ArrayLike | None, n: int
) -> tuple[tuple[str, ...], Ints]:
    """(users, position of each job's user)."""
    if user_of is not None and user is not None:
        return tuple(user), np.asarray(user_of, np.int64)
    number: dict[str, int] = {}
    for name in sorted(set(user or ("",))):
        number[name] = len(number)
    return tuple(number), np.array([number[name] for name in user] if user is not None else [0] * n, np.int64)


def _is_valid(values: Floats) -> NDArray[np.bool_]:
    return np.isfinite(values) & (values >= 0)


def _problems(
    ids: Sequence[str] | range, submit: Floats, gpus: Floats, seconds: Floats, limit: Floats, guess: Floats, rank: Floats,
    slow: Shaped[Floats, "job reach"],
) -> list[str]:  # fmt: skip
    """The problems of the columns, as messages."""
    wrong = {
        "submit times must be finite and not negative": (submit, ~_is_valid(submit)),
        "lengths must be finite and not negative": (seconds, ~_is_valid(seconds)),
        "GPUs must be whole numbers of at least 1": (gpus, ~(np.isfinite(gpus) & (gpus >= 1) & (gpus % 1 == 0))),
        "limits must be positive": (limit, ~(np.isnan(limit) | (np.isfinite(limit) & (limit > 0)))),
        "guesses must be finite and not negative": (guess, ~(np.isnan(guess) | _is_valid(guess))),
        "ranks must be 0 to 1": (rank, ~((rank >= 0) & (rank <= 1))),
        "speeds must be above 0 and at most 1": (
            slow.min(axis=1, initial=1.0), ~((slow > 0) & (slow <= 1)).all(axis=1),
        ),
    }  # fmt: skip
    problems = []
    for rule, (values, bad) in wrong.items():
        places = np.flatnonzero(bad)
        if len(places):
            examples = ", ".join(f"job {str(ids[j])[:40]}: {values[j]:g}" for j in places[:_SHOWN])
            more = f" and {len(places) - _SHOWN:,} more" if len(places) > _SHOWN else ""
            problems.append(f"{rule} ({examples}{more})")
    if not isinstance(ids, range) and len(set(ids)) < len(ids):
        twice = [name for name, count in Counter(ids).items() if count > 1]
        problems.append(
            f"ids must be unique ({', '.join(str(name)[:40] for name in twice[:_SHOWN])}); if a table holds"
            " several traces, select one by its column (where)"
        )
    return problems


def _dependencies(
    names: Sequence[str], after: Sequence[Sequence[str]], problems: list[str]
) -> dict[int, tuple[int, ...]]:
    """The positions of the jobs that each job waits for. Adds unknown ones and cycles to the problems."""
    position = {name: number for number, name in enumerate(names)}
    unknown = [
        (names[j], name) for j, parents in enumerate(after) for name in parents if name not in position
    ]
    if unknown:
        examples = ", ".join(f"job {job[:40]} waits for {name[:40]}" for job, name in unknown[:_SHOWN])
        problems.append(f"dependencies must be jobs of the trace ({examples})")
        return {}
    waits = {
        j: tuple(dict.fromkeys(position[name] for name in parents))
        for j, parents in enumerate(after)
        if parents
    }
    circle = _cycle(waits)
    if circle:
        shown = [names[j][:40] for j in circle[:8]]
        problems.append(
            f"dependencies must not form a cycle ({' after '.join([*shown, names[circle[0]][:40]])})"
        )
    return waits


def _cycle(waits: Mapping[int, Sequence[int]]) -> list[int]:
    """The jobs of one cycle of dependencies, each after the next; empty if there is none."""
    state: dict[int, int] = {}
    for root in waits:
        path: list[int] = []
        stack = [(root, False)]
        while stack:
            job, left = stack.pop()
            if left:
                state[job] = 2
                path.pop()
                continue
            if state.get(job) == 1:
                return path[path.index(job) :]
            if state.get(job) == 2:
                continue
            state[job] = 1
            path.append(job)
            stack.append((job, True))
            stack.extend((parent, False) for parent in waits.get(job, ()) if state.get(parent) != 2)
    return []
