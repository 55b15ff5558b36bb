r"""Terminals as a lexer splits a text.

A lexer takes one of the terminals that the parser may read next, or an ignored one, and never reconsiders it. Without a lexer,
this is a condition on the texts of each terminal and on what follows them: no letter follows `/[a-z]+/`, `if` is not a text of it
where `"if"` may stand, and no `=` follows `"<"` where `"<="` may stand.

These restrict a terminal, one after the other; `precedence` says which other terminals do:

1. The terminal itself must not go on.
2. Earlier terminals must not match.
3. Longer ones, and those around a string, must not go on.
4. Strings take texts from regular expressions.
5. Terminals of rules with the attribute `lazy` end all others.

By hand, for `/[a-z]+/` and `"if"`: the name ends after i, if, ifx and so on. Each end forbids `[a-z]`, and the end after if is
removed. The keyword ends after if, where it forbids `[a-z]`.

Where it is not known exactly which terminals may stand in the same place (see `competition`), or what must not follow (see
`continuations`), more is forbidden than necessary. So every text that is left is one that the lexer reads, and a few that it
reads are not left.

A JSON value of `%json` and a nested grammar are not terminals: nothing restricts what may follow them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence

from logitkit.compiler.bytes.pushdown_views import bits
from logitkit.compiler.characters.alphabet import Alphabet
from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import GrammarError
from logitkit.grammars.lark.competition import Competition
from logitkit.grammars.lark.continuations import Following
from logitkit.grammars.lark.draft import Draft
from logitkit.grammars.lark.lexeme import Lexeme
from logitkit.grammars.lark.precedence import Conditions, LexerKind, contextual_conditions, is_word, longest_conditions
from logitkit.grammars.lark.terminals import Terminals
from logitkit.limits import Limits
from logitkit.patterns.charset import ANY, CharSet
from logitkit.patterns.syntax import Alternate, Characters, Concat, Machine, Node, Repeat

__all__ = ["Lexer"]

# Stands for a JSON value or a nested grammar where it may follow.
_ANYTHING = Machine((((ANY, 1),), ()), (False, True))

# The cost of comparing two terminals.
_PAIR_STEPS = 2


class Lexer:
    """Builds the trees of terminals as a lexer reads them.

    Args:
        kind: Which lexer.
        draft: The definitions.
        terminals: The builder of terminals.
        start: The number of the rule of the whole text.
        limits: Bounds on the automata.

    Attributes:
        same: The literals that are terminals with a name, with the numbers of these.
        competition: Which terminals may stand in the same place.
        skipped: The ignored terminals.
        always: The same, as a mask.
        ignored: The trees of the ignored terminals, as they stand in some places.
        warnings: Doubts about the grammar, in sentences.

    Raises:
        GrammarError: A terminal is not valid, or other terminals leave it no text.
        PatternTooLarge: A limit is exceeded.
    """

    def __init__(self, kind: LexerKind, draft: Draft, terminals: Terminals, start: int, limits: Limits) -> None:
        self.kind, self.draft, self.terminals, self.limits = kind, draft, terminals, limits
        self.same = draft.same_terminals()
        self.warnings: list[str] = []
        self.competition = Competition(draft, start, self.same, terminals.may_be_empty, limits)
        self._rivals = self._without_empty_limited(start)
        self.skipped = list(dict.fromkeys([self.same.get(n, n) for n in draft.ignored]))
        self.always = sum([1 << number for number in self.skipped])
        every = dict.fromkeys([*self.competition.terminals, *self.skipped])
        compared = [number for number in every if not terminals.has_no_lexeme(number)]
        first = {number: terminals.lexeme(number).first for number in compared}
        members = Alphabet.of(first.values()).members
        # The characters with which each begins, as masks.
        self._first = {number: members[charset] for number, charset in first.items()}
        self._expressions = [number for number in compared if terminals.measure(number).text is None]
        self._words = sum([1 << n for n in compared if is_word(terminals, n)])
        self._names = sum([1 << n for n in self._expressions])
        # Strings that begin alike are together.
        texts = [(terminals.measure(number).text, number) for number in compared]
        self._strings = sorted([(text.lower(), number) for text, number in texts if text is not None])
        self._lengths = {len(text) for text, _ in self._strings}
        self._following: dict[int, Following] = {}
        self._overlapping: dict[int, list[int]] = {}
        self._own: dict[int, Lexeme] = {}
        self._longer: dict[int, Lexeme] = {}
        self._known: dict[tuple[int, Conditions, int], Lexeme] = {}
        self._same: dict[Hashable, Lexeme] = {}
        self.ignored: list[list[Node]] = []
        self._groups = self._grouped()

    def tree(self, number: int) -> Node:
        """Return the tree of a terminal as rules use it, which may have no text."""
        if self.terminals.has_no_lexeme(number):
            return self.terminals.tree(number)
        lexeme = self._restricted(number, *self.rivals(number), self.competition.after[number])
        # Lark drops what is ignored even where the parser would read it.
        if lexeme.is_empty or (self.kind == "contextual" and self.is_ignored(number)):
            self._has_no_text(number)
            return Characters(CharSet())
        return lexeme.tree()

    def rivals(self, number: int) -> tuple[list[int], list[int]]:
        """Return which terminals may stand in the same place as one and read the beginning of a text of it, or perhaps do.

        Returns:
            The rivals, and further expressions with which a keyword competes, or keywords with which an expression does: a
            keyword competes with those after the same terminal anywhere. That makes fewer and smaller automata.
        """
        others = self._rivals.rivals(number) | self.always
        further = self._names if self._words >> number & 1 else self._words
        further &= self._rivals.neighbours(number) & ~others
        overlapping = self._overlapping_with(number)
        return [n for n in overlapping if others >> n & 1], [n for n in overlapping if further >> n & 1]

    def _without_empty_limited(self, start: int) -> Competition:
        """Return which terminals compete, if those with a limit of tokens are never empty.

        Where such a terminal is empty, nothing follows with which it could go on. So it does not compete with what follows, and
        must not forbid texts where the limit has ended it.
        """
        may_be_empty = self.terminals.may_be_empty
        limited = {n for n in self.competition.terminals if self.draft.definitions[n].is_limited and may_be_empty(n)}
        if not limited:
            return self.competition
        return Competition(
            self.draft, start, self.same, lambda number: number not in limited and may_be_empty(number), self.limits
        )

    def is_ignored(self, number: int) -> bool:
        """Whether a terminal is ignored."""
        return bool(self.always >> number & 1)

    def ignored_after(self, number: int | None) -> int:
        """Return which trees of `ignored` stand after a terminal, or at the beginning for None."""
        return self._groups[number]

    def _grouped(self) -> dict[int | None, int]:
        """Find the ignored terminals after each terminal."""
        found: dict[int | None, int] = {}
        numbers: dict[tuple[int, ...], int] = {}
        known: dict[int, int] = {}
        if not self.skipped:
            return found
        for number in (None, *self.competition.terminals):
            after = self.competition.first if number is None else self.competition.after[number]
            if after not in known:
                lexemes = [self._ignored_beside(skipped, after) for skipped in self.skipped]
                # Equal ones are one object.
                known[after] = numbers.setdefault(tuple(map(id, lexemes)), len(numbers))
                if known[after] == len(self.ignored):
                    self.ignored.append([lexeme.tree() for lexeme in lexemes if not lexeme.is_empty])
            found[number] = known[after]
        return found

    def rivals_of_ignored(self, number: int, others: int) -> list[int]:
        """Return which terminals begin like an ignored one, or perhaps do, where others may stand, given as a mask."""
        return [n for n in self._overlapping_with(number) if (others | self.always) >> n & 1]

    def _ignored_beside(self, number: int, others: int) -> Lexeme:
        """Return an ignored terminal where others, a mask, may stand too."""
        return self._restricted(number, self.rivals_of_ignored(number, others), [], others)

    def _restricted(self, number: int, others: list[int], words: list[int], after: int) -> Lexeme:
        """Return a terminal beside others; for these see `rivals`. The terminals that may follow are a mask."""
        if self.kind == "longest":
            conditions = longest_conditions(number, others, words, self.draft, self.terminals)
        else:
            conditions = contextual_conditions(number, others, words, self.always, self.draft, self.terminals)
        key = number, conditions, after
        found = self._known.get(key)
        if found is None:
            found = self._own_lexeme(number)
            following = self._following_after(after)
            plain = Lexeme.of_machine(found.machine)
            beside = self._beside(plain, number, conditions, following)
            if beside is not plain:
                found = beside.both(found, self.limits)
            if not after >> self.competition.end & 1:
                found = found.followed_by(following)
            # Equal ones are one object.
            found = self._known[key] = self._same.setdefault((number, found.machine.moves, found.forbidden), found)
        return found

    def _beside(self, lexeme: Lexeme, number: int, conditions: Conditions, following: Following) -> Lexeme:
        """Return a terminal under the conditions of others."""
        limits, terminals = self.limits, self.terminals
        exact = self.kind == "contextual" or not self._words >> number & 1
        found = lexeme
        for other in conditions.earlier:
            found = found.unless(terminals.lexeme(other), exact, following, limits)
        for other in conditions.longer:
            if self._goes_on(number, other):
                found = found.longest(terminals.lexeme(other), exact, following, limits)
        for other in conditions.around:
            found = found.within(terminals.lexeme(other), exact, following, limits)
        for other in conditions.lazy:
            found = found.without(self._longer_than(other), limits)
        if conditions.taken:
            found = found.without(self._any_of(conditions.taken), limits)
        return found

    def _overlapping_with(self, number: int) -> list[int]:
        """Return the other terminals that read the beginning of a text of a terminal, or perhaps do."""
        found = self._overlapping.get(number)
        if found is None:
            first, text = self._first[number], self.terminals.measure(number).text
            if text is None:
                strings = [string for _, string in self._strings]
            else:
                text = text.lower()
                strings = self._strings_from(text, longer=True)
                self.limits.spend(len(self._lengths))
                for end in self._lengths:
                    if 0 < end < len(text):
                        strings += self._strings_from(text[:end], longer=False)
            self.limits.spend(_PAIR_STEPS * (len(strings) + len(self._expressions)))
            every = (*self._expressions, *strings)
            found = self._overlapping[number] = [n for n in every if n != number and self._first[n] & first]
        self.limits.spend(len(found))
        return found

    def _strings_from(self, text: str, longer: bool) -> list[int]:
        """Return the strings that begin with a text, or that are equal to it."""
        found: list[int] = []
        for at in range(bisect_left(self._strings, (text, -1)), len(self._strings)):
            other, number = self._strings[at]
            if not (other.startswith(text) if longer else other == text):
                break
            found.append(number)
        return found

    def _goes_on(self, number: int, other: int) -> bool:
        """Whether another terminal may go on after a text of a terminal, where that does not forbid it anyway."""
        if self.terminals.measure(other).text is None:
            return True
        own = self._own_lexeme(number)
        states = {0}
        for ((charset, _),) in self.terminals.lexeme(other).machine.moves[:-1]:
            for state in states:
                forbidden = own.forbidden[state]
                if forbidden is not None and charset - forbidden.now:
                    return True
            states = {target for state in states for read, target in own.machine.moves[state] if read & charset}
        return False

    def _own_lexeme(self, number: int) -> Lexeme:
        """Return a terminal that does not go on."""
        found = self._own.get(number)
        if found is None:
            found = self.terminals.lexeme(number)
            machine = found.machine
            if any(row for row, ends in zip(machine.moves, machine.accepting, strict=True) if ends):
                found = found.longest(found, self.kind == "contextual", None, self.limits)
            self._own[number] = found
        return found

    def _any_of(self, numbers: Sequence[int]) -> Lexeme:
        """Return the texts of some strings as one lexeme."""
        lexemes = [self.terminals.lexeme(number) for number in numbers]
        if len(lexemes) == 1:
            return lexemes[0]
        tree = Alternate(tuple([lexeme.machine for lexeme in lexemes]))
        return Lexeme.of_machine(TextLanguage.of_tree(tree, self.limits).machine())

    def _longer_than(self, number: int) -> Lexeme:
        """Return all texts that go on after one of a terminal."""
        if number not in self._longer:
            tree = Concat((self.terminals.lexeme(number).machine, Repeat(Characters(ANY), 1, None)))
            self._longer[number] = Lexeme.of_machine(TextLanguage.of_tree(tree, self.limits).machine())
        return self._longer[number]

    def _has_no_text(self, number: int) -> None:
        """Warn of a terminal that the lexer never reads, or raise."""
        definition = self.draft.definitions[number]
        reason = f"the terminal {definition.name} has no text, because others match all of its texts and come first"
        if self.kind == "longest":
            raise GrammarError(
                f"{reason}; leave it out, or change the priorities", self.draft.grammar, definition.begin
            )
        if self.is_ignored(number):
            reason = f"the terminal {definition.name} has no text in rules, because it is ignored"
        self.warnings.append(reason)

    def _following_after(self, after: int) -> Following:
        """Return the texts of some terminals, given as a mask, and of the ignored ones before them."""
        found = self._following.get(after)
        if found is None:
            numbers = bits((after | self.always) & ~(1 << self.competition.end))
            values = [_ANYTHING for n in numbers if self.draft.definitions[n].kind in ("json", "lark")]
            lexemes = [self.terminals.lexeme(n) for n in numbers if not self.terminals.has_no_lexeme(n)]
            found = Following([(machine, 0) for machine in (*values, *[lexeme.machine for lexeme in lexemes])])
            self._following[after] = found
        return found
