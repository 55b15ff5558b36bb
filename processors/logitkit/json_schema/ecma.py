r"""ECMA-262 patterns, as JSON Schema has them, as syntax trees.

They are read with the flag `u`. With it, half of a surrogate pair matches no text. So a pattern in which halves stand alone, such
as `\ud83c[\udf00-\udfff]`, is written for JavaScript without that flag, and is read so: over UTF-16 code units.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from logitkit.errors import ConfigurationError, PatternSyntaxError
from logitkit.json_schema.ecma_translation import HalfAlone, Translation, UnitTranslation, joined
from logitkit.patterns.parser import parse
from logitkit.patterns.syntax import Node


class EcmaTree(NamedTuple):
    """A syntax tree.

    Args:
        tree: Over characters or, in the form of `compiler.characters.code_units`, over UTF-16 code units.
        in_units: Whether it is over code units.
    """

    tree: Node
    in_units: bool


def ecma_tree(pattern: str) -> EcmaTree:
    r"""Parse an ECMA-262 pattern.

    Raises:
        PatternSyntaxError: The pattern is not valid, not regular or not supported; the position is that in `pattern`.
        ConfigurationError: The pattern is not a `str`.

    Example:
        >>> ecma_tree(r"\d").tree.charset.ranges
        ((48, 57),)
    """
    if not isinstance(pattern, str):
        raise ConfigurationError(f"a pattern must be str, not {type(pattern).__name__}")
    # As in JavaScript, two halves in a row are one character.
    pattern = joined(pattern)
    try:
        return EcmaTree(_parsed(Translation(pattern)), in_units=False)
    except HalfAlone:
        return EcmaTree(_parsed(UnitTranslation(pattern)), in_units=True)


def _parsed(translation: Translation) -> Node:
    written = translation.run()
    try:
        return parse(written)
    except PatternSyntaxError as error:
        # Positions of the translation are told apart by where the pieces of the pattern begin in it.
        piece = bisect_right(translation.begins, error.position) - 1
        raise translation.refused(error.reason, translation.sources[max(piece, 0)]) from None
