"""Advice on the regular expressions of a grammar in Lark's syntax."""

from __future__ import annotations

from logitkit.grammars.lark.parse import parse_lark
from logitkit.limits import DEFAULT_LIMITS
from logitkit.patterns.advice import beyond_ascii

__all__ = ["lark_advice"]


def lark_advice(grammar: str) -> tuple[str, ...]:
    r"""Return sentences on what the regular expressions of a grammar allow that its author may not expect.

    Args:
        grammar: The grammar.

    Raises:
        GrammarError: The text is not a grammar in Lark's syntax.
        PatternSyntaxError: A regular expression cannot be parsed.

    Example:
        >>> lark_advice(r"start: /\d+/")
        ('/\\d+/: \\d allows digits of all scripts; write [0-9]',)
    """
    found = []
    for definition in parse_lark(grammar, DEFAULT_LIMITS).definitions:
        if definition.kind == "regexp":
            body, _, flags = definition.name[1:].rpartition("/")
            advice = beyond_ascii(f"(?{flags}){body}" if flags else body)
            # Lark allows no flags inside of a regular expression.
            found += [f"{definition.name}: {said.partition(', or ')[0]}" for said in advice]
    return tuple(found)
