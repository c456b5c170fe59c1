"""Runs the questions of a study that its store does not answer, in chunks on an executor; keeps answers as they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from functools import cache
from typing import Any, TypeAlias

from podsim.errors import LabError
from podsim.studies.answer_store import AnswerStore, file_digest, point_key
from podsim.studies.executors import SerialExecutor, open_executor, processors
from podsim.studies.study_file import Point

Answer: TypeAlias = dict[str, Any]
Ask: TypeAlias = Callable[[Sequence[tuple[str, Mapping[str, Any]]]], list[Answer]]
"""a function, importable by its name, from (question, settings) of a chunk to plain answers"""
_CHUNKS = 8
"""chunks for each worker, at least, so that all end together"""
_CHUNK = {"predict": (25, 1000)}
"""the least and the most questions of a chunk, where an answer takes less time than the start of a process"""
_AHEAD = 3
"""chunks in flight for each worker"""
_RESTARTS = 3
"""times that a pool whose process died is started again"""


def answers(
    points: Sequence[Point], ask: Ask, executor: str | Executor, store: AnswerStore
) -> Iterator[tuple[int, Answer, bool]]:
    """(the number of a point, its answer, whether it was computed now): those of the store first, then as they come.

    Equal questions are asked once. An answer is in the store before it is given, so a run that is killed goes on where
    it was. Raises LabError when processes keep dying, and what `ask` raises.
    """
    places: dict[str, list[int]] = {}
    digest_of = cache(file_digest)
    for number, point in enumerate(points):
        places.setdefault(point_key(point.question, point.settings, digest_of), []).append(number)
    known = store.known(places)
    for key, answer in known.items():
        yield from ((number, answer, False) for number in places[key])
    unknown = [key for key in places if key not in known]
    for key, answer in _computed({key: points[places[key][0]] for key in unknown}, ask, executor, store):
        yield from ((number, answer, number == places[key][0]) for number in places[key])


def _computed(
    points: Mapping[str, Point], ask: Ask, executor: str | Executor, store: AnswerStore
) -> Iterator[tuple[str, Answer]]:
    """Answers by key as they come; a pool whose process died is started again."""
    left, deaths = dict(points), 0
    while left:
        try:
            for chunk, results in _on_executor(left, ask, executor):
                store.keep(
                    (key, left[key].question, answer) for key, answer in zip(chunk, results, strict=True)
                )
                for key, answer in zip(chunk, results, strict=True):
                    del left[key]
                    yield key, answer
        except BrokenExecutor as error:
            deaths += 1
            if isinstance(executor, Executor) or deaths > _RESTARTS:
                raise LabError(
                    f"processes of the study keep dying ({str(error)[:200]}); {len(left):,} designs are not answered. "
                    "Run it again to go on, with executor=serial to see the cause"
                ) from None


def _on_executor(
    points: Mapping[str, Point], ask: Ask, wanted: str | Executor
) -> Iterator[tuple[list[str], list[Answer]]]:
    """Chunks of keys with their answers, as they are ready; a few are in flight for each worker."""
    waiting = deque(_chunks(points))
    with open_executor(wanted, len(waiting)) as (executor, workers):
        running: dict[Future[list[Answer]], list[str]] = {}
        ahead = 1 if isinstance(executor, SerialExecutor) else _AHEAD * workers
        try:
            while waiting or running:
                while waiting and len(running) < ahead:
                    chunk = waiting.popleft()
                    given = [(points[key].question, points[key].settings) for key in chunk]
                    running[executor.submit(ask, given)] = chunk
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield running.pop(future), future.result()
        finally:
            for future in running:
                future.cancel()


def _chunks(points: Mapping[str, Point]) -> Iterator[list[str]]:
    """Keys of one question after the other, in chunks that leave work for every processor."""
    for question in dict.fromkeys(point.question for point in points.values()):
        keys = [key for key, point in points.items() if point.question == question]
        least, most = _CHUNK.get(question, (1, 1))
        size = min(most, max(least, len(keys) // (_CHUNKS * processors())))
        yield from (keys[start : start + size] for start in range(0, len(keys), size))
