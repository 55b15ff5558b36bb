"""A nondeterministic pushdown automaton over bytes: the automata of the rules side by side, with calls and returns.

A configuration is a state and a stack of the states where calls go on. Without reading, it may call (push), return (pop) where
its rule may end, or take on a condition on the next character. A call after which nothing follows pushes nothing.

Conditions: the texts that must not come next are an automaton of their own, in which a byte after which none of them is
possible leads to `free`. A configuration carries the set of states of such automata that have not come to `free`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.compiler.bytes.in_utf8 import to_bytes
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.compiler.characters.symbols import Symbol
from logitkit.compiler.grammars.rule_automata import FORBIDDEN, Condition, RuleAutomata
from logitkit.limits import Limits

__all__ = ["TAIL", "StackMachine", "stack_machine"]

# Stands for the frame of a call at the end of a rule, which pushes nothing.
TAIL = -1


@dataclass(frozen=True, eq=False, slots=True)
class StackMachine:
    """The automata of all rules.

    Args:
        step: [S, K] int32, where each state goes with each class of bytes.
        byte_class: [256] the class of each byte.
        moves: For each state, where it goes and with which symbols, as a mask; those of special tokens included.
        calls: For each state, the start of the called rule, and where the caller goes on, or `TAIL`.
        looks: For each state, the first state of a condition, and where it leads to.
        final: Whether the rule may end in each state.
        rule: The rule of each state: the number of its automaton; 0 is the whole text. States inside characters have it too.
        symbols: Number of symbols, the end of the text included.
        free: The state after a condition that is met.
        start: The state in which the text begins.
    """

    step: NDArray[np.int32]
    byte_class: NDArray[np.int64]
    moves: list[dict[int, int]]
    calls: list[list[tuple[int, int]]]
    looks: list[list[tuple[int, int]]]
    final: list[bool]
    rule: list[int]
    symbols: int
    free: int
    start: int

    @property
    def end(self) -> int:
        """The end of the text, as a mask."""
        return 1 << self.symbols - 1

    def ends_only(self, state: int) -> bool:
        """Whether a state can do nothing but end its rule."""
        return self.final[state] and not (self.moves[state] or self.calls[state] or self.looks[state])


def stack_machine(
    rules: RuleAutomata, heads: dict[int, SymbolDfa], special_tokens: int, limits: Limits
) -> StackMachine:
    """Put the automata side by side and write their characters as bytes.

    Args:
        rules: The alphabet and what its special symbols stand for.
        heads: The automata, the start's first.
        special_tokens: Number of special tokens.
        limits: Bounds on the result.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    called = {callee for dfa in heads.values() for _, callee, _ in rules.calls(dfa)}
    main = _whole_text(rules, heads, rules.start in called)
    base: dict[int, int] = {}
    moves: list[dict[int, int]] = []
    special: list[list[tuple[int, int]]] = []
    final: list[bool] = []
    rule: list[int] = []
    for number, (name, dfa) in enumerate([(-1, main), *((r, d) for r, d in heads.items() if r in called)]):
        base[name] = first = len(moves)
        for state, row in enumerate(dfa.moves):
            characters: dict[int, int] = {}
            others = []
            for t, mask in row.items():
                text, symbols = rules.split(mask)
                if text:
                    characters[first + t] = text
                others += [(symbol, first + t + FIRST_STATE) for symbol in symbols]
            moves.append(characters)
            special.append(others)
            final.append(dfa.accepting[state])
            rule.append(number)
    conditions: list[int] = []
    free = len(moves) + sum(map(len, rules.looks))
    for look in rules.looks:
        conditions.append(len(moves))
        moves += _condition(look, len(moves), free, (1 << rules.alphabet.size) - 2)
    moves.append({})
    limits.check_states(len(moves))
    written = to_bytes(SymbolDfa(moves, [False] * len(moves)), rules.alphabet, limits)
    step, ends = written.step, [False] * FIRST_STATE + final
    states, classes = step.shape
    moves = _as_masks(step, limits)
    none: list[tuple[int, int]] = []
    calls, looks = [none] * states, [none] * states
    ends += [False] * (states - len(ends))
    rule_of = [0] * FIRST_STATE + rule
    rule_of += [0] * (states - len(rule_of))
    for at, found in enumerate(special):
        state = at + FIRST_STATE
        for symbol, t in found:
            number = Symbol.number(symbol)
            if Symbol.is_call(symbol):
                last = rule[at] and ends[t] and not (moves[t] or special[t - FIRST_STATE])
                calls[state] = [*calls[state], (base[number] + FIRST_STATE, TAIL if last else t)]
            elif Symbol.is_special_token(symbol):
                moves[state][t] = moves[state].get(t, 0) | 1 << classes + number
            else:
                looks[state] = [*looks[state], (conditions[number] + FIRST_STATE, t)]
    free += FIRST_STATE
    return StackMachine(
        step, written.byte_class, moves, calls, looks, ends, rule_of, classes + special_tokens + 1, free, FIRST_STATE
    )


def _as_masks(step: NDArray[np.int32], limits: Limits) -> list[dict[int, int]]:
    """Return the moves of a table: for each state its targets, each with the symbols that lead there as a mask."""
    moves: list[dict[int, int]] = [{} for _ in step]
    sources, read = np.nonzero(step)
    limits.spend(2 * len(sources))
    for source, symbol, target in zip(sources.tolist(), read.tolist(), step[sources, read].tolist(), strict=True):
        moves[source][target] = moves[source].get(target, 0) | 1 << symbol
    return moves


def _condition(look: Condition, first: int, free: int, every: int) -> list[dict[int, int]]:
    """Return the moves of a condition: after other characters than those of the texts that must not come next, it is met."""
    found: list[dict[int, int]] = []
    for row in look:
        left, moves = every, dict[int, int]()
        for mask, target in row:
            left &= ~mask
            if target != FORBIDDEN:
                moves[first + target] = moves.get(first + target, 0) | mask
        found.append(moves | ({free: left} if left else {}))
    return found


def _whole_text(rules: RuleAutomata, heads: dict[int, SymbolDfa], is_called: bool) -> SymbolDfa:
    """Return the automaton of the whole text, which may be empty."""
    if is_called:
        # A call of the start, rather than a second copy of it.
        bit = rules.call_bits()[rules.start]
        return SymbolDfa([{1: bit}, {}], [rules.nullable, True])
    if rules.start not in heads:
        return SymbolDfa([{}], [rules.nullable])
    # The start is a state of its own. Otherwise, where the rule has the empty text, any text that comes back to its first state
    # could end there.
    whole = heads[rules.start]
    moves = [{t + 1: mask for t, mask in row.items()} for row in whole.moves]
    return SymbolDfa([moves[0], *moves], [rules.nullable, *whole.accepting])
