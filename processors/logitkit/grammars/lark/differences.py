"""Advice on grammars in Lark's syntax: regular expressions, and where the longest match is not what Lark's lexers do."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

from logitkit.compiler.text_language import TextLanguage
from logitkit.grammars.lark.lexeme import Lexeme
from logitkit.grammars.lark.lexer import Lexer
from logitkit.grammars.lark.parse import parse_lark
from logitkit.grammars.lark.precedence import contextual_conditions, longest_conditions
from logitkit.limits import DEFAULT_LIMITS
from logitkit.patterns.advice import beyond_ascii
from logitkit.patterns.charset import CharSet
from logitkit.patterns.syntax import Alternate, Characters, Repeat

__all__ = ["difference", "lark_advice"]


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


# The cost of a pair of transitions.
_PAIR_STEPS = 3


def difference(lexer: Lexer) -> str | None:
    """Return a sentence on a text that Lark's contextual lexer reads in another way, or None.

    Keywords in upper and lower case at once are left out of account.

    Args:
        lexer: The lexer "longest" of a grammar.

    Raises:
        PatternTooLarge: Looking for it takes too much work.
    """
    found = next(_differences(lexer), None)
    if found is None:
        return None
    advice = "pass lexer='contextual' to split texts as Lark's contextual lexer does, or lexer='longest' for the longest match"
    return f"Lark's lexers {found}, unlike here; {advice}"


def _differences(lexer: Lexer) -> Iterator[str]:
    draft, terminals = lexer.draft, lexer.terminals
    for number in lexer.competition.terminals:
        if terminals.has_no_lexeme(number):
            continue
        name = draft.definitions[number].name
        if lexer.is_ignored(number):
            yield f"ignore {name} even where a rule has it"
        yield from _beside_others(lexer, number)
        yield from _in_order(lexer, number)
    for number in lexer.skipped:
        yield from _where_ignored(lexer, number)
        yield from _in_order(lexer, number)


def _in_order(lexer: Lexer, number: int) -> Iterator[str]:
    """Yield what Lark never finds because it tries the options of an expression in order."""
    terminals = lexer.terminals
    found = terminals.found(number) if terminals.measure(number).text is None else None
    if found is not None:
        lost = TextLanguage.of_tree(terminals.lexeme(number).machine, lexer.limits) - found
        if not lost.is_empty:
            name = lexer.draft.definitions[number].name
            yield f"try the options of {name} in order, and never find {_shortest(lost)!r}"


def _beside_others(lexer: Lexer, number: int) -> Iterator[str]:
    """Yield what Lark reads in another way because other terminals may stand in the place of one."""
    draft, terminals = lexer.draft, lexer.terminals
    others, words = lexer.rivals(number)
    if not others and not words:
        return
    name = draft.definitions[number].name
    theirs = contextual_conditions(number, others, words, lexer.always, draft, terminals)
    ours = longest_conditions(number, others, words, draft, terminals)
    yield from _taken_first(lexer, number, [other for other in theirs.earlier if other not in ours.earlier])
    for other in theirs.taken:
        if other not in ours.taken:
            yield f"read {draft.definitions[other].name} as that string and never as {name}"


def _where_ignored(lexer: Lexer, number: int) -> Iterator[str]:
    """Yield what Lark reads in another way where an ignored terminal may stand."""
    draft, terminals, competition = lexer.draft, lexer.terminals, lexer.competition
    places = dict.fromkeys((competition.first, *competition.after.values()))
    for rivals in dict.fromkeys([tuple(lexer.rivals_of_ignored(number, others)) for others in places]):
        theirs = contextual_conditions(number, rivals, (), lexer.always, draft, terminals)
        ours = longest_conditions(number, rivals, (), draft, terminals)
        are_blank = cache(partial(_are_blank, lexer, rivals))
        for other in theirs.earlier:
            characters = _characters(lexer, number) | _characters(lexer, other)
            if other not in ours.earlier and not (lexer.is_ignored(other) and are_blank(characters)):
                yield from _taken_first(lexer, number, [other])


def _are_blank(lexer: Lexer, rivals: tuple[int, ...], characters: CharSet) -> bool:
    """Whether characters are ignored in any order, so that it does not matter which of two ignored terminals is read.

    They begin nothing that is not ignored, and no ignored terminal goes on from them to others, as a comment after a blank.
    """
    begun = [n for n in dict.fromkeys((*lexer.skipped, *rivals)) if lexer.terminals.lexeme(n).first & characters]
    if any(not lexer.is_ignored(n) or _characters(lexer, n) - characters for n in begun):
        return False
    ignored = Alternate(tuple([lexer.terminals.lexeme(n).machine for n in begun]))
    every, read = (
        TextLanguage.of_tree(Repeat(tree, 0, None), lexer.limits) for tree in (Characters(characters), ignored)
    )
    return (every - read).is_empty


def _characters(lexer: Lexer, number: int) -> CharSet:
    """Return all characters of the texts of a terminal."""
    moves = lexer.terminals.lexeme(number).machine.moves
    return CharSet.union([charset for row in moves for charset, _ in row])


def _taken_first(lexer: Lexer, number: int, earlier: list[int]) -> Iterator[str]:
    """Yield what Lark reads as one of the terminals that it tries earlier than another one."""
    draft, terminals = lexer.draft, lexer.terminals
    name = draft.definitions[number].name
    for other in earlier:
        if text := _beginning(lexer, terminals.lexeme(number), terminals.lexeme(other)):
            yield f"read {text!r} as {draft.definitions[other].name} where {name} may begin with it too"


def _beginning(lexer: Lexer, lexeme: Lexeme, other: Lexeme) -> str:
    """Return a text of another lexeme, not empty, with which a text of a lexeme begins, or the empty text."""
    reached = [(0, 0, "")]
    seen = set[tuple[int, int]]()
    for state, beside, text in reached:
        for charset, target in lexeme.machine.moves[state]:
            lexer.limits.spend(_PAIR_STEPS * len(other.machine.moves[beside]))
            for read, after in other.machine.moves[beside]:
                both = charset & read
                if both and (target, after) not in seen:
                    seen.add((target, after))
                    longer = text + chr(both.ranges[0][0])
                    if other.machine.accepting[after]:
                        return longer
                    reached.append((target, after, longer))
    return ""


def _shortest(language: TextLanguage) -> str:
    """Return a shortest text of a language."""
    machine = language.machine()
    reached = [(0, "")]
    seen = {0}
    for state, text in reached:
        if machine.accepting[state]:
            return text
        fresh = [(charset, target) for charset, target in machine.moves[state] if target not in seen]
        seen.update(target for _, target in fresh)
        reached.extend((target, text + chr(charset.ranges[0][0])) for charset, target in fresh)
    raise AssertionError("the language is not empty")
