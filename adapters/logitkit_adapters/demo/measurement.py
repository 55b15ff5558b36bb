"""What a constraint costs: its compilation, and each step of `generate` with it beside a bare one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from statistics import median
from time import perf_counter, thread_time

from logitkit import Limits, Vocabulary
from logitkit_adapters.demo.cases import Case, Constraint
from logitkit_adapters.demo.engine import Engine

__all__ = ["StepCost", "compile_seconds", "step_cost"]

# Slow machines and hard patterns get fewer runs, so that the demo stays short.
_COMPILATIONS, _COMPILE_BUDGET = 9, 1.0
_compilations = count(1)
_PAIRS, _PAIR_BUDGET = 7, 3.0


@dataclass(frozen=True)
class StepCost:
    """Seconds a step, as `Generation` has them: medians over runs of equal length, taken in turns.

    Args:
        steps: Forward passes of each run.
        bare: A step of `generate` without a processor.
        constrained: A step of `generate` with it.
        hook: A call of its hook, which is part of that.
        rows: Sequences that a step extends: prompts times beams.
    """

    steps: int
    bare: float
    constrained: float
    hook: float
    rows: int


def compile_seconds(constraint: Callable[[Vocabulary, Limits], Constraint], vocabulary: Vocabulary) -> float:
    """Measure from a pattern, a list of options or a schema to its automaton over tokens.

    Args:
        constraint: Makes the constraint for a vocabulary within limits.
        vocabulary: Its trie, which all constraints share, is made before.

    Returns:
        Seconds of CPU time, the median of several compilations.
    """
    _ = vocabulary.trie
    defaults = Limits()
    times: list[float] = []
    while len(times) < _COMPILATIONS and (len(times) < 3 or sum(times) < _COMPILE_BUDGET):
        # What was compiled is kept, for equal limits; these differ in a way that does not matter.
        limits = Limits(states=defaults.states, work=defaults.work + next(_compilations))
        start = thread_time()
        constraint(vocabulary, limits)
        times.append(thread_time() - start)
    return median(times)


def step_cost(engine: Engine, case: Case, constraint: Constraint, progress: Callable[[str], None]) -> StepCost:
    """Measure a step of `generate` with a constraint beside one without.

    Args:
        engine: A loaded one.
        case: The prompts, the number of beams and of tokens.
        constraint: What the case makes for the engine's vocabulary.
        progress: Told which pair of runs begins.

    Returns:
        The medians.
    """
    bare: list[float] = []
    constrained: list[float] = []
    hook: list[float] = []
    begun, steps, pairs = perf_counter(), 0, 0
    while pairs < _PAIRS and (pairs < 3 or perf_counter() - begun < _PAIR_BUDGET):
        progress(f"measuring, pair {pairs + 1} of at most {_PAIRS}")
        held = engine.generate(case.prompts, constraint, max_new_tokens=case.max_new_tokens, beams=case.beams)
        steps = held.steps
        free = engine.generate(case.prompts, max_new_tokens=steps, beams=case.beams, past_eos=True)
        constrained += held.step_seconds
        hook += held.hook_seconds
        bare += free.step_seconds
        pairs += 1
    rows = len(case.prompts) * case.beams
    return StepCost(steps, median(bare), median(constrained), median(hook), rows)
