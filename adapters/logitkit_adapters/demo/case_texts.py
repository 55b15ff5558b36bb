"""The texts of a case in one engine, without its constraint and with it, and whether they are valid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from logitkit import Context
from logitkit_adapters.demo.cases import Constraint, DemoCase
from logitkit_adapters.demo.engine import DemoGeneration, Engine

__all__ = ["CaseTexts"]


@dataclass(frozen=True)
class CaseTexts:
    """The texts of a case.

    Args:
        case: The case.
        constraint: Its constraint, for the tokens of the engine.
        free: The texts without the constraint.
        held: The texts with it.
    """

    case: DemoCase
    constraint: Constraint
    free: DemoGeneration
    held: DemoGeneration

    @classmethod
    def of(cls, engine: Engine, case: DemoCase) -> CaseTexts:
        """Generate the texts of a case.

        Raises:
            LogitkitError: The case cannot be compiled, or its prompts are too long.
        """
        constraint = case.constraint(engine.vocabulary)
        return cls(case, constraint, engine.generate(case), engine.generate(case, constraint))

    @cached_property
    def valid(self) -> list[bool]:
        """Whether each constrained text is complete and in the language, also by the case's own check."""
        check = self.case.check
        pairs = zip(self.held.ids, self.held.texts, strict=True)
        return [self.in_language(ids) and (check is None or check(text)) for ids, text in pairs]

    def in_language(self, ids: Sequence[int]) -> bool:
        """Whether token ids spell a text of the language and then end, according to the automaton.

        This judges unconstrained texts: on an unexpected text, `re` might never terminate.
        """
        state: Any = self.constraint.init_state(Context.of([[]], vocabulary_size=self.constraint.vocabulary.size))
        state = self.constraint.advance(state, torch.tensor([list(ids)]))
        return bool(self.constraint.is_finished(state))
