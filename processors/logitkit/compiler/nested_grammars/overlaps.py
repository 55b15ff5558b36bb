"""Calls and words that begin alike in a state of a part, so that the automaton must follow several states at once.

There are two such cases:

- A bracket begins calls of several rules, such as the objects of an `anyOf`. The automaton calls all of them together. Each
  end of the call says which of them the text belongs to, and the automaton continues in the states after these.
- A word is also one of the strings that the state calls. For example, one branch of a schema lists the name `"a"`, and another
  branch accepts any name. Then `"a"` leads to the states of both branches, and the state calls all strings but `"a"`.

Calls and words that begin like other text are written in place before that (`unfolding`).

So a state of the result is a set of states of the part. Most of these sets have one member.
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
    """Builds a part from an automaton over characters and special symbols.

    Args:
        tree: The automaton.
        grammar: The grammar.
        limits: Bounds on the part.
        marks_of: Returns the sets of marks, as bits, that may be met at the ends of what is called.
        tree_of: Returns the automaton of what a symbol stands for, after its first character.
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
        self.work += steps
        # The functions that are called meanwhile count their own work.
        if self.work > self.left:
            self.limits.check_work(self.work)

    def part(self) -> Part:
        """Return the part.

        Raises:
            PatternTooLarge: There is too much to do, or too many calls cannot be told apart.
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
        # Instances may do the same as the text beside them.
        return part.minimal(self.limits) if unfolding.has_copies else part

    def _merged(self, does: Row, members: frozenset[int]) -> dict[int, int]:
        row: dict[int, int] = {}
        text, after, has_copies = does.text, self.unfolding.after, self.unfolding.has_copies
        if len(members) == 1 and not does.has_copies:
            # One state leads to one other with each character.
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
        """Return the call of each bracket, given the targets of calls.

        Args:
            calls: The states after each call.
            read: The states after each word. Those of words that are also called strings are added to, in place.
        """
        found: dict[str, Bracket] = {}
        by_opening: dict[str, list[int]] = {}
        for d in sorted(calls):
            by_opening.setdefault(self.grammar.rules[d].opening, []).append(d)
        for opening, possible in sorted(by_opening.items()):
            places: dict[frozenset[int], int] = {}
            called = tuple([(d, places.setdefault(frozenset(calls[d]), len(places))) for d in possible])
            return_states = [
                (marks, self._state({s for place, mark in places.items() if marks >> mark & 1 for s in place}))
                for marks in self.marks_of(called)
            ]
            excluded = []
            for word in read if opening == '"' else ():
                marks = self._marks_of_word(called, word)
                if marks:
                    excluded.append(word)
                    read[word] |= {s for place, mark in places.items() if marks >> mark & 1 for s in place}
            beside_words = opening == '"' and any(self.grammar.words[word].startswith(b'"') for word in read)
            found[opening] = Bracket(called, tuple(return_states), tuple(excluded), beside_words)
        return found

    def _marks_of_word(self, called: Called, word: int) -> int:
        """Return the marks of the rules whose strings include a word, as bits; 0 if none do."""
        marks = self.words.get((called, word))
        if marks is None:
            text = self.grammar.words[word]
            marks = 0
            for d, mark in called:
                rule = self.grammar.rules[d]
                if isinstance(rule, Strings) and rule.holds(text):
                    marks |= 1 << mark
            self.words[called, word] = marks
            self._charge(len(text))
        return marks
