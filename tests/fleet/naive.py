"""A slow simulator of a queue, written anew from what the policies say: the oracle of podsim.fleet on small traces.

It keeps GPUs as sets of (node, number), plans with full scans, and steps from event to event without any state that it
could compute instead.  It knows the order of ties (submission), the placement rules, and nothing of the kernels.
"""

from __future__ import annotations

import math

import numpy as np

EPS = 1e-7


def place(free, size, leaf, rule, gpus):  # noqa: PLR0911, PLR0912
    """{node: GPUs} for a job, or None; `free` is a list by node."""
    nodes = range(len(free))
    if rule == "spread":
        if sum(free) < gpus:
            return None
        whole = [n for n in nodes if free[n] >= gpus]
        if whole:
            return {min(whole, key=lambda n: (free[n], n)): gpus}
        taken, need = {}, gpus
        for n in sorted(nodes, key=lambda n: (-free[n], n)):
            if need and free[n] > 0:
                taken[n] = min(free[n], need)
                need -= taken[n]
        return taken
    if gpus <= size:
        able = [n for n in nodes if free[n] >= gpus]
        if not able:
            return None
        return {able[0] if rule == "first-fit" else min(able, key=lambda n: (free[n], n)): gpus}
    whole, rest = divmod(gpus, size)
    idle = [n for n in nodes if free[n] == size]
    if len(idle) < whole:
        return None
    if rule == "first-fit":
        chosen = idle[:whole]
    else:
        chosen = []
        while len(chosen) < whole:
            left = {}
            for n in idle:
                if n not in chosen:
                    left.setdefault(leaf[n], []).append(n)
            need = whole - len(chosen)
            tight = [k for k in left if len(left[k]) >= need]
            best = (
                min(tight, key=lambda k: (len(left[k]), k))
                if tight
                else min(left, key=lambda k: (-len(left[k]), k))
            )
            chosen += left[best][:need]
    taken = dict.fromkeys(chosen, size)
    if rest:
        able = [n for n in nodes if n not in taken and free[n] >= rest]
        if not able:
            return None
        if rule == "first-fit":
            taken[able[0]] = rest
        else:
            taken[min(able, key=lambda n: (free[n], leaf[n] != leaf[chosen[-1]], n))] = rest
    return taken


class Naive:
    """One queue."""

    def __init__(self, jobs, machine, policy):
        self.jobs, self.machine, self.policy = jobs, machine, policy
        self.size = machine.gpus_per_node
        per = machine.nodes_per_leaf
        self.leaf = [n // per if per else 0 for n in range(machine.nodes)]
        n = len(jobs)
        self.left = [float(s) for s in jobs.seconds]
        self.attained = [0.0] * n
        self.where = [None] * n
        self.since = [0.0] * n
        self.lead = [0.0] * n
        self.speed = [1.0] * n
        self.level = [0] * n
        self.entered = [0.0] * n
        self.stopped = [-1.0] * n
        self.released = [None] * n
        self.done = [None] * n
        self.runs = [0] * n
        self.spans = []
        self.usage = np.zeros(len(jobs.users))
        self.charged = 0.0
        self.plan = {}

    def free(self, without=()):
        left = [self.size] * self.machine.nodes
        for j, taken in enumerate(self.where):
            if taken is not None and j not in without:
                for n, count in taken.items():
                    left[n] -= count
        return left

    def running(self):
        return [j for j, taken in enumerate(self.where) if taken is not None]

    def waiting(self):
        return [
            j
            for j in range(len(self.jobs))
            if self.released[j] is not None and self.done[j] is None and self.where[j] is None
        ]

    def remaining(self, j, now):
        if self.where[j] is None:
            return self.left[j]
        return max(self.left[j] - max(now - self.since[j] - self.lead[j], 0.0) * self.speed[j], 0.0)

    def held(self, j, now):
        run = (now - self.since[j]) * int(self.jobs.gpus[j]) if self.where[j] is not None else 0.0
        return self.attained[j] + run

    def end(self, j):
        return self.since[j] + self.lead[j] + self.left[j] / self.speed[j]

    def leads(self, j):
        return self.policy.start if self.runs[j] == 0 else self.policy.checkpoint + self.policy.restart

    def expected(self, j, speed):
        done = float(self.jobs.seconds[j]) - self.left[j]
        return self.leads(j) + max(float(self.jobs.limit[j]) - done, self.left[j] / speed)

    def speed_of(self, j, taken):
        leaves = {self.leaf[n] for n in taken}
        return float(self.jobs.slow[j, 2 if len(leaves) > 1 else int(len(taken) > 1)])

    def start(self, j, taken, now):
        self.speed[j] = self.speed_of(j, taken)
        due = now + self.expected(j, self.speed[j])
        self.lead[j] = self.leads(j)
        self.where[j], self.since[j] = taken, now
        self.due = getattr(self, "due", {}) | {j: due}
        self.runs[j] += 1

    def stop(self, j, now):
        self.spans.append((j, self.since[j], now))
        left, held = self.remaining(j, now), self.held(j, now)
        self.left[j], self.attained[j], self.where[j] = left, held, None
        self.stopped[j] = now

    def key(self, j, now):  # noqa: PLR0911
        jobs, policy = self.jobs, self.policy
        guess = float(jobs.guess[j])
        left = max(self.remaining(j, now) + guess - float(jobs.seconds[j]), 0.0)
        gpus = int(jobs.gpus[j])
        if policy.order == "first come":
            return self.released[j]
        if policy.order == "shortest":
            return guess
        if policy.order == "smallest":
            return guess * gpus
        if policy.order == "shortest remaining":
            return left
        if policy.order == "smallest remaining":
            return left * gpus
        if policy.order == "least attained":
            return self.held(j, now)
        if policy.order == "by level":
            held = self.held(j, now)
            level = sum(held >= bound * (1 - 1e-12) for bound in policy.levels)
            if level != self.level[j]:
                self.level[j], self.entered[j] = level, now
            last = self.entered[j]
            if self.where[j] is not None and last < now:  # goes on
                return (self.level[j], 0, max(self.since[j], last))
            if self.where[j] is None and self.stopped[j] > last:  # was stopped at this level
                return (self.level[j], 1, -self.stopped[j])
            return (self.level[j], 2, last)
        if policy.order == "worst off":
            held = self.held(j, now)
            return -(now - float(jobs.submit[j])) / held if held else -math.inf
        if policy.order == "worst off for its length":
            return -round(now - float(jobs.submit[j]) + left - guess, 6) / max(guess, 1e-9)
        total = self.usage.sum()
        share = 1.0 / len(jobs.users)
        used = self.usage[jobs.user[j]] / total if total > 0 else 0.0
        age = min((now - self.released[j]) / policy.max_age, 1.0)
        return -(
            policy.age * age + policy.fair * 2.0 ** (-used / share) + policy.big * gpus / self.machine.gpus
            + policy.site * float(jobs.rank[j])
        )  # fmt: skip

    def charge(self, now):
        decay = 0.5 ** ((now - self.charged) / self.policy.half_life)
        rate = np.zeros(len(self.usage))
        for j in self.running():
            rate[self.jobs.user[j]] += self.jobs.gpus[j]
        self.usage = self.usage * decay + rate * self.policy.half_life / math.log(2) * (1 - decay)
        self.charged = now

    def decide(self, now):
        if self.policy.preempt:
            self.anew(now)
        elif self.policy.backfill == "conservative":
            self.reserve(now)
        else:
            self.in_order(now)

    def in_order(self, now):
        queue = sorted(self.waiting(), key=lambda j: (self.key(j, now), j))
        head = None
        looked = 0
        for j in queue:
            gpus = int(self.jobs.gpus[j])
            taken = place(self.free(), self.size, self.leaf, self.machine.placement, gpus)
            if head is None:
                if taken is not None:
                    self.start(j, taken, now)
                    continue
                head = j
                if self.policy.backfill == "strict":
                    return
                ahead, when = self.room_for_head(head, now)
                continue
            looked += 1
            if self.policy.depth and looked > self.policy.depth:
                return
            if taken is None:
                continue
            if self.policy.backfill == "easy" and now + self.expected(j, self.speed_of(j, taken)) > when:
                less = [count - taken.get(n, 0) for n, count in enumerate(ahead)]
                if (
                    place(less, self.size, self.leaf, self.machine.placement, int(self.jobs.gpus[head]))
                    is None
                ):
                    continue
                ahead = less
            self.start(j, taken, now)

    def room_for_head(self, head, now):
        """(free GPUs by node when the head can start at the latest, that time)."""
        gone = set()
        for when in sorted({max(self.due[j], now) for j in self.running()}):
            gone = {j for j in self.running() if max(self.due[j], now) <= when}
            left = self.free(without=gone)
            if (
                place(left, self.size, self.leaf, self.machine.placement, int(self.jobs.gpus[head]))
                is not None
            ):
                return left, when
        raise AssertionError

    def anew(self, now):
        jobs, policy = self.jobs, self.policy
        active = sorted(self.waiting() + self.running(), key=lambda j: (self.key(j, now), j))
        settled = []
        blocked = False
        for j in active:
            gpus = int(jobs.gpus[j])
            if blocked and policy.backfill == "strict":
                if self.where[j] is not None:
                    self.stop(j, now)
                continue
            later = [k for k in self.running() if k not in settled and k != j]
            left = self.free(without=later)
            if self.where[j] is not None:
                if min(left[n] for n in self.where[j]) >= 0:
                    settled.append(j)
                    continue
                self.stop(j, now)
                left = self.free(without=later)
            others = self.free()
            taken = place(
                [max(count, -1) for count in others], self.size, self.leaf, self.machine.placement, gpus
            )
            if taken is None or sum(others) < gpus:
                taken = place(left, self.size, self.leaf, self.machine.placement, gpus)
            if taken is None:
                blocked = True
                continue
            self.start(j, taken, now)
            settled.append(j)

    def profile_fits(self, gpus, start, length, total):
        """Whether so many GPUs are free all the while, by due times of those that run and by reservations."""
        taken = [(self.since[j], self.due[j], int(self.jobs.gpus[j])) for j in self.running()]
        taken += [(t, t + d, int(self.jobs.gpus[k])) for k, (t, d) in self.plan.items()]
        times = [start] + [t for span in taken for t in span[:2] if start < t < start + length]
        return all(sum(g for a, b, g in taken if a <= t < b) + gpus <= total for t in times)

    def reserve(self, now):
        total = self.machine.gpus
        queue = sorted(self.waiting(), key=lambda j: (self.key(j, now), j))
        most = self.policy.depth + 1 if self.policy.depth else len(queue)
        order = [j for place, j in enumerate(queue) if (self.early if j in self.plan else place < most)]
        for j in order:
            self.plan.pop(j, None)
            length = self.expected(j, float(self.jobs.slow[j, 0]))
            ends = [self.due[k] for k in self.running()] + [
                x for t, d in self.plan.values() for x in (t, t + d)
            ]
            for t in sorted({now, *(x for x in ends if x > now)}):
                if self.profile_fits(int(self.jobs.gpus[j]), t, length, total):
                    self.plan[j] = (t, length)
                    break
        for j in queue:
            if j in self.plan and self.plan[j][0] <= now:
                taken = place(
                    self.free(), self.size, self.leaf, self.machine.placement, int(self.jobs.gpus[j])
                )
                assert taken is not None
                self.start(j, taken, now)
                del self.plan[j]

    def run(self):  # noqa: PLR0912
        jobs, policy = self.jobs, self.policy
        submit = [float(t) for t in jobs.submit]
        came = [False] * len(jobs)
        now, looked, changed = 0.0, 0.0, False
        while any(end is None for end in self.done):
            want = now if changed else math.inf
            if not changed and self.waiting():
                if policy.refresh:
                    want = min(want, looked + policy.refresh)
                if policy.levels:
                    for j in self.running():
                        later = policy.levels[self.level[j] :]
                        if later:
                            fall = self.since[j] + (later[0] - self.attained[j]) / int(jobs.gpus[j])
                            want = min(want, max(fall, looked + 1e-6))
                if self.plan:
                    want = min(want, *(t for t, _ in self.plan.values()))
            if policy.interval and want < math.inf:
                want = math.ceil(want / policy.interval - 1e-9) * policy.interval
            times = [
                want,
                *(t for t, here in zip(submit, came, strict=True) if not here),
                *(self.end(j) for j in self.running()),
            ]
            now = min(times)
            self.charge(now)
            self.early = False
            for j in self.running():
                if self.end(j) <= now:
                    self.early |= self.due[j] > now
                    self.spans.append((j, self.since[j], now))
                    self.where[j], self.done[j], changed = None, now, True
            for j in range(len(jobs)):
                came[j] |= submit[j] <= now
                ready = all(self.done[p] is not None for p in jobs.after.get(j, ()))
                if came[j] and ready and self.released[j] is None:
                    self.released[j], self.entered[j], changed = now, now, True
            at_tick = not policy.interval or abs(now / policy.interval - round(now / policy.interval)) < 1e-9
            if (changed and at_tick) or now >= want:
                self.decide(now)
                changed, looked = False, now
        return np.array(self.done), sorted(self.spans, key=lambda span: (span[1], span[0]))
