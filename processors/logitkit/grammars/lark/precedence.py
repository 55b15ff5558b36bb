r"""Which of two terminals a lexer prefers where both match, and what that means for the texts of the other one.

Of the terminals that may stand in a place, some restrict another one, under four kinds of conditions:

- The terminal stands only where *earlier* ones do not match: no text begins with one of theirs, and what follows is not what they
  would go on with.
- The rest of the text is not one that *longer* ones would go on with.
- The text after a string is not one that expressions *around* it would go on with, and none of them matches a part of the string
  only.
- Strings *take* texts from regular expressions.
- No text goes on after one of *lazy* terminals, which a lexer takes as soon as it can. Nothing else restricts a lazy terminal,
  and it comes earlier than all that are not lazy.

Two lexers differ in them:

- "longest": higher priorities come earlier. Of equal ones, the longest text counts, so each is perhaps longer than another one.
  Strings of letters, digits and `_` are keywords: they take their texts from expressions. If two other terminals have the same
  text, the parser decides.
- "contextual": all terminals have an order (see `measures`), and what comes first is earlier, even if its text is shorter. A
  string is different if an expression of its priority finds it: the lexer looks for the expression, and what it finds is the
  string if the texts are the same.

By hand, for `"if"` and `NAME: /[a-z]+/`: both lexers let `NAME` go on after `if`, and `"if"` take its text from `NAME`. For
`"SELECT"i` and the same name, "longest" does the same. Under "contextual", the name comes earlier, since it does not find
`SELECT`: so `select` is a name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from logitkit.grammars.lark.draft import Draft
from logitkit.grammars.lark.terminals import Terminals

__all__ = ["Conditions", "LexerKind", "contextual_conditions", "is_word", "longest_conditions"]

LexerKind: TypeAlias = Literal["longest", "contextual"]

_WORD = re.compile(r"\w+")


class Conditions(NamedTuple):
    """The numbers of the terminals that restrict another one, by the kind of the condition."""

    earlier: tuple[int, ...] = ()
    longer: tuple[int, ...] = ()
    around: tuple[int, ...] = ()
    taken: tuple[int, ...] = ()
    lazy: tuple[int, ...] = ()


def longest_conditions(
    number: int, others: Sequence[int], words: Sequence[int], draft: Draft, terminals: Terminals
) -> Conditions:
    """Return which terminals restrict another one under the lexer "longest".

    Args:
        number: The terminal.
        others: Terminals that may stand in the same place, without it.
        words: Further expressions that a keyword competes with, or the keywords that an expression competes with.
        draft: The definitions.
        terminals: The builder of terminals.
    """
    lazy = _lazy(others, draft)
    if draft.definitions[number].is_lazy:
        return Conditions(lazy=lazy)
    others = [other for other in others if other not in lazy]
    priority, is_string = draft.definitions[number].priority, terminals.measure(number).text is not None
    equal = [n for n in (*others, *words) if draft.definitions[n].priority == priority]
    earlier = [*lazy, *[other for other in others if draft.definitions[other].priority > priority]]
    if is_string:
        return Conditions(tuple(earlier), tuple(equal))
    longer = [other for other in equal if other not in words and not _is_keyword_of(terminals, other, number)]
    return Conditions(tuple(earlier), tuple(longer), (), tuple([n for n in equal if is_word(terminals, n)]))


def _lazy(others: Sequence[int], draft: Draft) -> tuple[int, ...]:
    return tuple([other for other in others if draft.definitions[other].is_lazy])


def _is_keyword_of(terminals: Terminals, number: int, name: int) -> bool:
    """Whether a terminal is a keyword in any case that an expression has in lower or upper case.

    It does not restrict where the expression ends: a keyword is not written in both cases.
    """
    measure = terminals.measure(number)
    if measure.text is None or not measure.folded or not is_word(terminals, number):
        return False
    return any(_finds(terminals, name, text) for text in (measure.text.lower(), measure.text.upper()))


def contextual_conditions(
    number: int, others: Sequence[int], words: Sequence[int], ignored: int, draft: Draft, terminals: Terminals
) -> Conditions:
    """Return which terminals restrict another one under the lexer "contextual".

    They hold wherever some of the others may stand: a string comes no later than the last expression that finds it.

    Args:
        number: The terminal.
        others: Terminals that may stand in the same place, without it.
        words: Further expressions that a keyword competes with, or the keywords that an expression competes with.
        ignored: The ignored terminals, as a mask.
        draft: The definitions.
        terminals: The builder of terminals.
    """
    lazy = _lazy(others, draft)
    if draft.definitions[number].is_lazy:
        return Conditions(lazy=lazy)
    others = [other for other in others if other not in lazy]
    priority, text = draft.definitions[number].priority, terminals.measure(number).text
    is_ignored = ignored >> number & 1
    equal = [n for n in (*others, *words) if draft.definitions[n].priority == priority]
    finding = set[int]() if text is None else {other for other in equal if _finds(terminals, other, text)}
    found = {
        n for n in equal if (string := terminals.measure(n).text) is not None and _finds(terminals, number, string)
    }
    places = [_place(draft, terminals, n) for n in (number, *finding)]
    earlier, around = list(lazy), list[int]()
    for other in (*others, *[word for word in words if word in finding]):
        if other in finding:
            # A text that the lexer drops does not become a string any more, and a string that an expression finds is not dropped.
            (earlier if is_ignored or ignored >> other & 1 else around).append(other)
        elif other in found and not terminals.measure(other).folded:
            continue
        elif any(_may_come_first(_place(draft, terminals, other), place) for place in places):
            earlier.append(other)
    taken = () if is_ignored else tuple([other for other in equal if other in found])
    return Conditions(tuple(earlier), (), tuple(around), taken)


def _finds(terminals: Terminals, number: int, text: str) -> bool:
    """Whether a terminal is a regular expression that finds a text."""
    return terminals.measure(number).text is None and terminals.lexeme(number).has(text)


def is_word(terminals: Terminals, number: int) -> bool:
    """Whether a terminal is a string of letters, digits and `_`."""
    text = terminals.measure(number).text
    return text is not None and _WORD.fullmatch(text) is not None


def _place(draft: Draft, terminals: Terminals, number: int) -> tuple[tuple[int, int, int], str | None]:
    """Return the place of a terminal in the order, as far as its name does not matter, and its name, if that is known."""
    definition, measure = draft.definitions[number], terminals.measure(number)
    name: str | None = definition.name
    if definition.kind != "terminal":
        # Lark gives a string that looks like a name its text in capitals, and others names that depend on the rest of the
        # grammar.
        name = measure.text.upper() if is_word(terminals, number) and measure.text is not None else None
        name = None if name in draft.numbers else name
    return (-definition.priority, -measure.maximum, -measure.length), name


def _may_come_first(
    place: tuple[tuple[int, int, int], str | None], other: tuple[tuple[int, int, int], str | None]
) -> bool:
    """Whether the lexer tries the first of two terminals before the second, or may do so."""
    if place[0] != other[0]:
        return place[0] < other[0]
    return place[1] is None or other[1] is None or place[1] <= other[1]
