r"""From the definition of a terminal to a tree without calls.

Terminals are regular, so a terminal that uses others contains their trees. A tree that would become too deep or too large is
compiled to a `Machine` first.

Two kinds of patterns are more than a set of texts, and are compiled here:

- A lazy quantifier: `/".*?"/` ends at the first quote, in every lexer. The texts of which the first match is the whole text are
  those of the atomic group `(?>".*?")`.
- An assertion at the end: `/if\b/` looks at the character after the terminal. See `lexeme`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from logitkit.compiler.characters.assertions import has_assertions
from logitkit.compiler.networks.symbols import LETTERS
from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import GrammarError, PatternSyntaxError, PatternTooLarge
from logitkit.grammars.lark.common import COMMON
from logitkit.grammars.lark.draft import Draft, LarkDefinition
from logitkit.grammars.lark.lexeme import EdgeAssertion, Lexeme, asserting_lexeme
from logitkit.grammars.lark.trees import has_lazy_quantifiers, with_calls_replaced
from logitkit.limits import Limits
from logitkit.patterns.case_folding import fold
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import concatenate
from logitkit.patterns.parser import parse
from logitkit.patterns.syntax import Alternate, Atomic, Characters, Concat, Node

__all__ = ["Terminals"]

# A tree that is used by another terminal is compiled if it is deeper than this, in groups, or larger, in characters.
_MOST_GROUPS = 30
_MOST_SIZE = 2000

# Trees are walked recursively, so terminals may contain each other only so deep.
_MOST_DEPTH = 50

# What a terminal costs, and what one token of the tokenizer costs.
_TERMINAL_STEPS = 100

_ESCAPE = re.compile(r"""\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))""", re.DOTALL)
_ESCAPED = {"\\": "\\", '"': '"', "/": "/", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "f": "\f"}
_IDS = re.compile(r"<\[(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)\]>")


@dataclass(frozen=True, slots=True)
class _TerminalTree:
    """The tree of a terminal; how deep and large it is; whether it holds assertions, and lazy quantifiers."""

    node: Node
    groups: int
    size: int
    asserts: bool
    lazy: bool


class Terminals:
    """Builds the trees of the terminals of a draft.

    Args:
        draft: The definitions.
        limits: Bounds on the trees and automata.
    """

    def __init__(self, draft: Draft, limits: Limits) -> None:
        self.draft = draft
        self.limits = limits
        self.tokens: list[str | int] = []
        self._trees: dict[int, _TerminalTree] = {}
        self._depth: dict[int, int] = {}
        self._finished: dict[int, Node] = {}

    def tree(self, number: int) -> Node:
        """Return the tree of a terminal as rules use it.

        Raises:
            GrammarError: The terminal contains itself or a rule, or is not valid.
            PatternTooLarge: A limit is exceeded.
        """
        if number not in self._finished:
            self._build(number)
            tree = self._trees[number]
            self._finished[number] = self.lexeme(number).tree() if tree.asserts or tree.lazy else tree.node
        return self._finished[number]

    def lexeme(self, number: int) -> Lexeme:
        """Return a terminal as an automaton. Raises as `tree` does."""
        self._build(number)
        tree, definition = self._trees[number], self.draft.definitions[number]
        match tree.node:
            case Characters(charset) if charset:
                return Lexeme.of_sets([charset])
            case Concat(parts) if sets := [
                part.charset for part in parts if isinstance(part, Characters) and part.charset
            ]:
                if len(sets) == len(parts):
                    return Lexeme.of_sets(sets)
        node = Atomic(tree.node, 0) if tree.lazy else tree.node
        try:
            if tree.asserts:
                return asserting_lexeme(node, self.limits)
            language = TextLanguage.of_tree(node, self.limits, definition.name)
        except EdgeAssertion as error:
            self._refuse(
                f"the terminal {definition.name} {error}; a lookahead may see one character after it, no more",
                definition,
            )
        except PatternSyntaxError as error:
            reason = "has a lazy quantifier or an atomic group whose texts are not known to be regular; write it with classes"
            self._refuse(f"the terminal {definition.name} {reason} ({error.reason})", definition)
        if language.is_empty:
            self._refuse(f"the terminal {definition.name} has no text", definition)
        return Lexeme.of_machine(language.machine())

    def is_lazy(self, number: int) -> bool:
        """Whether a terminal has a lazy quantifier."""
        self._build(number)
        return self._trees[number].lazy

    def has_no_lexeme(self, number: int) -> bool:
        """Whether a definition is a special token, which has no text, or a JSON value, which may nest."""
        return self.draft.definitions[number].kind in ("special", "json")

    def _refuse(self, reason: str, definition: LarkDefinition) -> NoReturn:
        raise GrammarError(reason, self.draft.grammar, definition.begin)

    def _build(self, number: int) -> None:
        """Build a terminal after those that it uses."""
        path: list[int] = []
        open_: set[int] = set()
        todo = [number]
        while todo:
            here = todo[-1]
            if here in self._trees:
                todo.pop()
                continue
            definition = self.draft.definitions[here]
            if path and path[-1] == here:
                self._depth[here] = 1 + max([self._depth.get(used, 0) for used, _ in definition.references], default=0)
                if self._depth[here] > _MOST_DEPTH:
                    raise PatternTooLarge(
                        f"the terminal {definition.name} contains others more than {_MOST_DEPTH} deep; make it a rule"
                    )
                self._trees[here] = self._joined(definition)
                open_.discard(path.pop())
                continue
            self.limits.spend(_TERMINAL_STEPS)
            if definition.body is None:
                self._trees[here] = self._literal(definition)
                continue
            path.append(here)
            open_.add(here)
            for used, position in definition.references:
                self._check_use(definition, used, position)
                if used in open_:
                    reason = (
                        f"the terminal {definition.name} contains itself; only rules, in lower case, may be recursive"
                    )
                    raise GrammarError(reason, self.draft.grammar, position)
                todo.append(used)

    def _check_use(self, user: LarkDefinition, used: int, position: int) -> None:
        kind, name = self.draft.definitions[used].kind, self.draft.definitions[used].name
        if kind == "rule":
            reason = f"the terminal {user.name} contains the rule {name}; a terminal may contain terminals only"
            raise GrammarError(reason, self.draft.grammar, position)
        if kind == "special":
            reason = f"the terminal {user.name} contains the special token {name}; special tokens stand in rules only"
            raise GrammarError(reason, self.draft.grammar, position)

        if kind == "json":
            reason = f"the terminal {user.name} contains %json; JSON values stand in rules, in lower case, only"
            raise GrammarError(reason, self.draft.grammar, position)

    def _joined(self, definition: LarkDefinition) -> _TerminalTree:
        """Return the tree of a terminal whose parts have been built."""
        assert definition.body is not None
        parts = {used: self._small(used) for used, _ in definition.references}
        if definition.kind == "both":
            return self._both(definition, parts)
        return _TerminalTree(
            with_calls_replaced(definition.body, lambda used: parts[used].node),
            definition.groups + max([part.groups for part in parts.values()], default=0),
            sum([parts[used].size for used, _ in definition.references]) + 1,
            any(part.asserts for part in parts.values()),
            any(part.lazy for part in parts.values()),
        )

    def _both(self, definition: LarkDefinition, parts: dict[int, _TerminalTree]) -> _TerminalTree:
        """Return the tree of the texts of all operands; one after `~` excludes its texts."""
        assert isinstance(definition.body, Alternate)
        language = TextLanguage.everything(self.limits)
        for operand, excluded in zip(definition.body.options, definition.excluded, strict=True):
            texts = TextLanguage.of_tree(with_calls_replaced(operand, lambda used: parts[used].node), self.limits)
            language = language - texts if excluded else language & texts
        if language.is_empty:
            self._refuse("no text is in all operands of &", definition)
        machine = language.machine()
        return _TerminalTree(machine, 0, sum(map(len, machine.moves)) + 1, False, False)

    def _small(self, number: int) -> _TerminalTree:
        """Return a tree for use in another one."""
        tree = self._trees[number]
        if tree.groups > _MOST_GROUPS or tree.size > _MOST_SIZE:
            if tree.asserts or tree.lazy:
                reason = "is too large to be part of another terminal, because it has assertions or lazy quantifiers"
                definition = self.draft.definitions[number]
                self._refuse(f"the terminal {definition.name} {reason}", definition)
            tree = self._trees[number] = _TerminalTree(self.lexeme(number).machine, 0, _MOST_SIZE // 10, False, False)
        return tree

    def _literal(self, definition: LarkDefinition) -> _TerminalTree:
        groups = 0
        match definition.kind:
            case "string":
                node = self._string(definition)
            case "range":
                node = self._range(definition)
            case "special":
                node = self._special(definition)
            case "common":
                node = parse(COMMON[definition.name])
            case _:
                node = self._regexp(definition)
                groups = _nesting(definition.name)
        has = definition.kind == "regexp"
        return _TerminalTree(
            node, groups, len(definition.name), has and has_assertions(node), has and has_lazy_quantifiers(node)
        )

    def _string(self, definition: LarkDefinition) -> Node:
        written = definition.name
        folded = written.endswith("i")
        text = self._unescaped(definition, written[1:-2] if folded else written[1:-1], 1)
        self.limits.check_states(len(text))
        sets = map(CharSet.single, map(ord, text))
        return concatenate([Characters(fold(charset, ascii_only=False) if folded else charset) for charset in sets])

    def _unescaped(self, definition: LarkDefinition, written: str, offset: int) -> str:
        def replaced(found: re.Match[str]) -> str:
            digits = found[1] or found[2] or found[3]
            at = definition.begin + offset + found.start()
            if digits is None and found[4] not in _ESCAPED:
                reason = rf"unknown escape {found[0]} in a string; write a backslash as \\, and a regular expression as /.../"
                raise GrammarError(reason, self.draft.grammar, at)
            if digits is None:
                return _ESCAPED[found[4]]
            code = int(digits, 16)
            if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                raise GrammarError(f"{found[0]} is not a character of Unicode", self.draft.grammar, at)
            return chr(code)

        return _ESCAPE.sub(replaced, written)

    def _range(self, definition: LarkDefinition) -> Node:
        first, last = definition.ends
        ends = [self._unescaped(definition, first[1:-1], 1), self._unescaped(definition, last[1:-1], 1)]
        if first.endswith("i") or last.endswith("i") or len(ends[0]) != 1 or len(ends[1]) != 1 or ends[0] > ends[1]:
            reason = (
                f"the range {definition.name} does not go from one character to the same or a later one, without flags"
            )
            self._refuse(reason, definition)
        return Characters(CharSet(((ord(ends[0]), ord(ends[1])),)))

    def _special(self, definition: LarkDefinition) -> Node:
        name = definition.name
        if not name.startswith("<["):
            self.tokens.append(name)
            return Characters(CharSet.single(LETTERS + len(self.tokens) - 1))
        found = _IDS.fullmatch(name)
        if found is None or len(name) > 1000:
            self._refuse(f"{name} is not a list of token ids, as in <[1,5-9]>", definition)
        begin = len(self.tokens)
        for part in found[1].split(","):
            first, _, last = part.partition("-")
            ids = range(int(first), int(last or first) + 1)
            if not ids or len(ids) > 10_000:
                self._refuse(f"the range {part} of token ids is empty, or has more than 10,000 ids", definition)
            self.tokens.extend(ids)
        return Characters(CharSet(((LETTERS + begin, LETTERS + len(self.tokens) - 1),)))

    def _regexp(self, definition: LarkDefinition) -> Node:
        body, _, flags = definition.name[1:].rpartition("/")
        if unknown := set(flags) - set("imsxu"):
            reason = f"the flag {min(unknown)} of a regular expression is not supported; allowed are i, m, s, x and u"
            self._refuse(reason, definition)
        prefix = f"(?{''.join(sorted(set(flags)))})" if flags else ""
        try:
            return parse(prefix + body)
        except PatternSyntaxError as error:
            at = definition.begin + 1 + max(0, error.position - len(prefix))
            raise GrammarError(f"in this regular expression: {error.reason}", self.draft.grammar, at) from error


def _nesting(pattern: str) -> int:
    """Return a bound on how deep the groups of a pattern nest."""
    depth = most = 0
    for bracket in re.findall(r"\\.|[()]", pattern):
        depth = max(0, depth + (bracket == "(") - (bracket == ")"))
        most = max(most, depth)
    return most
