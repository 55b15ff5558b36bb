"""The bodies of rules in GBNF: alternatives, groups, repetitions, strings, classes, special tokens and calls.

The reader keeps its own stack of open groups, so nested groups cannot overflow Python's. Later stages do recurse over trees, so
the height of a tree is limited. It is counted upwards from the leaves: parentheses that change nothing do not count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from logitkit.compiler.characters.symbols import Symbol
from logitkit.errors import GrammarError
from logitkit.grammars.dialects import macros
from logitkit.grammars.gbnf_arguments import read_macro
from logitkit.grammars.gbnf_macros import tree_of_macro
from logitkit.grammars.gbnf_terminals import (
    ANY_CHARACTER,
    NAME,
    SPACE,
    SPACE_OR_NEWLINE,
    GbnfText,
    read_class,
    read_counts,
    read_string,
    read_token,
)
from logitkit.grammars.rule_set import GrammarRule
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import alternate, concatenate, repeat
from logitkit.patterns.syntax import Alternate, Call, Characters, Concat, Node, Repeat

__all__ = ["GbnfBodyReader"]

MAX_HEIGHT = 300
"""How many groups, alternatives and repetitions may contain each other in a rule; a group with both counts three times."""

# It counts like a group with a count, since it may contain calls.
MACRO_HEIGHT = 3

# An open group takes about this many times the memory of a step of the work limit.
_GROUP_STEPS = 32

# The costs of an element of a rule, and of an alternative.
_ELEMENT_STEPS = 8

# Attributes of a name are refused where its definition is read.
_DEFINITION = re.compile(r"[A-Za-z0-9_-]+(?:\[[^\]\r\n]*\])?[ \t]*::=")
_GROUP = re.compile(r"[ \t]*\(")


@dataclass(slots=True)
class _OpenGroup:
    """An open group: its finished options, the parts of the current one, and the height of the highest part.

    A lookahead `(=...)` of XGrammar is read like a group, and left out: it says what follows the rule anyway.
    """

    position: int
    options: list[Node] = field(default_factory=list)
    parts: list[Node] = field(default_factory=list)
    height: int = 0
    last: int = 0
    is_lookahead: bool = False


class GbnfBodyReader(GbnfText):
    """Reads the bodies of rules from left to right.

    Args:
        text: The grammar.
        limits: Bounds on the trees.

    Attributes:
        name: The rule that is read.
        numbers: The number of each rule that was mentioned.
        first_mention: Where each of them was mentioned first; the rules of negated tokens have numbers too.
        tokens: The special tokens that were met, with the numbers of their letters.
        negated: The calls of negated tokens, by their letters and whether they are repeated, as rules without a body yet.
    """

    def __init__(self, text: str, limits: Limits) -> None:
        super().__init__(text)
        self.limits = limits
        self.macros = frozenset(macros(text))
        self.name = ""
        self.numbers: dict[str, int] = {}
        self.first_mention: list[int] = []
        self.tokens: dict[str | int, int] = {}
        self.negated: dict[tuple[frozenset[int], bool], GrammarRule] = {}
        self.group = _OpenGroup(0)
        self.stack: list[_OpenGroup] = []
        self.spread_string: int | None = None
        self.elements = 0
        self.after_lookahead = False

    def read_body(self, begin: int) -> tuple[Node, int]:
        """Read the body of the rule that begins somewhere; return it, and where it ends."""
        self.group = _OpenGroup(self.at)
        end = self.at
        self.elements, self.after_lookahead = 0, False
        while self._more():
            if self.after_lookahead:
                raise GrammarError("nothing may follow a lookahead (=...) in its rule", self.text, self.at)
            self._read_element()
            end = self.at
        if self.stack:
            raise GrammarError("a group is not closed; write ) at its end", self.text, self.group.position)
        if not self.group.parts and not self.group.options:
            reason = f'the rule {self.name!r} has no body; for the empty text write ""'
            raise GrammarError(reason, self.text, begin)
        return self._close(), end

    def _more(self) -> bool:
        """Go to the next element of the rule, and return whether there is one."""
        self.skip(SPACE_OR_NEWLINE if self.stack else SPACE)
        if self.text[self.at : self.at + 1] in ("\r", "\n"):
            here = self.at
            self.skip(SPACE_OR_NEWLINE)
            if _DEFINITION.match(self.text, self.at):
                self.at = here
                return False
        return self.at < len(self.text)

    def _read_element(self) -> None:
        sign = self.text[self.at]
        match sign:
            case '"':
                node, self.at = self._string()
                self._append(node, 1)
            case "[":
                node, self.at = read_class(self.text, self.at)
                self._append(node)
            case ".":
                self.at += 1
                self._append(ANY_CHARACTER)
            case "(":
                self._open()
            case ")" if self.stack:
                self._end_group()
            case "|":
                self.limits.spend(_ELEMENT_STEPS)
                self.group.options.append(self._option())
                self.at += 1
                self.skip(SPACE_OR_NEWLINE)
            case "*" | "+" | "?" | "{":
                self._repeat()
            case "<" | "!":
                self._token()
            case _ if found := NAME.match(self.text, self.at):
                self._call(found[0], found.end())
            case _:
                self.unexpected("a string, a class, a rule, a group, a repetition or |")

    def _string(self) -> tuple[Node, int]:
        try:
            node, after = read_string(self.text, self.at, self.limits)
        except GrammarError as error:
            # A string that was forgotten to close ends where the next one should begin, and all that follow are inside out.
            if error.position == self.at and self.spread_string is not None:
                raise GrammarError(error.reason, self.text, self.spread_string) from None
            raise
        if self.spread_string is None and "\n" in self.text[self.at : after]:
            self.spread_string = self.at
        return node, after

    def _call(self, name: str, after: int) -> None:
        if _DEFINITION.match(self.text, self.at):
            reason = f"the definition of {name!r} stands inside of the rule {self.name!r}"
            if self.stack:
                raise GrammarError(f"{reason}; close the group before it with )", self.text, self.stack[-1].position)
            if not self.group.parts:
                reason = f'nothing stands before the definition of {name!r}; for the empty text write ""'
                raise GrammarError(reason, self.text, self.at)
            raise GrammarError(f"{reason}; begin it on a line of its own", self.text, self.at)
        if name in self.macros and _GROUP.match(self.text, after):
            self._macro(name, after)
            return
        self._append(Call(self.number(name, self.at)))
        self.at = after

    def _macro(self, name: str, after: int) -> None:
        found = _GROUP.match(self.text, after)
        assert found is not None
        macro = read_macro(self.text, name, self.at, found.end() - 1)
        self.limits.spend(macro.after - self.at)
        self._append(tree_of_macro(macro, self, self.text, self._is_repeated(macro.after)), MACRO_HEIGHT)
        self.at = macro.after

    def _open(self) -> None:
        self.limits.spend(_GROUP_STEPS)
        self.stack.append(self.group)
        is_lookahead = self.text.startswith("(=", self.at)
        if is_lookahead and len(self.stack) > 1:
            reason = "a lookahead (=...) stands at the end of a rule, and not in a group; make a rule of the group"
            raise GrammarError(reason, self.text, self.at)
        self.group = _OpenGroup(self.at, is_lookahead=is_lookahead)
        self.at += 2 if is_lookahead else 1

    def _end_group(self) -> None:
        closed, height, self.after_lookahead = self._close(), self.group.height + 2, self.group.is_lookahead
        self.group = self.stack.pop()
        self.at += 1
        if not self.after_lookahead:
            self._append(closed, height if isinstance(closed, Alternate | Concat | Repeat) else 0)

    def _repeat(self) -> None:
        position, sign = self.at, self.text[self.at]
        minimum, maximum, self.at = read_counts(self.text, position)
        if not self.group.parts:
            raise GrammarError(f'nothing to repeat; for a literal {sign} write "{sign}"', self.text, position)
        self.group.parts[-1] = repeat(self.group.parts[-1], minimum, maximum, "greedy", position)
        self._raise_height(self.group.last + 1)

    def _token(self) -> None:
        begin, negated = self.at, self.text[self.at] == "!"
        token, self.at = read_token(self.text, self.at + negated)
        if negated:
            self._append(self.others([token], self._is_repeated(self.at), begin))
        else:
            self._append(Characters(CharSet.single(self.symbol_of(token))))

    def symbol_of(self, token: str | int) -> int:
        """Return the symbol of a special token."""
        return Symbol.special_token(self._letter_of(token))

    def _letter_of(self, token: str | int) -> int:
        return self.tokens.setdefault(token, len(self.tokens))

    def others(self, tokens: Sequence[str | int], repeated: bool, position: int) -> Node:
        """Return the call of a rule for one token that is not one of some tokens."""
        kind = frozenset(map(self._letter_of, tokens)), repeated
        if kind not in self.negated:
            self.negated[kind] = GrammarRule(self.name, Call(len(self.first_mention)), position, self.at)
            self.first_mention.append(position)
        return self.negated[kind].body

    def _is_repeated(self, after: int) -> bool:
        """Return whether a token that ends here is repeated by `*` or `+`, alone or as all that its parentheses contain."""
        group, outside = self.group, len(self.stack)
        while True:
            spaces = (SPACE_OR_NEWLINE if outside else SPACE).match(self.text, after)
            assert spaces is not None
            after = spaces.end()
            if self.text[after : after + 1] in ("*", "+", "{"):
                return read_counts(self.text, after)[:2] in ((0, None), (1, None))
            if group.parts or group.options or not outside or self.text[after : after + 1] != ")":
                return False
            after, outside = after + 1, outside - 1
            group = self.stack[outside]

    def _append(self, node: Node, height: int = 0) -> None:
        # Each becomes a state at least.
        self.elements += 1
        self.limits.check_states(self.elements)
        self.limits.spend(_ELEMENT_STEPS)
        self.group.parts.append(node)
        self._raise_height(height)

    def _raise_height(self, height: int) -> None:
        self.group.last = height
        self.group.height = max(self.group.height, height)
        if height > MAX_HEIGHT:
            reason = f"more than {MAX_HEIGHT} groups, alternatives and repetitions contain each other here"
            raise GrammarError(f"{reason}; make a rule of an inner group", self.text, self.at - 1)

    def _option(self) -> Node:
        """Return the parts of the current option as one node, and begin another option."""
        node = concatenate(self.group.parts)
        self.limits.spend(len(node.parts) if isinstance(node, Concat) else 1)
        self.group.parts = []
        return node

    def _close(self) -> Node:
        """Return the current group as one node."""
        node = alternate([*self.group.options, self._option()])
        self.limits.spend(len(node.options) if isinstance(node, Alternate) else 1)
        return node

    def number(self, name: str, position: int) -> int:
        """Return the number of a rule; a new name gets the next one."""
        number = self.numbers.setdefault(name, len(self.first_mention))
        if number == len(self.first_mention):
            self.first_mention.append(position)
        return number
