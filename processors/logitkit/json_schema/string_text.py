r"""The JSON text of strings: quotes around them, and one spelling of each character.

Escapes are the canonical ones, as `json.dumps(..., ensure_ascii=False)` writes them: `\"`, `\\`, `\b`, `\f`, `\n`, `\r`, `\t`,
other control characters as `\u00` and two lower-case digits, everything else raw.
"""

from __future__ import annotations

from typing import TypeAlias

from logitkit.automata.text_language import TextLanguage
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Characters, Machine, Node

QUOTE = CharSet.from_string('"')
BACKSLASH = CharSet.from_string("\\")
SHORT = {ord(c): letter for c, letter in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)}
ESCAPED = CharSet.of([(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)])

# The moves of a state: characters and where they lead.
Row: TypeAlias = tuple[tuple[CharSet, int], ...]
# Where each escaped character leads.
Escapes: TypeAlias = tuple[tuple[int, int], ...]


def string_tree(language: TextLanguage) -> Node:
    r"""Return the tree of the JSON texts of some strings.

    Raises:
        PatternTooLarge: There are too many states.
        ValueError: No string belongs to them.

    Example:
        >>> from logitkit.automata.limits import DEFAULT_LIMITS
        >>> from logitkit.automata.language import byte_dfa_of
        >>> tree = string_tree(TextLanguage.of_texts(['a"\n'], DEFAULT_LIMITS))
        >>> byte_dfa_of(tree, DEFAULT_LIMITS).accepts(rb'"a\"\n"')
        True
    """
    return concatenate([Characters(QUOTE), _Writer(language).machine()])


class _Writer:
    """Writes an automaton over the characters of strings as one over those of their JSON texts, without the opening quote."""

    def __init__(self, language: TextLanguage) -> None:
        if language.dfa is None:
            raise ValueError("there is no string to write")
        self.language = language
        self.dfa = language.dfa
        self.end = len(self.dfa.moves)
        # Behind the states of the strings come the end and those inside an escape.
        self.rows: list[Row] = [()] * (self.end + 1)
        self.escape_of: dict[Escapes, int] = {}
        self.inner: dict[Row, int] = {}
        self.cut: dict[int, tuple[CharSet, tuple[int, ...]]] = {}

    def machine(self) -> Machine:
        for state in range(self.end):
            self.rows[state] = self.row(state)
            self.language.limits.check_states(len(self.rows))
        return Machine(tuple(self.rows), tuple(state == self.end for state in range(len(self.rows))))

    def row(self, state: int) -> Row:
        moves: list[tuple[CharSet, int]] = []
        escapes: list[tuple[int, int]] = []
        for target, mask in self.dfa.moves[state].items():
            raw, escaped = self.parts(mask)
            if raw:
                moves.append((raw, target))
            escapes.extend([(c, target) for c in escaped])
        if escapes:
            moves.append((BACKSLASH, self.escape(tuple(sorted(escapes)))))
        if self.dfa.accepting[state]:
            moves.append((QUOTE, self.end))
        return tuple(moves)

    def parts(self, mask: int) -> tuple[CharSet, tuple[int, ...]]:
        """Return what is written raw of some symbols, and the rest one by one."""
        found = self.cut.get(mask)
        if found is None:
            charset = self.language.charset(mask)
            found = self.cut[mask] = (charset - ESCAPED, tuple(charset & ESCAPED))
        return found

    def escape(self, escapes: Escapes) -> int:
        """Return the state behind a backslash."""
        found = self.escape_of.get(escapes)
        if found is None:
            letters: dict[int, str] = {}
            digits: dict[str, dict[int, str]] = {}
            for code_point, target in escapes:
                if code_point in SHORT:
                    letters[target] = letters.get(target, "") + SHORT[code_point]
                else:
                    lows = digits.setdefault(f"{code_point >> 4:x}", {})
                    lows[target] = lows.get(target, "") + f"{code_point & 15:x}"
            moves = _row(letters)
            if digits:
                high_moves = tuple((CharSet.from_string(high), self.add(_row(lows))) for high, lows in digits.items())
                zero = CharSet.from_string("0")
                zeros = self.add(((zero, self.add(((zero, self.add(high_moves)),))),))
                moves += ((CharSet.from_string("u"), zeros),)
            found = self.escape_of[escapes] = self.add(moves)
        return found

    def add(self, row: Row) -> int:
        found = self.inner.setdefault(row, len(self.rows))
        if found == len(self.rows):
            self.rows.append(row)
        return found


def _row(characters: dict[int, str]) -> Row:
    return tuple((CharSet.from_string(read), target) for target, read in characters.items())
