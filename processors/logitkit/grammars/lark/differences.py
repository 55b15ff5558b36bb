"""Where the longest match is not what Lark's lexers do, said in one sentence.

Both lexers of `precedence` read a text in the same way, unless Lark's order of terminals matters: for two regular expressions
with a text in common, for an expression that comes before a string and finds a part of it, for options that are tried in order,
and for ignored terminals in rules.
"""

from __future__ import annotations

from collections.abc import Iterator

from logitkit.compiler.text_language import TextLanguage
from logitkit.grammars.lark.lexeme import Lexeme
from logitkit.grammars.lark.lexer import Lexer
from logitkit.grammars.lark.precedence import contextual_conditions, longest_conditions

__all__ = ["difference"]

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
        found = terminals.found(number) if terminals.measure(number).text is None else None
        if found is not None:
            lost = TextLanguage.of_tree(terminals.lexeme(number).machine, lexer.limits) - found
            if not lost.is_empty:
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
    for other in theirs.earlier:
        if other not in ours.earlier and (text := _beginning(lexer, terminals.lexeme(number), terminals.lexeme(other))):
            yield f"read {text!r} as {draft.definitions[other].name} where {name} may begin with it too"
    for other in theirs.taken:
        if other not in ours.taken:
            yield f"read {draft.definitions[other].name} as that string and never as {name}"


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
