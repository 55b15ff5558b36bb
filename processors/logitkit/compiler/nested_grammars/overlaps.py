"""Calls and words that begin alike in a state of a part, so that the automaton must follow several states at once.

There are two such cases:

- A bracket begins calls of several rules, such as the objects of an `anyOf`. The automaton calls all of them together. Each
  end of the call says which of them the text belongs to, and the automaton continues in the states after these.
- A word is also one of the strings that the state calls. For example, one branch of a schema lists the name `"a"`, and another
  branch accepts any name. Then `"a"` leads to the states of both branches, and the state calls all strings but `"a"`.

So a state of the result is a set of states of the given automaton. Most of these sets have one member.

By hand: state 0 reads the word `"a"` and leads to state 1, or calls any string and continues in state 2. In the result, `"a"`
leads to the set {1, 2}, and the quote calls all strings but `"a"` and continues in {2}.

Invariants: where a call or a word begins like other text, it is written in place first (`unfolding`). So a character of the
result begins a call or is read, but not both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from logitkit.budget import spent, took
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.compiler.characters.symbols import shared_symbols, split
from logitkit.compiler.nested_grammars.nested_grammar import NestedGrammar, Strings
from logitkit.compiler.nested_grammars.part import Bracket, Called, Part
from logitkit.compiler.nested_grammars.tree_dfa import TreeDfa
from logitkit.compiler.nested_grammars.unfolding import Row, Unfolding
from logitkit.limits import Limits

__all__ = ["Resolver"]

# The cost of a set of states, in steps: by itself, and for each state in it.
SET_STEPS, MEMBER_STEPS = 40, 2


class Resolver:
    """Builds a part from an automaton over characters and other symbols.

    Args:
        tree: The automaton.
        grammar: The grammar.
        limits: Bounds on the part.
        marks_of: Returns the sets of marks, as bits, that the ends of a call may have.
        tree_of: Returns the automaton of a rule or a word, without its first character, given its symbol.
    """

    def __init__(
        self,
        tree: TreeDfa,
        grammar: NestedGrammar,
        limits: Limits,
        marks_of: Callable[[Called], Iterable[int]],
        tree_of: Callable[[int], TreeDfa],
    ) -> None:
        assert tree.dfa is not None
        self.marks_of = marks_of
        self.accepting = frozenset([state for state, accepts in enumerate(tree.dfa.accepting) if accepts])
        self.grammar, self.limits = grammar, limits
        self.unfolding = Unfolding(tree, grammar, limits, tree_of)
        self.number: dict[frozenset[int], int] = {frozenset([0]): 0}
        self.work, self.left = 0, limits.work - spent()
        self.sets = [frozenset([0])]
        self.single = {0: 0}
        self.words: dict[tuple[Called, int], int] = {}

    def _state(self, members: frozenset[int] | set[int]) -> int:
        if len(members) == 1:
            (member,) = members
            found = self.single.get(member)
            return self._single(member) if found is None else found
        return self._several(frozenset(members))

    def _single(self, member: int) -> int:
        found = self.single[member] = self._several(frozenset([member]))
        return found

    def _several(self, members: frozenset[int]) -> int:
        found = self.number.setdefault(members, len(self.sets))
        if found == len(self.sets):
            self.limits.check_states(found)
            self._charge(SET_STEPS + MEMBER_STEPS * len(members))
            self.sets.append(members)
        return found

    def _charge(self, steps: int) -> None:
        # Looking at the limits for each set would take long; the functions that are called meanwhile count their own work.
        self.work += steps
        if self.work > self.left:
            self.limits.check_work(self.work)

    def part(self) -> Part:
        """Return the part.

        Raises:
            PatternTooLarge: A limit is exceeded, or too many rules are called by one bracket.
            BracketsOverlap: A call and other text begin with one bracket, and both nest without limit.
        """
        brackets: list[dict[str, Bracket]] = []
        words: list[dict[int, int]] = []
        special_tokens: list[dict[int, int]] = []
        ends: list[int] = []
        unfolding = self.unfolding
        try:
            for members in self.sets:
                row = unfolding.row(members)
                unfolding.moves.append(self._merged(row, members))
                brackets.append(self._brackets(row.calls, row.words) if row.calls else {})
                words.append({word: self._state(after) for word, after in row.words.items()} if row.words else {})
                special_tokens.append(
                    {special_token: self._state(after) for special_token, after in row.special_tokens.items()}
                    if row.special_tokens
                    else {}
                )
                ends.append(row.marks)
        finally:
            took(self.work)
        accepting = [not self.accepting.isdisjoint(members) for members in self.sets]
        dfa, alphabet = SymbolDfa(unfolding.moves, accepting), unfolding.alphabet
        part = Part(dfa, alphabet, brackets, words, special_tokens, ends, unfolding.has_strings)
        # A copy may do the same as the text beside it.
        return part.minimal(self.limits) if unfolding.has_copies else part

    def _merged(self, does: Row, members: frozenset[int]) -> dict[int, int]:
        """Return the moves by characters of a set of states, given the moves of its members."""
        row: dict[int, int] = {}
        text, after, has_copies = does.text, self.unfolding.after, self.unfolding.has_copies
        if len(members) == 1 and not does.has_copies:
            # Each character leads to one state, so nothing overlaps.
            self._charge(len(text))
            for target, mask in text:
                found = self.single.get(target)
                if found is None:
                    found = self._state(after(target)) if has_copies else self._single(target)
                row[found] = row.get(found, 0) | mask
            return row
        masks = tuple([mask for _, mask in text])
        self._charge(len(masks) * (1 + shared_symbols(masks).bit_count() // 2))
        for block, which in split(masks):
            found = self._state(frozenset([member for i in which for member in after(text[i][0])]))
            row[found] = row.get(found, 0) | block
        return row

    def _brackets(self, calls: dict[int, set[int]], read: dict[int, set[int]]) -> dict[str, Bracket]:
        """Return the effect of each bracket.

        Args:
            calls: The states after each rule that may be called.
            read: The states after each word that may be read. Where a word is also one of the strings called, the states after
                this call are added, in place.
        """
        found: dict[str, Bracket] = {}
        by_opening: dict[str, list[int]] = {}
        for rule in sorted(calls):
            by_opening.setdefault(self.grammar.rules[rule].opening, []).append(rule)
        for opening, rules in sorted(by_opening.items()):
            # Rules that continue in the same states have the same mark.
            mark_of: dict[frozenset[int], int] = {}
            called = tuple([(rule, mark_of.setdefault(frozenset(calls[rule]), len(mark_of))) for rule in rules])
            return_states = [
                (marks, self._state({s for after, mark in mark_of.items() if marks >> mark & 1 for s in after}))
                for marks in self.marks_of(called)
            ]
            excluded = []
            for word in read if opening == '"' else ():
                marks = self._marks_of_word(called, word)
                if marks:
                    excluded.append(word)
                    read[word] |= {s for after, mark in mark_of.items() if marks >> mark & 1 for s in after}
            beside_words = opening == '"' and any(self.grammar.words[word].startswith(b'"') for word in read)
            found[opening] = Bracket(called, tuple(return_states), tuple(excluded), beside_words)
        return found

    def _marks_of_word(self, called: Called, word: int) -> int:
        """Return the marks of the rules whose strings include a word, as bits; 0 if none do."""
        marks = self.words.get((called, word))
        if marks is None:
            text = self.grammar.words[word]
            marks = 0
            for number, mark in called:
                rule = self.grammar.rules[number]
                if isinstance(rule, Strings) and rule.holds(text):
                    marks |= 1 << mark
            self.words[called, word] = marks
            self._charge(len(text))
        return marks
