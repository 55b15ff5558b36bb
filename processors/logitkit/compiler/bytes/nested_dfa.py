"""The automaton over bytes of a language with nesting: deterministic, with a stack of frames.

A *frame* says where the text continues after a bracket is closed. A bracket that opens a *call* pushes a frame, and goes on in
the call's entry. The bracket that closes it is an *end*: it pops the frame, and the text continues in the return state of both.

By hand, for lists such as `[[],[]]`. The frame of the outermost list is 0, that of all inner lists is 1:

    state   reads `[`   reads `]`   reads `,`
    2       call 0      -           -           the start
    3       -           -           -           the text may end here
    4       call 1      end 0       -           after `[`
    5       -           end 0       6           after an item
    6       call 1      -           -           after a comma

    Call 0 pushes frame 0 and goes on in state 4, call 1 pushes frame 1 and goes on in state 4.
    End 0 leads to state 3 after frame 0, and to state 5 after frame 1.

Invariants: a byte opens a call or closes one, or does neither; the stack does not matter for this. Where the text may end, the
stack is empty.
"""

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
        fresh: [M] its states in which no token of the text has ended.
        later_of_fresh: [M] for each fresh state, the index in `later` of the state that does the same.
        later: [N] its states after one token.
        first: The first of the states after two tokens; the others follow, and then those after three tokens, and so on.
    """

    most: int
    fresh: NDArray[np.int64]
    later_of_fresh: NDArray[np.int64]
    later: NDArray[np.int64]
    first: int


@dataclass(frozen=True, eq=False, slots=True)
class NestedDfa:
    """A visibly pushdown automaton.

    Args:
        step: [S, K] int32, the step of each state with each class of bytes (`NestedStep`): it leads to a state, opens a call or
            is an end. State 0 is dead, state 1 is unused, and all others are live.
        byte_class: [256] int64, the class of each byte.
        accepting: [S] bool, whether the text may end in a state.
        start: The start state.
        entry: [C] int64, the state in which each call goes on.
        frame: [C] int64, the frame that each call pushes.
        return_state: [E, F] int64, the state after each end with each frame, `DEAD` if they do not meet.
        need: [S] int64, the least number of frames that must be open at once on the way from a state to the end of its part.
        free: [S] bool, the states in which ids without text are legal and change nothing; None if there are none.
        special_tokens: For some ids, mostly without text, [S] int64 the target of each state.
        instances: The instances of string fragments; None: they are not known.
        token_limits: The texts of a limited number of tokens.
        returns: States in which a call ends at once, without another byte, each with its end.
        blocks: How many frames are those of calls that do not recur, such as blocks of items. They are the last frames, and do
            not count as nesting.
        open_blocks: The most frames of blocks that may be on the stack.
        remembers: [S] int8, which states follow the bracket of an array whose items a row remembers (`Remembers`); None: none
            does.
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
    remembers: NDArray[np.int8] | None = None

    @classmethod
    def of(cls, dfa: ByteDfa) -> NestedDfa:
        """Return a finite automaton without fallbacks as one that opens no calls."""
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
        """[F] the most frames that are needed after each frame, whichever end pops it."""
        found: NDArray[np.int64] = np.where(self.return_state == DEAD, 0, self.need[self.return_state]).max(
            axis=0, initial=0
        )
        return found

    def by_step(self, states: NDArray[Any]) -> ByStep:
        """Return a value for each step, given [S] the values of states; calls and ends have the value 0."""
        return ByStep(states, self.calls, len(self.return_state))

    def renumbered_steps(self, states: NDArray[Any]) -> ByStep:
        """Return the new step for each step, given [S] the new numbers of states; calls and ends keep their numbers."""
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
    def end_bytes(self) -> bytes:
        """The bytes that close a call in some state."""
        return bytes(np.flatnonzero(NestedStep.is_end(self.step).any(axis=0)[self.byte_class]).tolist())

    @property
    def shares(self) -> bool:
        """Whether strings or blocks of items are called, or characters are counted, which needs a token for each byte."""
        instances = self.instances
        counts = instances is not None and (
            bool(instances.strings.any()) or any(fragment.counted for fragment in instances.fragments)
        )
        return counts or self.blocks > 0

    def endings(self, text: bytes, max_depth: int = NEVER) -> Iterator[bool]:
        """Yield for each prefix of a text, the empty one first, whether it is complete; stop at a prefix that is illegal."""
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
    """Refuse an automaton that counts tokens where it is joined with other text by its bytes.

    Raises:
        ConfigurationError: It counts tokens.
    """
    if dfa.token_limits:
        raise ConfigurationError(
            "this constraint has text with max_tokens, so it cannot be combined with other text by its bytes; put the other text "
            "into its language, as in sequence(any_text(until='</think>', max_tokens=100), ...)"
        )
