"""Free text of a limited number of tokens, such as at most 1,000 tokens up to `</think>`.

The states of the text exist once for each number of tokens that have been written: in *layers*. An automaton over bytes does
not know where tokens end, so here it gets only two sets of these states:

- the *fresh* states, to which the text before leads, and in which no token of the text has ended;
- a copy of them, the states after one token.

A token that leads from the copy to the copy was part of the text as a whole. A token that leaves the text and enters it again
leads to a fresh state. The states after two and more tokens need no moves by bytes: they do what the states after one token do,
one layer further. So do the fresh states (`compiler.tokens.tables.layers`).

By hand, for at most 3 tokens of any text up to a full stop, without the states inside of characters: state 2 is fresh, and
state 11 is its copy. `a` leads from 2 to 2 and from 11 to 11, and the full stop leads from both to the end. In the table over
tokens, the token `aa` leads from state 2 to state 11, as one token has ended then. From state 11 it leads to layer 2, and from
there to layer 3.

Two texts with one limit may follow each other. Each is a strongly connected component, and a move from one to the other leaves
the first text.

Invariants: a state belongs to a text with a limit or it does not. So such a text and other text never begin in the same place;
this is refused. Bytes alone do not show it: in `a*` before a text of three tokens, `a` leads to states that do the same as the
middle of the text, although the text may also begin there. So the automaton over characters is checked before equal states
become one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.nested_dfa import NestedDfa, TokenLimit
from logitkit.compiler.bytes.nested_step import ByStep
from logitkit.compiler.characters.components import components
from logitkit.compiler.characters.positions import Positions
from logitkit.compiler.characters.subset import Check
from logitkit.compiler.characters.symbols import Symbol
from logitkit.compiler.nested_grammars.nested_grammar import NestedGrammar
from logitkit.compiler.nested_grammars.text_regions import with_characters
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet

__all__ = ["text_checks", "with_layers", "with_second_copies"]

OVERLAP = (
    "text with max_tokens and other text begin at the same point, so a token could belong to either; begin or end one of them "
    "with a fixed text or a special token that the other one cannot contain, or leave out max_tokens"
)


def text_checks(positions: Positions, grammar: NestedGrammar) -> list[Check]:
    """Return a check for each text with a limit, which raises `ConfigurationError` for a state that is also in other text.

    Args:
        positions: The positions of a part. Each position in a text with a limit is followed by one that reads the special token
            of this limit, and that returns to it, or to an equal position.
        grammar: The grammar.
    """
    checks: list[Check] = []
    for special_token, _, _ in grammar.token_limits:
        symbol = CharSet.single(Symbol.special_token(grammar.special_tokens.index(special_token)))
        middle: set[int] = set()
        for position, charset in enumerate(positions.charsets):
            if charset == symbol:
                middle.update(positions.follow[position])
        checks.append(partial(_check_text, frozenset(middle)))
    return checks


def _check_text(middle: frozenset[int], future: tuple[int, ...]) -> None:
    if not (middle.isdisjoint(future) or middle.issuperset(future)):
        raise ConfigurationError(OVERLAP)


def with_second_copies(dfa: NestedDfa, given: Sequence[tuple[int, int, int]], limits: Limits) -> NestedDfa:
    """Add a copy of the states of each text with a limit: the states after one token.

    Args:
        dfa: The automaton. Special tokens below `WHOLE` stand for limits. One leads from each state of the text to itself,
            another one to the end of a text that needs no marker.
        given: These two special tokens and the greatest number of tokens, for each limit.
        limits: Bounds on the number of states.

    Raises:
        ConfigurationError: Text with a limit and other text begin in one place.
        PatternTooLarge: There are too many states.
    """
    found: list[tuple[int, NDArray[np.int64], NDArray[np.int64]]] = []
    # An automaton that accepts no text has no special tokens.
    given = [limit for limit in given if limit[0] in dfa.special_tokens]
    for _, end, _ in given:
        dfa = _ending_anywhere(dfa, end)
    counts = {special_token for special_token, _, _ in given}
    others = [leads for token, leads in dfa.special_tokens.items() if token not in counts]
    for special_token, _, tokens in given:
        leads = dfa.special_tokens[special_token]
        fresh = np.flatnonzero(leads)
        # The state in which the text begins does the same as the state in its middle. Only the end of the text may differ.
        same = (dfa.step[fresh] == dfa.step[leads[fresh]]).all() and (leads[leads[fresh]] == leads[fresh]).all()
        if not same or any((other[fresh] != other[leads[fresh]]).any() for other in others):
            raise ConfigurationError(OVERLAP)
        text = np.zeros(dfa.states, bool)
        text[leads[fresh]] = True
        inside = np.flatnonzero(with_characters(dfa, text, leaving=True) & ~text)
        found.append((tokens, np.append(fresh, inside), np.append(leads[fresh], inside)))
    dfa = replace(
        dfa, special_tokens={token: leads for token, leads in dfa.special_tokens.items() if token not in counts}
    )
    token_limits = []
    for tokens, fresh, leads in found:
        region = np.unique(leads)
        if dfa.states + len(region) * tokens > limits.states:
            raise PatternTooLarge(
                f"text with max_tokens={tokens} takes {len(region)} states for each token, so more than {limits.states} in all; "
                "lower max_tokens, or pass limits=Limits(states=...) with a larger number"
            )
        later = dfa.states + np.arange(len(region))
        dfa = _with_copy(dfa, region)
        token_limits.append(TokenLimit(tokens, fresh, np.searchsorted(region, leads), later, 0))
    return replace(dfa, token_limits=tuple(token_limits))


def _ending_anywhere(dfa: NestedDfa, end: int) -> NestedDfa:
    """Let a text without a marker end in each of its states. Only a special token that is not part of it may follow."""
    special_tokens = dict(dfa.special_tokens)
    leads = special_tokens.pop(end)
    ending = np.flatnonzero(leads)
    after = leads[ending]
    if dfa.step[after].any():
        raise ConfigurationError(OVERLAP)
    for token, other in special_tokens.items():
        follows = other[after] != DEAD
        if (other[ending][follows] != DEAD).any():
            raise ConfigurationError(OVERLAP)
        special_tokens[token] = other.copy()
        special_tokens[token][ending[follows]] = other[after][follows]
    accepting = dfa.accepting.copy()
    accepting[ending] |= accepting[after]
    return replace(dfa, accepting=accepting, special_tokens=special_tokens)


def _with_copy(dfa: NestedDfa, region: NDArray[np.int64], with_moves: bool = True) -> NestedDfa:
    """Append a copy of some states. Moves within one text stay in the copy; without `with_moves`, the copy has none."""
    states = dfa.states
    moves = np.zeros((len(region), dfa.step.shape[1]), np.int32)
    special_tokens = dict.fromkeys(dfa.special_tokens, np.full(len(region), DEAD))
    if with_moves:
        copied = np.zeros(states, np.int32)
        copied[region] = states + np.arange(len(region))
        text, copy = _texts(dfa, region), dfa.by_step(copied)
        own = text.states[region]
        moves = dfa.step[region]
        moves = np.where(text.values[moves] == own[:, None], copy.values[moves], moves)
        for token, leads in dfa.special_tokens.items():
            to = leads[region]
            special_tokens[token] = np.where(text.states[to] == own, copied[to], to)
    instances = dfa.instances
    if instances is not None:
        instances = instances._replace(base_state=np.append(instances.base_state, np.zeros(len(region), np.int64)))
    return replace(
        dfa,
        step=np.concatenate([dfa.step, moves]),
        accepting=np.append(dfa.accepting, dfa.accepting[region]),
        need=np.append(dfa.need, dfa.need[region]),
        special_tokens={token: np.append(leads, special_tokens[token]) for token, leads in dfa.special_tokens.items()},
        instances=instances,
    )


def _texts(dfa: NestedDfa, region: NDArray[np.int64]) -> ByStep:
    """Return the number of the text that each state of a region is in, from 1 on; other states, calls and ends have 0."""
    place = dfa.by_step(np.zeros(dfa.states, np.int64))
    place.states[region] = 1 + np.arange(len(region))
    led = np.concatenate([dfa.step[region], *[leads[region, None] for leads in dfa.special_tokens.values()]], axis=1)
    # Texts are components of a graph. `components` begins at node 0, which therefore leads to all states of the region.
    moves = [dict.fromkeys(range(1, 1 + len(region)), 0)]
    moves += [dict.fromkeys(targets, 0) for targets in map(np.unique, place.values[led])]
    for targets in moves:
        targets.pop(0, None)
    number = np.zeros(len(moves), np.int64)
    for text, states in enumerate(components(moves), 1):
        number[states] = text
    number[0] = 0
    return dfa.by_step(number[place.states])


def with_layers(dfa: NestedDfa) -> NestedDfa:
    """Append the states of all layers after the first one. They have no moves by bytes."""
    found = list(dfa.token_limits)
    for place, limit in enumerate(found):
        found[place] = limit._replace(first=dfa.states)
        dfa = _with_copy(dfa, np.tile(limit.later, limit.most - 1), with_moves=False)
    return replace(dfa, token_limits=tuple(found))
