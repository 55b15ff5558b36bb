"""Which texts a schema accepts, byte by byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import logitkit as lk
from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.runtime.constraint import Constraint
from logitkit.runtime.walk import Walk
from tests.automata.test_pushdown import run_bytes

# One token a byte: nothing here depends on how texts are cut into tokens.
BYTES = lk.Vocabulary([bytes([b]) for b in range(256)] + [None], eos_ids=[256])


def nested(schema: Any, resources: Any = None) -> NestedDfa:
    """Compile a schema, given the documents that it may refer to.

    Raises:
        UnsupportedSchema: It is refused.
    """
    return lk.JsonSchema(schema, BYTES, resources=resources).nested_dfa()


def acceptor(schema: Any, resources: Any = None) -> Callable[[str], bool]:
    """Return the function that says whether a text is in the language of a schema; unsatisfiable ones accept nothing.

    Raises:
        UnsupportedSchema: It is refused.
    """
    try:
        found = Accepted(lk.JsonSchema(schema, BYTES, resources=resources))
    except ConfigurationError as error:
        if "no value satisfies" not in str(error):
            raise
        return lambda _: False
    # A text with a lone surrogate is not valid.
    return lambda text: _is_text(text) and found.accepts(text.encode())


class Accepted:
    """The texts of a constraint: by its automaton over bytes, unless its rows remember items.

    Args:
        constraint: The constraint, over `BYTES`.
    """

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint
        self.dfa: NestedDfa | None = None
        if constraint.automaton.remembers is None:
            # A value that a row would have to remember may be written nowhere. As a part, such a schema is refused all the same.
            try:
                self.dfa = constraint.nested_dfa()
            except UnsupportedSchema as error:
                if "a row cannot remember" not in str(error):
                    raise

    def accepts(self, text: bytes) -> bool:
        """Whether a text is one of them."""
        return self.constraint.matches(text) if self.dfa is None else self.dfa.accepts(text)

    def goes_on(self, text: bytes) -> bool:
        """Whether one of them begins with a text."""
        if self.dfa is not None:
            return run_bytes(self.dfa, text)[0] != DEAD
        return Walk.start(self.constraint.automaton).after(*text).is_live


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
