"""The automaton over bytes of a language with nesting: deterministic, with a stack of what comes after each open bracket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, ByteDfa
from logitkit.compiler.bytes.fragment_instances import FragmentInstances
from logitkit.compiler.bytes.nested_step import ByStep, NestedStep
from logitkit.errors import ConfigurationError

NEVER = 2**30


class TokenLimit(NamedTuple):
    """Free text of a limited number of tokens.

    Args:
        most: The greatest number of tokens.
        fresh: [M] its states before its first token ends.
        later_of_fresh: [M] for each of them, the index in `later` of the state that does the same.
        later: [N] the states after one token.
        first: The first state after two tokens: here the others follow, and then those after three.
    """

    most: int
    fresh: NDArray[np.int64]
    later_of_fresh: NDArray[np.int64]
    later: NDArray[np.int64]
    first: int


@dataclass(frozen=True, eq=False, slots=True)
class NestedDfa:
    """A visibly pushdown automaton: a bracket that opens a call pushes a frame, the end of what is called pops it.

    A byte leads to a state, opens a call or ends what was called. A call goes on in its `entry`, with its `frame` on the stack.
    An end pops a frame, and the automaton continues in the `return_state` of both.

    Args:
        step: [S, K] int32, what each class of bytes does (`NestedStep`). State 0 is dead, state 1 is unused, others are live.
        byte_class: [256] int64, class of each byte.
        accepting: [S] bool, whether the text may end; the stack is empty there.
        start: Its start state.
        entry: [C] int64, where each call goes on.
        frame: [C] int64, what it pushes.
        return_state: [E, F] int64, the state after each end with each frame, `DEAD` where they do not meet.
        need: [S] int64, how many frames must be pushed at once, at least, on the way from a state to the end of its part.
        free: [S] bool, in which states ids without text are legal and change nothing; None: in none.
        special_tokens: Tokens without text that do what other ids without text do not: [S] int64, the target of each state, by
            id.
        instances: The instances of string fragments in it; None: they are not known.
        token_limits: Texts whose tokens are counted.
        returns: States in which what is called ends at once, without another byte, each with the number of the end.
        blocks: How many frames are those of calls that do not recur, such as blocks of items; they are the last, and do not count
            as nesting.
        open_blocks: How many of these may be on the stack, at most.
    """

    step: NDArray[np.int32]
    byte_class: NDArray[np.int64]
    accepting: NDArray[np.bool_]
    start: int
    entry: NDArray[np.int64]
    frame: NDArray[np.int64]
    return_state: NDArray[np.int64]
    need: NDArray[np.int64]
    free: NDArray[np.bool_] | None = None
    special_tokens: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)
    instances: FragmentInstances | None = None
    token_limits: tuple[TokenLimit, ...] = ()
    returns: Mapping[int, int] = field(default_factory=dict)
    blocks: int = 0
    open_blocks: int = 0

    @classmethod
    def of(cls, dfa: ByteDfa) -> NestedDfa:
        """Return an automaton without fallbacks as one that nests nothing."""
        none = np.zeros(0, np.int64)
        need = np.zeros(len(dfa.step), np.int64)
        table = np.zeros((0, 0), np.int64)
        return cls(
            dfa.step, dfa.byte_class, dfa.accepting, dfa.start, none, none, table, need, dfa.free, dfa.special_tokens
        )

    @property
    def states(self) -> int:
        """Number of states, dead and finished included."""
        return len(self.step)

    @property
    def calls(self) -> int:
        """Number of calls."""
        return len(self.entry)

    @property
    def frames(self) -> int:
        """Number of frames."""
        return int(self.return_state.shape[1])

    @property
    def is_block(self) -> NDArray[np.bool_]:
        """[F] which frames are those of blocks of items."""
        return np.arange(self.frames) >= self.frames - self.blocks

    @property
    def uncounted(self) -> NDArray[np.bool_]:
        """[F] which frames do not count as nesting: those of strings and of blocks of items."""
        return self.is_block if self.instances is None else self.is_block | self.instances.strings

    @property
    def frame_need(self) -> NDArray[np.int64]:
        """[F] the most that is needed after each frame, whatever ends before it."""
        found: NDArray[np.int64] = np.where(self.return_state == DEAD, 0, self.need[self.return_state]).max(
            axis=0, initial=0
        )
        return found

    def by_step(self, states: NDArray[Any]) -> ByStep:
        """Return a value for each step, given [S] those of the states; that of calls and ends is 0."""
        return ByStep(states, self.calls, len(self.return_state))

    def renumbered_steps(self, states: NDArray[Any]) -> ByStep:
        """Return what each step becomes if states have other numbers, [S]; calls and ends keep theirs."""
        return ByStep.renumbered(states, self.calls, len(self.return_state))

    def after_ends(self) -> list[list[tuple[int, int]]]:
        """Return for each end the frames that it may pop, ascending, each with the state after it."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.return_state]
        # Few of the hundreds of ends and frames meet.
        ends, frames = np.nonzero(self.return_state)
        for end, frame, state in zip(
            ends.tolist(), frames.tolist(), self.return_state[ends, frames].tolist(), strict=True
        ):
            found[end].append((frame, state))
        return found

    @property
    def shares(self) -> bool:
        """Whether strings or blocks of items are called, or characters are counted: all of that needs tokens for all bytes."""
        instances = self.instances
        counts = instances is not None and (
            bool(instances.strings.any()) or any(fragment.counted for fragment in instances.fragments)
        )
        return counts or self.blocks > 0

    def endings(self, text: bytes, max_depth: int = NEVER) -> Iterator[bool]:
        """For each beginning of a text, the shortest first, yield whether it is complete; stop where it is not legal."""
        state, stack, uncounted = self.start, list[int](), self.uncounted
        yield bool(self.accepting[state])
        for byte in text:
            does = int(self.step[state, self.byte_class[byte]])
            if NestedStep.is_state(does):
                state = does
            elif NestedStep.is_call(does):
                stack.append(int(self.frame[NestedStep.number(does)]))
                state = int(self.entry[NestedStep.number(does)])
            else:
                state = int(self.return_state[NestedStep.number(does), stack.pop()])
                while state in self.returns:
                    state = int(self.return_state[self.returns[state], stack.pop()])
            if state == DEAD or (len(stack) > max_depth and np.count_nonzero(~uncounted[stack]) > max_depth):
                return
            yield bool(self.accepting[state]) and not stack

    def accepts(self, text: bytes, max_depth: int = NEVER) -> bool:
        """Whether the whole text is in the language, and nests no deeper than allowed."""
        found = [*self.endings(text, max_depth)]
        return len(found) == len(text) + 1 and found[-1]


def check_counts_nothing(dfa: NestedDfa) -> None:
    """Refuse an automaton that counts tokens, for what is compiled from its bytes together with other text.

    Raises:
        ConfigurationError: It counts tokens.
    """
    if dfa.token_limits:
        raise ConfigurationError(
            "this constraint has text with max_tokens, so it cannot be combined with other text by its bytes; put the other text "
            "into its language, as in sequence(any_text(until='</think>', max_tokens=100), ...)"
        )
