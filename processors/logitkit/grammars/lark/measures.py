r"""The order in which Lark's lexers try terminals.

A lexer takes the first terminal that matches: by priority, then by the largest number of characters that it may have, then by the
length of its pattern, then by its name. So `"<="` comes before `"<"`, and a decimal number `/[0-9]+\.[0-9]+/` before an integer
`/[0-9]+/`: both may have any length, and the pattern of the first one is longer.

The pattern is the one that Lark writes, so its length is counted here. By hand: with `A: "x"+ B | "y"` and `B: /[0-9]/`, the
pattern of A is `(?:(?:x)+[0-9]|y)`, with 17 characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from logitkit.compiler.characters.lengths import WIDEST, widths
from logitkit.patterns.syntax import Alternate, Call, Concat, Node, Repeat

__all__ = ["COMMON_LENGTHS", "Measure", "of_regexp", "of_string", "of_tree"]

# The characters that a group and a flag add to a pattern.
_GROUP = len("(?:)")
_FLAG = len("(?i:)")

COMMON_LENGTHS = {
    "DIGIT": 5,
    "HEXDIGIT": 21,
    "INT": 10,
    "SIGNED_INT": 24,
    "DECIMAL": 44,
    "FLOAT": 126,
    "SIGNED_FLOAT": 140,
    "NUMBER": 141,
    "SIGNED_NUMBER": 155,
    "ESCAPED_STRING": 20,
    "LCASE_LETTER": 5,
    "UCASE_LETTER": 5,
    "LETTER": 15,
    "WORD": 20,
    "CNAME": 53,
    "WS_INLINE": 13,
    "WS": 12,
    "CR": 1,
    "LF": 1,
    "NEWLINE": 12,
    "SH_COMMENT": 6,
    "CPP_COMMENT": 9,
    "C_COMMENT": 13,
    "SQL_COMMENT": 7,
}
"""The length of the pattern of each terminal of `%import common.NAME`."""

# Lark reads these escapes of a regular expression itself, and leaves all others in it.
_READ = re.compile(r"""\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[nftr"'])""")


class Measure(NamedTuple):
    """The properties on which the place of a terminal depends.

    Args:
        minimum: The least number of characters.
        maximum: The largest number of characters; `WIDEST` without a limit.
        length: The length of its pattern.
        inside: The length of its pattern inside of another one.
        flags: The number of its flags.
        text: The text of a string; None for a pattern.
    """

    minimum: int
    maximum: int
    length: int
    inside: int
    flags: int = 0
    text: str | None = None

    @property
    def folded(self) -> bool:
        """Whether a string stands for its text in upper and lower case."""
        return self.text is not None and self.flags > 0


def of_string(text: str, folded: bool) -> Measure:
    """Return the measure of a string."""
    size = len(text)
    return Measure(size, size, size, len(re.escape(text)) + _FLAG * folded, int(folded), text)


def of_regexp(tree: Node, written: str, flags: str = "") -> Measure:
    """Return the measure of a regular expression, with its text between the slashes as written."""
    length = len(_READ.sub("x", written))
    return Measure(*widths(tree), length, length + _FLAG * len(flags), len(flags))


def of_tree(tree: Node, measure: Callable[[int], Measure]) -> tuple[Node, Measure]:
    """Return the tree of a terminal that uses others, with its options in the order in which Lark tries them, and its measure.

    Lark tries the option with the most characters first.

    Args:
        tree: Its definition, with a call of each terminal that it uses.
        measure: Returns the measure of such a terminal.
    """
    match tree:
        case Call(definition):
            return tree, measure(definition)
        case Concat(parts):
            ordered = [of_tree(part, measure) for part in parts]
            measures = [m for _, m in ordered]
            return Concat(tuple([node for node, _ in ordered])), _joined(
                sum(m.minimum for m in measures),
                sum(m.maximum for m in measures),
                sum(m.inside for m in measures),
            )
        case Alternate(options):
            ordered = [of_tree(option, measure) for option in options]
            ordered.sort(key=lambda option: (-option[1].maximum, -option[1].minimum, -option[1].length))
            measures = [m for _, m in ordered]
            return Alternate(tuple([node for node, _ in ordered])), _joined(
                min(m.minimum for m in measures),
                max(m.maximum for m in measures),
                _GROUP + sum(m.inside + 1 for m in measures) - 1,
            )
        case Repeat(node, minimum, maximum):
            inner, found = of_tree(node, measure)
            most = WIDEST if maximum is None else found.maximum * maximum
            length = _GROUP + found.inside + len(_quantifier(minimum, maximum))
            # Lark writes the flags of a part once more around its repetition.
            return Repeat(inner, minimum, maximum), _joined(found.minimum * minimum, most, length, found.flags)
        case _:
            return tree, _joined(0, 0, 0)


def _joined(minimum: int, maximum: int, length: int, flags: int = 0) -> Measure:
    """Return the measure of a pattern of several parts."""
    return Measure(min(minimum, WIDEST), min(maximum, WIDEST), length, length + _FLAG * flags, flags)


def _quantifier(minimum: int, maximum: int | None) -> str:
    if (minimum, maximum) in ((0, 1), (0, None), (1, None)):
        return "?"
    return f"{{{minimum}}}" if minimum == maximum else f"{{{minimum},{'' if maximum is None else maximum}}}"
