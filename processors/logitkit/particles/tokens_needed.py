"""The least number of tokens that texts still need, now and after each token.

A twisted proposal prefers tokens after which less is needed. Its weights are corrected, so the target stays the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.compiler.tokens.completion.min_tokens_to_finish import counting_tokens
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.composition.chain import Chain
from logitkit.errors import ConfigurationError
from logitkit.limits import DEFAULT_LIMITS
from logitkit.protocol.processor import name_of
from logitkit.runtime.constraint import Constraint

__all__ = ["TokensNeeded"]

# More tokens make no difference: the proposal avoids such texts as it avoids those that need this many.
MOST = 1000


class TokensNeeded:
    """The automata of a language that know how many tokens complete a text.

    Finite automata know it, such as those of `Regex` and `Choice`, and all automata of constraints with `closing`.

    Args:
        language: Constraints.

    Raises:
        ConfigurationError: None of them knows it.
        PatternTooLarge: It takes too many steps to find it.

    Example:
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"a", b"b", b"bc", b"c", None], eos_ids=[4])
        >>> language = lk.chain(lk.Regex("a*bc", vocabulary))
        >>> state = language.init_state(lk.Context.of([[]], vocabulary_size=5))
        >>> TokensNeeded(language)(state, 5)[0, :3].tolist()
        [1.0, 1.0, 0.0]
    """

    def __init__(self, language: Chain) -> None:
        found = ((place, _counting(one)) for place, one in enumerate(language.processors))
        self._automata = [(place, automaton) for place, automaton in found if automaton is not None]
        self._language = language
        if not self._automata:
            names = ", ".join(map(name_of, language.processors)) or "no constraint"
            raise ConfigurationError(
                f"twist needs a constraint that knows how many tokens complete a text, but the processor has {names}; give a "
                "constraint such as Regex, or closing=True to JsonSchema or Grammar, or leave twist out. Grammars that are not "
                "deterministic, and arrays whose items must differ, do not know it"
            )

    def __call__(self, state: tuple[Any, ...], columns: int) -> Tensor:
        """Return how many tokens are needed after each token; the greatest number of all constraints.

        Args:
            state: The state of the language, of B rows.
            columns: The number of columns of the logits.

        Returns:
            [B, columns] float32 on the CPU, from 0 to 1000; the values of illegal tokens and of rows that have ended mean
            nothing. EOS is not counted.
        """
        parts = [self._after(place, automaton, state[place], columns) for place, automaton in self._automata]
        return torch.from_numpy(np.maximum.reduce(parts))

    def _after(self, place: int, automaton: TokenAutomaton, state: Any, columns: int) -> NDArray[np.float32]:
        constraint = self._language.processors[place]
        assert isinstance(constraint, Constraint)
        rows = state.host_rows(constraint.registry)
        found = np.zeros((len(rows), columns), np.float32)
        # Many particles are in the same state.
        known: dict[Any, NDArray[np.float32]] = {}
        for number, row in enumerate(rows):
            if row.current < FIRST_STATE:
                continue
            key = row.current, row.stack
            if key not in known:
                _, classes = automaton.tokens_needed(*key)
                known[key] = classes.clip(0, MOST).astype(np.float32)[automaton.class_of][:columns]
            found[number, : len(known[key])] = known[key]
        return found


def _counting(constraint: object) -> TokenAutomaton | None:
    """Return the automaton of a constraint with the costs of its states, or None if they are unknown."""
    if not isinstance(constraint, Constraint):
        return None
    automaton: TokenAutomaton = constraint.automaton
    if automaton.layers or automaton.remembers is not None:
        return None
    if automaton.nesting.cost is not None:
        return automaton
    return None if automaton.has_stacks else counting_tokens(automaton, getattr(constraint, "limits", DEFAULT_LIMITS))
