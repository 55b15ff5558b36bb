"""Which texts the automaton over bytes of a schema accepts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import logitkit as lk
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.errors import ConfigurationError

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
        found = nested(schema, resources)
    except ConfigurationError as error:
        if "no value satisfies" not in str(error):
            raise
        return lambda _: False
    # A text with a lone surrogate is not valid.
    return lambda text: _is_text(text) and found.accepts(text.encode())


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
