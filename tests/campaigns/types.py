"""Random Python types with constraints, against pydantic: what is written validates, and what is dumped can be written."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from pydantic import TypeAdapter

from logitkit.errors import ConfigurationError
from logitkit.json_schema.python_types import supported
from tests.campaigns.campaign import Campaign, drawn
from tests.campaigns.json_texts import compiled, written
from tests.json_schema.acceptance import Accepted
from tests.json_schema.random_types import TEXTS, TYPES, Drawn

WRITTEN = 12


@dataclass(frozen=True)
class Case:
    """A type, JSON texts, and the seed of the texts that are written."""

    drawn: Drawn
    texts: tuple[str, ...]
    seed: int


@st.composite
def cases(draw: DrawFn) -> Case:
    texts = draw(st.lists(TEXTS, min_size=15, max_size=30, unique=True))
    return Case(draw(TYPES), tuple(texts), draw(st.integers(0, 2**32)))


class Judge:
    """The validator of a type."""

    def __init__(self, given: Any) -> None:
        self._adapter = TypeAdapter(supported(given))

    def reads(self, text: str | bytes) -> bool:
        """Whether a text is that of a value. Pydantic has errors of its own for a constraint that does not fit a value."""
        return self._value(text) is not None

    def dumped(self, text: str | bytes) -> str | None:
        """Return how the value of a text is written, if it is a value, and can be read again."""
        value = self._value(text)
        if value is None:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = self._adapter.dump_json(value[0]).decode()
        return found if self.reads(found) else None

    def _value(self, text: str | bytes) -> tuple[Any] | None:
        try:
            return (self._adapter.validate_json(text),)
        except (ValueError, TypeError, OverflowError, ZeroDivisionError, ArithmeticError):
            return None


def check(case: Case, tried: Counter[str]) -> None:
    try:
        judge = Judge(case.drawn.given)
    except Exception:  # noqa: BLE001 - pydantic refuses a constraint on a type in many ways
        assume(False)

    def has_a_value() -> bool:
        return case.drawn.is_exact and any(map(judge.dumped, case.texts))

    try:
        constraint = compiled(case.drawn.given, "types", has_a_value, tried)
    except ConfigurationError as error:
        if "has no JSON Schema" not in str(error):
            raise
        tried["types refused by name"] += 1
        return
    if constraint is None:
        return
    tried["types compared"] += 1
    dfa = Accepted(constraint)
    for text in case.texts:
        if dfa.accepts(text.encode()):
            assert judge.reads(text), f"{text} is accepted, and does not validate"
            tried["texts accepted, found valid"] += 1
        _check_dumped(case, judge, dfa, text, tried)
    for found in written(dfa, case.seed, WRITTEN, tried):
        assert judge.reads(found), f"{found.decode()} is written, and does not validate"
        tried["texts written, found valid"] += 1
        _check_dumped(case, judge, dfa, found, tried)


def _check_dumped(case: Case, judge: Judge, dfa: Accepted, text: str | bytes, tried: Counter[str]) -> None:
    """Check that the value of a text can be written as it is dumped."""
    dumped = judge.dumped(text) if case.drawn.is_exact else None
    if dumped is not None:
        assert dfa.accepts(dumped.encode()), f"{dumped} is dumped, and cannot be written"
        tried["dumped values that can be written"] += 1


CAMPAIGN = Campaign(
    "types", "random Python types with constraints, with pydantic's own validators", drawn(cases(), 60, check)
)
