"""Pushdown automata that look ahead, by hand and at random, and what they do with one text."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.pushdown_dfa import NEVER, PushdownDfa
from logitkit.compiler.bytes.pushdown_step import POP, PushdownStep
from logitkit.compiler.tokens.grammar_tokens import grammar_automaton
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.limits import DEFAULT_LIMITS
from logitkit.runtime.constraint import Constraint
from logitkit.runtime.shared import shared_by
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = [
    "DANGLING",
    "POWERS",
    "RIGHT_NESTED",
    "SUM",
    "Follower",
    "Pushdown",
    "accepts",
    "after_pop",
    "random_pushdown",
    "run",
    "table",
]

# A row of `table`: what each symbol does.
Rows = dict[str, dict[str, "int | str | tuple[tuple[int, ...], str]"]]


@dataclass(frozen=True)
class Pushdown(Constraint):
    """The texts of a pushdown automaton."""

    dfa: PushdownDfa
    vocabulary: Vocabulary
    max_depth: int = 64

    def __post_init__(self) -> None:
        key = (
            Pushdown,
            *(repr(getattr(self.dfa, name)) for name in ("special_tokens", "start", "pushed")),
            self.max_depth,
        )
        key += tuple(
            [getattr(self.dfa, name).tobytes() for name in ("step", "byte_class", "target", "return_state", "need")]
        )
        object.__setattr__(self, "automaton", shared_by(self.vocabulary).automaton(key, self._compile))

    @property
    def may_nest(self) -> bool:
        return True

    def _compile(self) -> TokenAutomaton:
        return grammar_automaton(self.dfa, self.vocabulary, DEFAULT_LIMITS, "the grammar", max_depth=self.max_depth)


def table(
    rows: Rows,
    behind: dict[tuple[str, int], str],
    frames: int,
    special_tokens: Sequence[int] = (),
    need: Sequence[str] = (),
) -> PushdownDfa:
    """Return an automaton with named states. In a row, a symbol is a character, `#n` is special token n and `$` is the end.

    Args:
        rows: For each state, the first of which is the start, what symbols do: another state, "POP", or frames and a state.
        behind: The state after a state and a frame that it pops.
        frames: Number of frames.
        special_tokens: The token ids of the special tokens.
        need: States that need one more frame, each as often as it needs one.
    """
    characters = sorted({symbol for row in rows.values() for symbol in row if len(symbol) == 1 and symbol != "$"})
    symbols = ["", *characters, *(f"#{special_token}" for special_token in special_tokens), "$"]
    state = {"FINISHED": 1, **{name: 2 + i for i, name in enumerate(rows)}}
    step = np.zeros((len(rows) + 2, len(symbols)), np.int32)
    moves: dict[tuple[tuple[int, ...], str], int] = {}
    for name, row in rows.items():
        for symbol, does in row.items():
            if isinstance(does, tuple):
                number = PushdownStep.push(moves.setdefault(does, len(moves)))
            else:
                number = POP if does == "POP" else state[str(does)]
            step[state[name], symbols.index(symbol)] = number
    byte_class = np.zeros(256, np.int64)
    for number, character in enumerate(characters, 1):
        byte_class[ord(character)] = number
    after = sorted((state[name], frame, state[to]) for (name, frame), to in behind.items())
    return PushdownDfa(
        step,
        byte_class,
        tuple(special_tokens),
        2,
        tuple(pushed for pushed, _ in moves),
        np.array([state[to] for _, to in moves], np.int64),
        frames,
        np.array(after, np.int64).reshape(-1, 3),
        np.array([need.count(name) for name in ("DEAD", *state)], np.int64),
    )


SUM = table(
    {
        "start": {"1": "item", "(": ((0,), "start")},
        "item": {"+": "start", ")": "POP", "$": "FINISHED"},
        "after": {")": "item"},
    },
    {("item", 0): "after"},
    1,
)
"""`sum ::= item ("+" item)*`, `item ::= "1" | "(" sum ")"`."""

POWERS = table(
    {
        "start": {"x": ((0,), "start"), "z": "tail"},
        "tail": {"y": "POP", "$": "POP"},
        "y": {"y": "tail", "$": "POP"},
        "bottom": {"$": "FINISHED"},
        "first": {"x": ((1,), "start")},
    },
    {("tail", 0): "y", ("y", 0): "y", ("tail", 1): "y", ("y", 1): "bottom"},
    2,
)
"""`x^n z y^m` with m <= n; it begins inside of frame 1, so `first` is its start."""

DANGLING = table(
    {
        "start": {"i": ((0,), "start"), "s": "done"},
        "done": {"e": "POP", ";": "POP", "$": "FINISHED"},
        "else": {"e": "start", ";": "POP"},
        "next": {";": "start", "e": "POP"},
    },
    {("done", 0): "else", ("else", 0): "next", ("next", 0): "else"},
    1,
)
"""Statements with `if` and `else`, where an `e` or a `;` may pop any number of frames."""

RIGHT_NESTED = table(
    {
        "start": {"(": ((0, 1), "in"), "a": "done"},
        "in": {"a": "in", "[": ((1,), "in"), ")": "POP", "#6": "in"},
        "close": {")": "shut"},
        "shut": {"a": "shut", ")": "POP", "$": "POP"},
        "last": {")": "done", "$": "FINISHED"},
        "done": {"$": "FINISHED", "#6": "done"},
    },
    {("in", 1): "close", ("shut", 1): "close", ("shut", 0): "last"},
    2,
    special_tokens=(6,),
)
"""Moves that push two frames, ends of the text that pop one, and a special token."""


def accepts(dfa: PushdownDfa, text: bytes, max_depth: int = NEVER) -> bool:
    """Whether the whole text is in the language, with at most `max_depth` frames on the stack at any time."""
    follower = Follower(dfa, max_depth)
    places = {(dfa.start, tuple[int, ...]())}
    for symbol in [*dfa.byte_class[list(text)].tolist(), dfa.end]:
        places = follower.after(places, symbol)
    return bool(places)


class Follower:
    """Follows several stacks of an automaton, symbol by symbol."""

    def __init__(self, dfa: PushdownDfa, max_depth: int = NEVER) -> None:
        self.dfa, self.max_depth, self.return_state = dfa, max_depth, after_pop(dfa)
        self.further: dict[tuple[int, int], list[int]] = {}
        for state, symbol, does in dfa.further.tolist():
            self.further.setdefault((state, symbol), []).append(does)

    def after(self, places: Iterable[tuple[int, tuple[int, ...]]], symbol: int) -> set[tuple[int, tuple[int, ...]]]:
        """Return the states and stacks after a symbol; none of them is dead."""
        dfa, found = self.dfa, set[tuple[int, tuple[int, ...]]]()
        todo = [*places]
        for state, stack in todo:
            for does in (int(dfa.step[state, symbol]), *self.further.get((state, symbol), ())):
                if does == POP:
                    if stack:
                        todo.append((self.return_state.get((state, stack[-1]), DEAD), stack[:-1]))
                elif PushdownStep.is_state(does):
                    found.add((does, stack))
                else:
                    pushed = stack + dfa.pushed[PushdownStep.move(does)]
                    if len(pushed) <= self.max_depth:
                        found.add((int(dfa.target[PushdownStep.move(does)]), pushed))
        return {place for place in found if place[0] != DEAD}


def after_pop(dfa: PushdownDfa) -> dict[tuple[int, int], int]:
    """Return the state that each state and popped frame lead to."""
    return {(state, frame): behind for state, frame, behind in dfa.return_state.tolist()}


def run(dfa: PushdownDfa, symbols: Sequence[int], max_depth: int = NEVER) -> tuple[int, list[int]]:
    """Return the state and the frames after some symbols; state 0 if they are illegal."""
    behind = after_pop(dfa)
    state, stack = dfa.start, list[int]()
    for symbol in symbols:
        does = int(dfa.step[state, symbol])
        while does == POP:
            state = behind.get((state, stack.pop()), 0) if stack else 0
            does = int(dfa.step[state, symbol])
        state = does
        if PushdownStep.is_push(does):
            stack.extend(dfa.pushed[PushdownStep.move(does)])
            state = int(dfa.target[PushdownStep.move(does)])
        if state == 0 or len(stack) > max_depth:
            return 0, []
    return state, stack


def random_pushdown(chance: random.Random, characters: bytes, special_tokens: Sequence[int] = ()) -> PushdownDfa:
    """Return an automaton in which anything may happen; it may lead to where no text goes on."""
    live, frames = chance.randint(1, 6), chance.randint(1, 3)
    states, width = live + 2, len(characters) + len(special_tokens) + 2
    moves = [
        (tuple(chance.choices(range(frames), k=chance.randint(1, 3))), chance.randrange(2, states))
        for _ in range(chance.randint(1, 3))
    ]
    step = np.zeros((states, width), np.int32)
    for state in range(2, states):
        for symbol in range(1, width - 1):
            kind = chance.choice(("dead", "read", "push", "pop", "pop"))
            reads, pushes = chance.randrange(2, states), PushdownStep.push(chance.randrange(len(moves)))
            step[state, symbol] = {"dead": 0, "read": reads, "push": pushes, "pop": POP}[kind]
        step[state, width - 1] = chance.choice((0, 1, POP))
    byte_class = np.zeros(256, np.int64)
    byte_class[list(characters)] = np.arange(1, len(characters) + 1)
    behind = [
        (state, frame, chance.randrange(2, states))
        for state in range(2, states)
        for frame in range(frames)
        if chance.random() < 0.7
    ]
    return PushdownDfa(
        step,
        byte_class,
        tuple(special_tokens),
        2,
        tuple(pushed for pushed, _ in moves),
        np.array([to for _, to in moves], np.int64),
        frames,
        np.array(behind, np.int64).reshape(-1, 3),
        np.zeros(states, np.int64),
    )
