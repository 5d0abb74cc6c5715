"""Searches through a world: every order of its actions, or one order drawn by a seed."""

from __future__ import annotations

import pickle
import random
from typing import NamedTuple

from tests.simulation.database import Violation
from tests.simulation.world import Action, World


class Found(NamedTuple):
    """A broken promise, and the actions that led to it."""

    violation: Violation
    trace: list[Action]


class Explored(NamedTuple):
    """The number of worlds that were reached, and the first broken promise."""

    worlds: int
    found: Found | None


def explore(world: World, *, most: int) -> Explored:
    """Visit up to `most` reachable worlds; finish each world in which only the actions of the budget are possible."""
    seen: set[int] = set()
    waiting: list[tuple[bytes, list[Action]]] = [(world.key(), [])]
    while waiting and len(seen) < most:
        key, trace = waiting.pop()
        if hash(key) in seen:
            continue
        seen.add(hash(key))
        here = _world(key)
        for action in here.actions():
            after = _world(key)
            try:
                after.do(action)
            except Violation as violation:
                return Explored(len(seen), Found(violation, [*trace, action]))
            waiting.append((after.key(), [*trace, action]))
        try:
            if here.is_quiet():
                here.finish()
        except Violation as violation:
            return Explored(len(seen), Found(violation, [*trace, ("finish", 0, 0)]))
    return Explored(len(seen), None)


def walk(world: World, seed: int, *, steps: int) -> Found | None:
    """Take one order of actions, drawn by the seed, and finish the world."""
    draw = random.Random(seed)
    trace: list[Action] = []
    try:
        for _ in range(steps):
            actions = list(world.actions())
            if not actions:
                break
            trace.append(draw.choice(actions))
            world.do(trace[-1])
        trace.append(("finish", 0, 0))
        world.finish()
    except Violation as violation:
        return Found(violation, trace)
    return None


def _world(key: bytes) -> World:
    world: World = pickle.loads(key)
    return world
