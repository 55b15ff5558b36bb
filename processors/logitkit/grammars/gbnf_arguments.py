"""The arguments of XGrammar's macros: strings, numbers, truth values, names of rules, and tuples of these.

TagDispatch(("<call>", call), loop_after_dispatch=false)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from logitkit.errors import GrammarError
from logitkit.grammars.gbnf_terminals import NAME, SPACE_OR_NEWLINE, read_text

__all__ = ["Argument", "Macro", "RuleName", "read_macro"]

_NUMBER = re.compile(r"[0-9]+")
_NAMED = re.compile(r"([A-Za-z_]+)[ \t\r\n]*=")

# No id of a token has more digits.
_DIGITS = 18

# How deeply tuples may contain each other; macros take one level.
_TUPLES = 4


@dataclass(frozen=True)
class RuleName:
    """The name of a rule, as an argument."""

    name: str


Value = str | int | bool | RuleName | tuple["Argument", ...]


@dataclass(frozen=True)
class Argument:
    """An argument of a macro.

    Args:
        value: The text, number, truth value, rule or tuple.
        position: Where it stands in the grammar, in characters.
    """

    value: Value
    position: int


@dataclass
class Macro:
    """A macro with its arguments.

    Args:
        name: Its name.
        position: Where it begins.
        after: Where it ends.
        arguments: Those without a name.
        named: Those with one.
    """

    name: str
    position: int
    after: int = 0
    arguments: list[Argument] = field(default_factory=list)
    named: dict[str, Argument] = field(default_factory=dict)


def read_macro(grammar: str, name: str, position: int, at: int) -> Macro:
    """Read the arguments of a macro.

    Args:
        grammar: The text of the grammar.
        name: The name of the macro.
        position: Where it begins.
        at: Where its parenthesis stands.

    Raises:
        GrammarError: They are malformed.

    Example:
        >>> macro = read_macro("Token(7, 8)", "Token", 0, 5)
        >>> [argument.value for argument in macro.arguments], macro.after
        ([7, 8], 11)
    """
    found = Macro(name, position)
    at = _skipped(grammar, at + 1)
    while not grammar.startswith(")", at):
        if found.arguments or found.named:
            at = _skipped(grammar, _comma(grammar, name, at, position))
        if (named := _NAMED.match(grammar, at)) is not None:
            if named[1] in found.named:
                raise GrammarError(f"{name}(...) has the argument {named[1]} twice", grammar, at)
            found.named[named[1]], at = _argument(grammar, name, _skipped(grammar, named.end()))
        else:
            argument, at = _argument(grammar, name, at)
            found.arguments.append(argument)
        at = _skipped(grammar, at)
    found.after = at + 1
    return found


def _argument(grammar: str, name: str, at: int, depth: int = 0) -> tuple[Argument, int]:
    """Read an argument of a macro; return it, and where it ends."""
    begin = at
    if grammar.startswith('"', at):
        text, at = read_text(grammar, at)
        return Argument(text, begin), at
    if grammar.startswith("(", at):
        if depth == _TUPLES:
            raise GrammarError(f"{name}(...) has tuples that contain each other too deeply", grammar, at)
        members: list[Argument] = []
        at = _skipped(grammar, at + 1)
        while not grammar.startswith(")", at):
            member, at = _argument(grammar, name, at, depth + 1)
            members.append(member)
            at = _skipped(grammar, at)
            if not grammar.startswith(")", at):
                at = _skipped(grammar, _comma(grammar, name, at, begin))
        return Argument(tuple(members), begin), at + 1
    if (number := _NUMBER.match(grammar, at)) is not None:
        if len(number[0]) > _DIGITS:
            raise GrammarError(f"{name}(...) has a number of more than {_DIGITS} digits", grammar, at)
        return Argument(int(number[0]), begin), number.end()
    if (word := NAME.match(grammar, at)) is not None:
        value: Value = word[0] == "true" if word[0] in ("true", "false") else RuleName(word[0])
        return Argument(value, begin), word.end()
    shown = repr(grammar[at : at + 1]) if at < len(grammar) else "the end of the grammar"
    allowed = "a string, a number, true, false, the name of a rule, or a tuple of these"
    raise GrammarError(f"{name}(...) has {shown} where an argument should be; allowed are {allowed}", grammar, at)


def _comma(grammar: str, name: str, at: int, opening: int) -> int:
    if at >= len(grammar):
        raise GrammarError(f"{name}(...) is not closed; write ) at its end", grammar, opening)
    if grammar[at] != ",":
        raise GrammarError(f"{name}(...) has {grammar[at]!r} where a comma or ) should be", grammar, at)
    return at + 1


def _skipped(grammar: str, at: int) -> int:
    found = SPACE_OR_NEWLINE.match(grammar, at)
    assert found is not None
    return found.end()
