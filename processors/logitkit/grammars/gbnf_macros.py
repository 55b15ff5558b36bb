"""XGrammar's macros, which stand in the bodies of rules like calls of functions.

    root ::= TagDispatch(("<call>", call), excludes=("<end>",)) "<end>"
    call ::= Regex("[a-z]{1,9}") "</call>"

Each becomes a tree of what GBNF has already. `Regex` and `Substring` are automata over characters, and `Token(7)` is `<[7]>`.
`TagDispatch` is a graph with the states of a search for its tags, from which free text goes on or a rule is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from logitkit.compiler.characters.text_search import Search
from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import GrammarError, PatternSyntaxError
from logitkit.grammars.gbnf_arguments import Argument, Macro, RuleName
from logitkit.grammars.substrings import parts_of
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import alternate, concatenate, repeat
from logitkit.patterns.syntax import Call, Characters, Graph, Machine, Node

__all__ = ["GrammarNames", "tree_of_macro"]

# The characters that stand for themselves in strings of JSON.
_IN_JSON = CharSet(((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x10FFFF)))

_FLAGS = "isu"


class GrammarNames(Protocol):
    """The part of a grammar that its macros need."""

    limits: Limits

    def number(self, name: str, position: int) -> int:
        """Return the number of a rule."""

    def symbol_of(self, token: str | int) -> int:
        """Return the symbol of a special token."""

    def others(self, tokens: Sequence[int], repeated: bool, position: int) -> Node:
        """Return the tree of one token that is not one of some tokens, by their ids."""


def tree_of_macro(macro: Macro, names: GrammarNames, grammar: str, repeated: bool) -> Node:
    """Return the tree of a macro.

    Args:
        macro: The macro with its arguments.
        names: The grammar, which knows rules and tokens.
        grammar: The text of the grammar, for errors.
        repeated: Whether the macro is repeated by `*` or `+`.

    Raises:
        GrammarError: An argument is not allowed; the error shows where it stands.
        PatternTooLarge: A limit is exceeded.
    """
    return _TREES[macro.name](_Use(macro, names, grammar, repeated))


@dataclass(frozen=True)
class _Use:
    """A macro in a grammar; see `tree_of_macro`."""

    macro: Macro
    names: GrammarNames
    grammar: str
    repeated: bool

    def error(self, reason: str, position: int | None = None) -> GrammarError:
        """Return the error for this use."""
        where = self.macro.position if position is None else position
        return GrammarError(f"{self.macro.name}(...) {reason}", self.grammar, where)

    def option(self, name: str, default: bool | str | tuple[Argument, ...]) -> Argument:
        """Return an argument with a name, whose type is that of its default."""
        found = self.macro.named.get(name, Argument(default, self.macro.position))
        if type(found.value) is not type(default):
            allowed = {bool: "true or false", str: "a string", tuple: "a tuple, such as (1, 2)"}[type(default)]
            raise self.error(f"takes {allowed} as {name}", found.position)
        return found

    def allow(self, *names: str) -> None:
        """Refuse other arguments with names."""
        for name, argument in self.macro.named.items():
            if name not in names:
                allowed = f"allowed are {', '.join(names)}" if names else "it takes none with a name"
                raise self.error(f"has the argument {name}; {allowed}", argument.position)

    def texts(self, arguments: Sequence[Argument], empty: bool) -> list[str]:
        """Return arguments as texts."""
        for argument in arguments:
            if not isinstance(argument.value, str) or not (argument.value or empty):
                raise self.error(f"takes strings{'' if empty else ' that are not empty'} here", argument.position)
        return [str(argument.value) for argument in arguments]

    def ids(self, arguments: Sequence[Argument]) -> list[int]:
        """Return arguments as the ids of tokens."""
        found = []
        for argument in arguments:
            if not isinstance(argument.value, int) or isinstance(argument.value, bool):
                raise self.error("takes the ids of tokens, such as 7, here", argument.position)
            found.append(argument.value)
        self.names.limits.check_states(len(found))
        return list(dict.fromkeys(found))

    def pairs(self, first: str) -> list[tuple[Argument, Node]]:
        """Return the arguments as pairs of a trigger and the call of a rule."""
        found: list[tuple[Argument, Node]] = []
        for argument in self.macro.arguments:
            match argument.value:
                case (Argument() as trigger, Argument(RuleName(name), position)):
                    found.append((trigger, Call(self.names.number(name, position))))
                case _:
                    raise self.error(f"takes pairs of {first} and the name of a rule", argument.position)
        return found


def _regex(use: _Use) -> Node:
    r"""Return the texts that match a pattern, with classes such as `\w` in ASCII, as in XGrammar."""
    use.allow("flags", "json_string")
    if len(use.macro.arguments) != 1:
        raise use.error("takes one string")
    (pattern,) = use.texts(use.macro.arguments, empty=True)
    # Only with flags does `.` exclude the line break.
    flags = str(use.option("flags", "s").value)
    if unknown := [flag for flag in flags if flag not in _FLAGS]:
        raise use.error(
            f"has the flag {unknown[0]!r}; allowed are {', '.join(_FLAGS)}", use.macro.named["flags"].position
        )
    ignored = "i" in flags or pattern.startswith("(?i)")
    inline = "a" + "s" * ("s" in flags) + "i" * ignored
    limits, position = use.names.limits, use.macro.arguments[0].position
    try:
        found = TextLanguage.of_pattern(f"(?{inline}:{pattern.removeprefix('(?i)')})", limits)
    except PatternSyntaxError as error:
        raise use.error(f"has a pattern that cannot be read: {error.reason}", position) from error
    if use.option("json_string", False).value:
        found &= TextLanguage.of_tree(Machine((((_IN_JSON, 0),),), (True,)), limits)
    if found.is_empty:
        raise use.error("has a pattern that matches no text", position)
    return found.machine()


def _substring(use: _Use) -> Node:
    use.allow()
    return parts_of([text for text in use.texts(use.macro.arguments, empty=True) if text], use.names.limits)


def _token(use: _Use) -> Node:
    use.allow()
    return Characters(CharSet.of((symbol, symbol) for symbol in map(use.names.symbol_of, _some_ids(use))))


def _exclude_token(use: _Use) -> Node:
    use.allow()
    return use.names.others(_some_ids(use), use.repeated, use.macro.position)


def _some_ids(use: _Use) -> list[int]:
    if not use.macro.arguments:
        raise use.error("takes the ids of one token or more")
    return use.ids(use.macro.arguments)


def _tag_dispatch(use: _Use) -> Node:
    """Return free text in which each tag is followed by its rule."""
    use.allow("loop_after_dispatch", "excludes")
    pairs, limits = use.pairs("a string"), use.names.limits
    tags = use.texts([tag for tag, _ in pairs], empty=False)
    excludes = use.option("excludes", ()).value
    assert isinstance(excludes, tuple)
    excluded = use.texts(excludes, empty=False)
    for (tag, _), text in zip(pairs, tags, strict=True):
        _check_tag(use, tag.position, text, tags, excluded)
    search = Search.of([[tuple(map(ord, text))] for text in (*tags, *excluded)], (), limits)
    # The last state is that after a rule after which nothing follows.
    after = 0 if use.option("loop_after_dispatch", True).value else len(search.moves)
    rows: list[tuple[tuple[Node, int], ...]] = []
    for moves, found in zip(search.moves, search.found, strict=True):
        row: list[tuple[Node, int]] = [(Characters(charset), target) for charset, target in moves]
        for charset, which in found:
            if max(which) < len(tags):
                longest = max(len(tags[number]) for number in which)
                calls = [pairs[number][1] for number in which if len(tags[number]) == longest]
                row.append((concatenate([Characters(charset), alternate(calls)]), after))
        rows.append(tuple(row))
    return Graph((*rows, ()), (True,) * (len(rows) + 1))


def _check_tag(use: _Use, position: int, text: str, tags: Sequence[str], excluded: Sequence[str]) -> None:
    """Refuse a tag before whose end another tag is complete, so that it is unclear which counts, or an excluded text is."""
    use.names.limits.spend(len(text) * (len(tags) + len(excluded)))
    for other in tags:
        if 0 <= text.find(other) < len(text) - len(other):
            raise use.error(f"has the tag {text!r}, which contains the tag {other!r}; leave one of them out", position)
    for other in excluded:
        if text.startswith(other):
            raise use.error(f"has the tag {text!r}, which begins with the excluded text {other!r}", position)


def _token_tag_dispatch(use: _Use) -> Node:
    """Return free text and tokens, in which each trigger, a token, is followed by its rule."""
    use.allow("loop_after_dispatch", "excludes")
    pairs, excludes = use.pairs("the id of a token"), use.option("excludes", ()).value
    assert isinstance(excludes, tuple)
    triggers, excluded = use.ids([trigger for trigger, _ in pairs]), use.ids(excludes)
    if len(triggers) < len(pairs) or set(triggers) & set(excluded):
        raise use.error("has a token twice; each may be one trigger, or excluded")
    names = use.names
    free = repeat(names.others([*triggers, *excluded], True, use.macro.position), 0, None, "greedy", use.macro.position)
    symbols = [CharSet.single(names.symbol_of(trigger)) for trigger in triggers]
    tags = [concatenate([Characters(symbol), call]) for symbol, (_, call) in zip(symbols, pairs, strict=True)]
    if not tags:
        return free
    if use.option("loop_after_dispatch", True).value:
        more = concatenate([alternate(tags), free])
        return concatenate([free, repeat(more, 0, None, "greedy", use.macro.position)])
    return concatenate([free, repeat(alternate(tags), 0, 1, "greedy", use.macro.position)])


_TREES: dict[str, Callable[[_Use], Node]] = {
    "ExcludeToken": _exclude_token,
    "Regex": _regex,
    "Substring": _substring,
    "TagDispatch": _tag_dispatch,
    "Token": _token,
    "TokenTagDispatch": _token_tag_dispatch,
}
