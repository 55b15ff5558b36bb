"""The cost of a constraint: its compilation, and a step of `generate` with and without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from statistics import median
from time import perf_counter, thread_time

from logitkit import Limits, Vocabulary
from logitkit_adapters.demo.cases import Constraint, DemoCase
from logitkit_adapters.demo.engine import Engine

__all__ = ["StepCost", "compile_seconds", "step_cost"]

# Slow machines and hard patterns get fewer runs, to keep the demo short.
_COMPILATIONS, _COMPILE_BUDGET = 9, 1.0
_compilations = count(1)
_PAIRS, _PAIR_BUDGET = 7, 3.0


@dataclass(frozen=True)
class StepCost:
    """Seconds per step, as in `DemoGeneration`: medians over runs of equal length, with and without the constraint in turns.

    Args:
        steps: The number of forward passes of each run.
        bare: A step of `generate` without a processor.
        constrained: A step of `generate` with it.
        hook: A call of its hook, included in the step.
        rows: The number of sequences that a step extends: prompts times beams.
    """

    steps: int
    bare: float
    constrained: float
    hook: float
    rows: int


def compile_seconds(constraint: Callable[..., Constraint], vocabulary: Vocabulary) -> float:
    """Measure the time from a pattern, a list of options or a schema to its automaton over tokens.

    Args:
        constraint: Builds the constraint for a vocabulary, within `limits`.
        vocabulary: The vocabulary. Its trie, which all constraints share, is built before the measurement.

    Returns:
        CPU seconds, the median of several compilations.
    """
    _ = vocabulary.trie
    defaults = Limits()
    times: list[float] = []
    while len(times) < _COMPILATIONS and (len(times) < 3 or sum(times) < _COMPILE_BUDGET):
        # Compiled automata are cached by their limits; these differ slightly, to compile each time.
        limits = Limits(states=defaults.states, work=defaults.work + next(_compilations))
        start = thread_time()
        constraint(vocabulary, limits=limits)
        times.append(thread_time() - start)
    return median(times)


def step_cost(engine: Engine, case: DemoCase, constraint: Constraint, progress: Callable[[str], None]) -> StepCost:
    """Measure a step of `generate` with a constraint and without.

    Args:
        engine: A loaded engine.
        case: The case, which defines the prompts, beams and tokens.
        constraint: The case's constraint for the engine's vocabulary.
        progress: Called with a message at the start of each pair of runs.

    Returns:
        The medians.
    """
    bare: list[float] = []
    constrained: list[float] = []
    hook: list[float] = []
    deadline, steps = perf_counter() + _PAIR_BUDGET, 0
    for pair in range(1, _PAIRS + 1):
        if pair > 3 and perf_counter() > deadline:
            break
        progress(f"measuring, pair {pair} of at most {_PAIRS}")
        held = engine.generate(case, constraint)
        steps = held.steps
        free = engine.generate(case, steps=held.steps)
        constrained += held.step_seconds
        hook += held.hook_seconds
        bare += free.step_seconds
    rows = len(case.prompts) * case.beams
    return StepCost(steps, median(bare), median(constrained), median(hook), rows)
