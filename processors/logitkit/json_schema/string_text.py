r"""The JSON text of strings: quotes around them, and one spelling of each character.

Escapes are the canonical ones, as `json.dumps(..., ensure_ascii=False)` writes them: `\"`, `\\`, `\b`, `\f`, `\n`, `\r`, `\t`,
other control characters as `\u00` and two lower-case digits, everything else raw.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, TypeAlias

from logitkit.compiler.text_language import TextLanguage
from logitkit.patterns.charset import CharSet
from logitkit.patterns.syntax import Machine

QUOTE, BACKSLASH = CharSet.from_string('"'), CharSet.from_string("\\")
ESCAPED = CharSet.of([(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)])
SHORT = {ord(c): letter for c, letter in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)}
_U, _0, _1 = map(CharSet.from_string, "u01")

# The moves of a state: characters and where they lead.
Row: TypeAlias = tuple[tuple[CharSet, int], ...]


class Cut(NamedTuple):
    """How the characters of a set are written.

    Args:
        raw: Those that stand for themselves.
        short: The letter after a backslash for others.
        low: The last digit of those that are written as `u000` and a digit.
        high: That of those that are written as `u001` and a digit.
    """

    raw: CharSet
    short: CharSet
    low: CharSet
    high: CharSet

    @classmethod
    @lru_cache(maxsize=2048)
    def of(cls, charset: CharSet) -> Cut:
        """Cut a set into its parts."""
        escaped = list(charset & ESCAPED)
        numbered = [c for c in escaped if c not in SHORT]
        return cls(
            charset - ESCAPED,
            CharSet.from_string("".join(SHORT[c] for c in escaped if c in SHORT)),
            CharSet.from_string("".join(f"{c:x}" for c in numbered if c < 16)),
            CharSet.from_string("".join(f"{c - 16:x}" for c in numbered if c >= 16)),
        )


def string_body(language: TextLanguage) -> Machine:
    r"""Return the tree of the JSON texts of some strings, without their opening quotes.

    Raises:
        PatternTooLarge: There are too many states.
        ValueError: The language has no strings.

    Example:
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> from logitkit.compiler.language import byte_dfa_of
        >>> tree = string_body(TextLanguage.of_texts(['a"\n'], DEFAULT_LIMITS))
        >>> byte_dfa_of(tree, DEFAULT_LIMITS).accepts(rb'a\"\n"')
        True
    """
    return _Writer(language).machine()


class _Writer:
    """Writes an automaton over the characters of strings as one over those of their JSON texts, without the opening quote."""

    def __init__(self, language: TextLanguage) -> None:
        if language.dfa is None:
            raise ValueError("the language has no strings")
        self.language = language
        self.dfa = language.dfa
        self.end = len(self.dfa.moves)
        # After the states of the strings come the end and those inside an escape, of which equal ones are one.
        self.rows: list[Row] = [()] * (self.end + 1)
        self.inner: dict[Row, int] = {}
        self.cuts: dict[int, Cut] = {}

    def machine(self) -> Machine:
        for state in range(self.end):
            self.rows[state] = self.row(state)
            self.language.limits.check_states(len(self.rows))
        return Machine(tuple(self.rows), tuple(state == self.end for state in range(len(self.rows))))

    def row(self, state: int) -> Row:
        ways = [(self.cut(mask), target) for target, mask in self.dfa.moves[state].items()]
        row = [(cut.raw, target) for cut, target in ways if cut.raw]
        escape = [(cut.short, target) for cut, target in ways if cut.short]
        low = tuple([(cut.low, target) for cut, target in ways if cut.low])
        high = tuple([(cut.high, target) for cut, target in ways if cut.high])
        if low or high:
            digits = [(digit, self.inside(last)) for digit, last in ((_0, low), (_1, high)) if last]
            zeros = self.inside(((_0, self.inside(((_0, self.inside(tuple(digits))),))),))
            escape.append((_U, zeros))
        if escape:
            row.append((BACKSLASH, self.inside(tuple(escape))))
        if self.dfa.accepting[state]:
            row.append((QUOTE, self.end))
        return tuple(row)

    def cut(self, mask: int) -> Cut:
        found = self.cuts.get(mask)
        if found is None:
            found = self.cuts[mask] = Cut.of(self.language.charset(mask))
        return found

    def inside(self, row: Row) -> int:
        """Return the state inside an escape with these moves."""
        found = self.inner.setdefault(row, len(self.rows))
        if found == len(self.rows):
            self.rows.append(row)
        return found
