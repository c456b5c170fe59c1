"""Causes that several ill parts have in common: a job, a node, a leaf switch, or the storage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from podsim.monitoring.panels import Key, Panel
from podsim.monitoring.peer_scores import Answer, Truths
from podsim.monitoring.roles import Roles

Ill = tuple[str, Key, Sequence[Answer]]
"""(the kind of part, the part, its symptoms)"""
_MOST, _TOGETHER = 0.6, 0.5
"""The share of a group's parts that make it ill, and the share of the time in which they are ill at once."""


def joined(ills: Sequence[Ill], roles: Roles, panels: Mapping[str, Sequence[Panel]]) -> list[Ill]:
    """The ill parts, with one for each common cause in place of its parts."""
    kept, alike = list[Ill](), dict[tuple[str, str, str], list[Ill]]()
    for ill in ills:
        symptom = ill[2][0][0]
        alike.setdefault((ill[0], symptom.finding, symptom.metric), []).append(ill)
    for members in alike.values():
        left = sorted(members, key=lambda ill: -int(ill[2][0][1].sum()))
        while left:
            shows = left[0][2][0][1]
            near = [ill for ill in left if (ill[2][0][1] & shows).sum() >= _TOGETHER * shows.sum()]
            for cause in _causes(near, shows, roles, panels):
                inside = [ill for ill in near if ill[1] in cause[2]]
                if len(inside) > 1 and len(inside) >= _MOST * len(cause[2]):
                    kept.append((cause[0], cause[1], _of_all(inside)))
                    left = [ill for ill in left if ill not in inside]
                    break
            else:
                kept.append(left.pop(0))
    return kept


def _of_all(ills: Sequence[Ill]) -> Sequence[Answer]:
    """The symptoms of the first part, at the times of all."""
    shows = np.logical_or.reduce([ill[2][0][1] for ill in ills])
    symptom, _, values = ills[0][2][0]
    says = f"{symptom.says}, as {len(ills)} parts"
    return [(symptom.model_copy(update={"says": says}), shows, values), *ills[0][2][1:]]


def _causes(
    ills: Sequence[Ill], shows: Truths, roles: Roles, panels: Mapping[str, Sequence[Panel]]
) -> Iterator[tuple[str, Key, set[Key]]]:
    """What the first part shares with others: (the kind of part, the part, all that it has)."""
    part, key, answers = ills[0]
    every = {other for panel in panels.get(part, ()) for other in panel.keys}
    node = {other for other in every if other[0] == key[0]}
    at = int(np.flatnonzero(shows)[0])
    if part == "gpu" and answers[0][0].test != "absent":
        job = roles.by_gpu[key][at]
        members = {other for other, jobs in roles.by_gpu.items() if job and jobs[at] == job}
        if len({host for host, _ in members}) >= len({ill[1][0] for ill in ills}):
            yield "job", ("", job), members
    elif part == "port":
        leaves = {
            other: names[at] for panel in panels[part] for other, names in panel.groups.items() if names[at]
        }
        leaf = leaves.get(key, "")
        yield "leaf", ("", leaf), {other for other, name in leaves.items() if name == leaf}
    elif part == "disk" and len(every) > len(node):
        yield "storage", ("", "storage"), every
    if len(node) > 2:
        yield "node", (key[0], ""), node
