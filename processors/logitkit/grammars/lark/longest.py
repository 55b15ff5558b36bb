r"""Longest match: terminals as a lexer splits a text.

A lexer reads `forx` as one name, although the grammar may allow the keyword `for` and then the name `x`. Three conditions on the
next character say this without a lexer, each on the end of a terminal:

1. *Itself.* No character may follow with which the terminal's own automaton could go on: no letter after `/[a-z]+/`.
2. *Keywords.* A keyword is a string of letters, digits and `_`. No character may follow it with which a regular expression or
   a longer keyword could go on that may stand in the same place (see `competition`). If a regular expression matches all of the
   keyword, it loses that text, unless its priority is higher; then the keyword loses it.
3. *Ignored.* No character may follow with which an ignored terminal that began at the same place could go on: with comments
   `/--.*/`, no `-` after the operator `-`.

By hand, for `/[a-z]+/` and `"if"`: the name ends after i, if, ifx and so on. Each end forbids `[a-z]`, and the end after if is
removed. The keyword ends after if, where it forbids `[a-z]`. In a place where `"or"i` and `"order"i` may stand, no `d` follows
the first.

These conditions see one character. After `1` the automaton of `/[0-9]+(\.[0-9]+)?/` could go on with a dot, so `1..2` is not
allowed, even where `..` is an operator; a lexer that can go back reads it. LLGuidance decides as here. Two other terminals that
begin alike, such as `"<"` and `"<="`, do not restrict each other.

A JSON value of `%json` is not a terminal: nothing restricts what may follow it.

A lazy quantifier says itself where its terminal ends, so condition 1 leaves it alone.
"""

from __future__ import annotations

from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import GrammarError
from logitkit.grammars.lark.competition import Competition
from logitkit.grammars.lark.draft import Draft
from logitkit.grammars.lark.lexeme import Lexeme
from logitkit.grammars.lark.terminals import Terminals
from logitkit.limits import Limits
from logitkit.patterns.charset import ANY, CharSet
from logitkit.patterns.syntax import Alternate, Call, Machine, Node
from logitkit.patterns.unicode_classes import perl_class

__all__ = ["LongestMatch"]

# What a pair of states costs.
_PAIR_STEPS = 10


class LongestMatch:
    """Builds the trees of terminals under longest match.

    Args:
        draft: The definitions.
        terminals: The builder of terminals.
        start: The number of the rule of the whole text.
        limits: Bounds on the automata.

    Raises:
        GrammarError: A terminal is not valid, or other terminals leave it no text.
        PatternTooLarge: A limit is exceeded.
    """

    def __init__(self, draft: Draft, terminals: Terminals, start: int, limits: Limits) -> None:
        self.draft = draft
        self.terminals = terminals
        self.limits = limits
        competition = Competition(draft, start, limits)
        used = [n for n in competition.terminals if not terminals.has_no_lexeme(n)]
        self.lexemes = {number: self._own(number) for number in dict.fromkeys([*used, *draft.ignored])}
        plain = {number: lexeme.machine for number, lexeme in self.lexemes.items()}
        # What each terminal must not be the beginning of, and the texts that it loses.
        longer: dict[int, list[Machine]] = {n: [] for n in plain}
        lost: dict[int, list[Machine]] = {n: [] for n in plain}
        for number in used:
            longer[number] += [plain[n] for n in draft.ignored]
        no_word = ~perl_class("w", False) if used else ANY
        words = [n for n in used if self._is_word(n, no_word)]
        names = {n for n in used if not self._is_string(n)}
        for word in words:
            rivals = competition.rivals(word)
            limits.spend(len(names) + len(words))
            for other in [n for n in (*names, *words) if rivals >> n & 1 and n != word]:
                pairs = _beside(plain[word], plain[other], limits)
                if any(plain[word].accepting[a] and plain[other].moves[b] for a, b in pairs):
                    longer[word].append(plain[other])
                if other in names and any(plain[word].accepting[a] and plain[other].accepting[b] for a, b in pairs):
                    wins = draft.definitions[other].priority > draft.definitions[word].priority
                    lost[word if wins else other].append(plain[other if wins else word])
        for number in self.lexemes:
            self.lexemes[number] = self._restricted(number, longer[number], lost[number])

    def tree(self, number: int) -> Node:
        """Return the tree of a terminal as rules use it."""
        return self.lexemes[number].tree() if number in self.lexemes else self.terminals.tree(number)

    def _own(self, number: int) -> Lexeme:
        lexeme = self.terminals.lexeme(number)
        goes_on = any(row for row, ends in zip(lexeme.machine.moves, lexeme.machine.accepting, strict=True) if ends)
        return lexeme.longest(lexeme.machine, self.limits) if goes_on and not self.terminals.is_lazy(number) else lexeme

    def _restricted(self, number: int, longer: list[Machine], lost: list[Machine]) -> Lexeme:
        lexeme = self.lexemes[number]
        if others := self._union(lexeme, longer):
            lexeme = lexeme.longest(others, self.limits)
        if others := self._union(lexeme, lost):
            lexeme = lexeme.without(others, self.limits)
        if not any(lexeme.machine.accepting):
            definition = self.draft.definitions[number]
            reason = f"the terminal {definition.name} has no text, because others match all of its texts and come first"
            reason = f"{reason}; leave it out, or change the priorities"
            raise GrammarError(reason, self.draft.grammar, definition.begin)
        return lexeme

    def _union(self, lexeme: Lexeme, machines: list[Machine]) -> Machine | None:
        """Return the union of those machines that a terminal may begin like; None if there are none."""
        first = CharSet.union([c for c, _ in lexeme.machine.moves[0]])
        kept = [m for m in dict.fromkeys(machines) if any(first & c for c, _ in m.moves[0])]
        if not kept:
            return None
        if len(kept) == 1:
            return kept[0]
        return TextLanguage.of_tree(Alternate(tuple(kept)), self.limits).machine()

    def _is_string(self, number: int) -> bool:
        definition = self.draft.definitions[number]
        if isinstance(definition.body, Call):
            definition = self.draft.definitions[definition.body.definition]
        return definition.kind == "string"

    def _is_word(self, number: int, no_word: CharSet) -> bool:
        """Whether a terminal is a string of letters, digits and `_`."""
        moves = self.lexemes[number].machine.moves
        return self._is_string(number) and not any(charset & no_word for row in moves for charset, _ in row)


def _beside(first: Machine, second: Machine, limits: Limits) -> list[tuple[int, int]]:
    """Return the states that two automata reach with the same texts."""
    pairs = [(0, 0)]
    seen = set(pairs)
    for a, b in pairs:
        limits.spend(_PAIR_STEPS)
        for mine, target in first.moves[a]:
            fresh = {(target, t) for others, t in second.moves[b] if mine & others} - seen
            seen |= fresh
            pairs.extend(fresh)
    return pairs
