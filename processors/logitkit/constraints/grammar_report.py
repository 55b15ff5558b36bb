"""The size and kind of a compiled grammar."""

from __future__ import annotations

from typing import NamedTuple

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.runtime.walk import random_walk

__all__ = ["GrammarReport", "report_of"]


class GrammarReport(NamedTuple):
    """The size and kind of a compiled grammar.

    Args:
        deterministic: Whether one stack per row is enough.
        configurations: The most stacks that a row keeps: 1 if the grammar is deterministic.
        most_alive: The most stacks that a text had at once, in some random texts.
        mean_alive: Their mean number.
        states: Number of states.
        frames: Number of frames that may be on a stack; 0 if the grammar is regular.
        pops: The maximum number of frames that one token pops.
        depth: The maximum number of frames on a stack.
        nbytes: Size of the tables in bytes.
    """

    deterministic: bool
    configurations: int
    most_alive: int
    mean_alive: float
    states: int
    frames: int
    pops: int
    depth: int
    nbytes: int


def report_of(made: TokenAutomaton, configurations: int) -> GrammarReport:
    """Return the report of an automaton whose rows have up to some stacks."""
    layers = (made, *made.layers)
    alive = random_walk(made) if made.layers else [1]
    return GrammarReport(
        not made.layers,
        configurations if made.layers else 1,
        min(max(alive), configurations),
        sum(min(places, configurations) for places in alive) / len(alive),
        made.states - made.nesting.frames - FIRST_STATE,
        made.nesting.frames,
        max(layer.nesting.pops for layer in layers),
        made.nesting.max_depth,
        sum(layer.nbytes for layer in layers) + made.class_of.nbytes,
    )
