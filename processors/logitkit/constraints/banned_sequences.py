"""BannedSequences: the output never contains any of some sequences of token ids."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.bytes.transition_columns import TransitionColumns, merge, starts
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.runtime.constraint import Constraint
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["BannedSequences"]


@dataclass(frozen=True)
class BannedSequences(Constraint):
    """Never allow the last token of a sequence after its other tokens, as the bad words of vLLM and transformers do.

    Their text may still be written with other tokens; `BannedStrings` bans a text in any spelling. Only the output counts. In an
    `Intersection`, no text needs a banned sequence to be completed.

    Args:
        sequences: Sequences of token ids, each of at least one. Those with an EOS id never occur.
        vocabulary: The tokens.
        limits: Bounds on the cost of compiling.

    Raises:
        PatternTooLarge: The automaton would exceed a limit.
        VocabularyError: The vocabulary has no EOS id.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> from logitkit.constraints.banned_sequences import BannedSequences
        >>> vocabulary = lk.Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
        >>> banned = BannedSequences(((0, 1), (0, 0, 2)), vocabulary)
        >>> state = banned.init_state(lk.Context.of([[]], vocabulary_size=4))
        >>> banned.allowed_tokens(banned.advance(state, torch.tensor([[0, 0]])))
        tensor([[ True, False, False,  True]])

    Source: Aho and Corasick, Efficient string matching (1975).
    """

    sequences: tuple[tuple[int, ...], ...]
    vocabulary: Vocabulary
    limits: Limits = field(default=DEFAULT_LIMITS, kw_only=True)

    def __post_init__(self) -> None:
        self._compile_once(BannedSequences, self.sequences)

    def _compile(self) -> TokenAutomaton:
        first, moves = self._moves()
        tokens = sorted({*first, *(token for of_state in moves.values() for token in of_state)})
        number = {token: place for place, token in enumerate(tokens, 1)}
        states = {beginning: FIRST_STATE + place for place, beginning in enumerate(moves)}
        # Tokens of no sequence lead to the start. The others lead to where they lead from the start, with exceptions.
        default = np.array([FIRST_STATE, *(states.get(first.get(token, 0), DEAD) for token in tokens)])
        listed = sorted(
            (number[token], states[beginning], states.get(target, DEAD))
            for beginning, of_state in moves.items()
            for token, target in of_state.items()
        )
        symbol, source, target = np.array(listed, np.int64).reshape(-1, 3).T
        differs = target != default[symbol]
        counts = np.bincount(symbol[differs], minlength=len(default))
        table, class_of_token = merge(TransitionColumns(default, starts(counts), source[differs], target[differs]))
        class_of = np.full(self.vocabulary.size, class_of_token[0])
        class_of[tokens] = class_of_token[1:]
        accepting = np.arange(FIRST_STATE + len(states)) >= FIRST_STATE
        return TokenAutomaton.of(
            class_of, table, accepting, FIRST_STATE, self.vocabulary.eos_ids, self.vocabulary.pad_id
        )

    def _moves(self) -> tuple[dict[int, int], dict[int, dict[int, int]]]:
        """Return where tokens lead from the start, and from each beginning of a sequence if that differs.

        A text is in its longest ending that is the beginning of a sequence; the start is beginning 0. Texts that contain a whole
        sequence are in none.
        """
        going_on: list[dict[int, int]] = [{}]
        whole = set()
        for sequence in self.sequences:
            if set(sequence).intersection(self.vocabulary.eos_ids):
                continue
            at = 0
            for token in sequence:
                at = going_on[at].setdefault(token, len(going_on))
                if at == len(going_on):
                    going_on.append({})
                    self.limits.check_states(at)
            whole.add(at)
        first, moves = going_on[0], {0: dict[int, int]()}
        shorter = dict.fromkeys(first.values(), 0)
        todo = [*shorter]
        for at in todo:
            if at in whole or shorter[at] in whole:
                whole.add(at)
                continue
            inherited = moves[shorter[at]]
            moves[at] = {**inherited, **going_on[at]}
            self.limits.spend(1 + len(moves[at]))
            for token, child in going_on[at].items():
                shorter[child] = inherited.get(token, first.get(token, 0))
                todo.append(child)
        return first, moves
