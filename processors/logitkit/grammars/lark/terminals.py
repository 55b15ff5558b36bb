r"""From the definition of a terminal to a tree without calls.

Terminals are regular, so a terminal that uses others contains their trees. A tree that would become too deep or too large is
compiled to a `Machine` first.

Two kinds of patterns are more than a set of texts, and are compiled here:

- A lazy quantifier: `/".*?"/` ends at the first quote, in every lexer. The texts of which the first match is the whole text are
  those of the atomic group `(?>".*?")`.
- An assertion at the end: `/if\b/` looks at the character after the terminal. See `lexeme`.

If a lookahead at the beginning looks further than one character after the terminal, `lookaheads` compiles it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from logitkit.compiler.characters.assertions import has_assertions
from logitkit.compiler.characters.first_match import finds_all, first_match_dfa, is_unambiguous
from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import GrammarError, PatternSyntaxError
from logitkit.grammars.lark.attributes import cut_texts, shortest_texts
from logitkit.grammars.lark.draft import Draft, LarkDefinition, has_lazy_quantifiers, with_calls_replaced
from logitkit.grammars.lark.lexeme import EdgeAssertion, Lexeme, asserting_lexeme
from logitkit.grammars.lark.literals import Literals
from logitkit.grammars.lark.lookaheads import LeadingLookaheads, leading_lookaheads, looking_ahead
from logitkit.grammars.lark.measures import Measure, of_tree
from logitkit.grammars.lark.nested import NestedGrammars
from logitkit.grammars.rule_set import RuleMarker
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import inside
from logitkit.patterns.syntax import Alternate, Atomic, Characters, Concat, Machine, Node

__all__ = ["Terminals"]

# A tree that is used by another terminal is compiled if it has more levels or more nodes than this; an automaton counts as many.
_MOST_LEVELS = 90
_MOST_NODES, _MACHINE_NODES = 2000, 200

_NOTHING = Machine(((),), (False,))
_LIKE = ", as a rule with attributes is one,"

# The costs of a terminal, and of a node of one that is part of another.
_TERMINAL_STEPS, _NODE_STEPS = 100, 3


class Terminals:
    """Builds the trees of the terminals of a draft.

    Args:
        draft: The definitions.
        limits: Bounds on the trees and automata.
        in_order: Whether the options of every regular expression are tried in order, as by Lark, and not only lazy quantifiers.
        any_split: Whether terminals may end where they could go on.
        nested: The nested grammars of the draft.
    """

    def __init__(
        self,
        draft: Draft,
        limits: Limits,
        in_order: bool = False,
        any_split: bool = False,
        nested: NestedGrammars | None = None,
    ) -> None:
        self.draft = draft
        self.nested = nested
        self.limits = limits
        self.in_order = in_order
        self.any_split = any_split
        self._literals = Literals(draft.grammar, limits)
        self._trees: dict[int, Node] = {}
        self._measures: dict[int, Measure] = {}
        self._finished: dict[int, Node] = {}
        self._lexemes: dict[int, Lexeme] = {}
        self._cut: dict[int, Machine] = {}
        # The terminals whose texts an empty intersection leaves out. LLGuidance allows them.
        self.textless: set[int] = set()

    @property
    def tokens(self) -> list[str | int]:
        """The special tokens that were met, by name or id; `Symbol.special_token(i)` stands for the one with number i."""
        return self._literals.tokens

    def number_tokens(self, tokens: Iterable[str | int]) -> list[int]:
        """Add the special tokens of a nested grammar, and return the number of each."""
        begin = len(self.tokens)
        self.tokens.extend(tokens)
        return [*range(begin, len(self.tokens))]

    def tree(self, number: int) -> Node:
        """Return the tree of a terminal as rules use it.

        Raises:
            GrammarError: The terminal contains itself or a rule, or is not valid.
            PatternTooLarge: A limit is exceeded.
        """
        if number not in self._finished:
            self._build(number)
            tree = self._trees[number]
            self._finished[number] = self.lexeme(number).tree() if _is_special(tree) else tree
        return self._finished[number]

    def cut(self, number: int) -> Machine | None:
        """Return the texts before the marker of a rule that a limit of tokens may end there; None: it has no such texts."""
        return self._cut.get(number)

    def measure(self, number: int) -> Measure:
        """Return the measure of a terminal. Raises as `tree` does."""
        if number not in self._measures:
            self._build(number)
        return self._measures[number]

    def lexeme(self, number: int) -> Lexeme:
        """Return a terminal as an automaton: of the texts that a search finds, if order matters. Raises as `tree` does."""
        found = self._lexemes.get(number)
        if found is None:
            self._build(number)
            found = self._lexemes[number] = self._lexeme(self._trees[number], self.draft.definitions[number])
        return found

    def _lexeme(self, tree: Node, definition: LarkDefinition) -> Lexeme:
        parts = tree.parts if isinstance(tree, Concat) else (tree,)
        sets = [part.charset for part in parts if isinstance(part, Characters) and part.charset]
        if len(sets) == len(parts):
            return Lexeme.of_sets(sets)
        in_order = has_lazy_quantifiers(tree) or (self.in_order and not finds_all(tree))
        try:
            if has_assertions(tree):
                in_order = in_order and not is_unambiguous(tree, self.limits)
                # Without the lookaheads, the order of matches takes much less work.
                if in_order and (leading := leading_lookaheads(tree)) is not None and not has_assertions(leading.rest):
                    return self._after_lookaheads(leading, definition)
                return asserting_lexeme(Atomic(tree, 0) if in_order else tree, self.limits)
            if not in_order:
                language = TextLanguage.of_tree(tree, self.limits, definition.name)
            else:
                language = TextLanguage(*first_match_dfa(tree, self.limits), self.limits).compacted()
        except EdgeAssertion as error:
            if (leading := leading_lookaheads(tree)) is not None:
                return self._after_lookaheads(leading, definition)
            self._refuse_assertion(error, definition)
        except PatternSyntaxError as error:
            reason = "has a lazy quantifier or an atomic group whose texts are not known to be regular; write it with classes"
            self._refuse(f"the terminal {definition.name} {reason} ({error.reason})", definition)
        if language.is_empty and not self.textless.intersection([used for used, _ in definition.references]):
            self._refuse(f"the terminal {definition.name} has no text", definition)
        return Lexeme.of_machine(_NOTHING if language.is_empty else language.machine())

    def _after_lookaheads(self, leading: LeadingLookaheads, definition: LarkDefinition) -> Lexeme:
        """Return the lexeme of a terminal that begins with lookaheads, if only a lexer knows where it ends."""
        found = self._lexeme(leading.rest, definition)
        try:
            for tree, negative in leading.conditions:
                if has_assertions(tree):
                    condition = asserting_lexeme(tree, self.limits)
                else:
                    texts = TextLanguage.of_tree(tree, self.limits)
                    condition = Lexeme.of_sets([CharSet()]) if texts.is_empty else Lexeme.of_machine(texts.machine())
                found = looking_ahead(found, condition, negative, self.any_split, self.limits)
        except EdgeAssertion as error:
            self._refuse_assertion(error, definition)
        if found.is_empty:
            self._refuse(f"the terminal {definition.name} has no text", definition)
        return found

    def _refuse_assertion(self, error: EdgeAssertion, definition: LarkDefinition) -> NoReturn:
        reason = "a lookahead at its end may see one character after it, no more"
        instead = "write a condition on its own text with & and ~, as in NAME: /[a-z]+/ & ~/(true|false).*/"
        self._refuse(f"the terminal {definition.name} {error}; {reason}; {instead}", definition)

    def found(self, number: int) -> TextLanguage | None:
        """Return the texts of a terminal that a search finds, or None if it finds all."""
        self._build(number)
        tree = self._trees[number]
        if finds_all(tree) or has_assertions(tree) or is_unambiguous(tree, self.limits):
            return None
        return TextLanguage(*first_match_dfa(tree, self.limits), self.limits)

    def may_be_empty(self, number: int) -> bool:
        """Whether a terminal, or a nested grammar, has the empty text. Lark forbids such terminals."""
        if self.draft.definitions[number].kind == "lark" and self.nested is not None:
            return self.nested.may_be_empty(number)
        return not self.has_no_lexeme(number) and self.lexeme(number).machine.accepting[0]

    def has_no_text(self, number: int) -> bool:
        """Whether an empty intersection leaves a terminal no text. Raises as `tree` does."""
        if self.has_no_lexeme(number):
            return False
        self._build(number)
        return bool(self.textless) and self.lexeme(number).is_empty

    def has_no_lexeme(self, number: int) -> bool:
        """Whether a definition is a special token, which has no text, or a JSON value or a grammar, which may nest."""
        return self.draft.definitions[number].kind in ("special", "json", "lark")

    def _refuse(self, reason: str, definition: LarkDefinition) -> NoReturn:
        raise GrammarError(reason, self.draft.grammar, definition.begin)

    def _build(self, number: int) -> None:
        """Build a terminal after those that it uses."""
        # The terminal that is being built, and its remaining uses; each is used by the one before it.
        path = {} if number in self._trees else {number: iter(self.draft.definitions[number].references)}
        while path:
            user, uses = next(reversed(path.items()))
            definition = self.draft.definitions[user]
            for used, position in uses:
                self._check_use(definition, used, position)
                if used in path:
                    reason = (
                        f"the terminal {definition.name} contains itself; only rules, in lower case, may be recursive"
                    )
                    raise GrammarError(reason, self.draft.grammar, position)
                if used not in self._trees:
                    path[used] = iter(self.draft.definitions[used].references)
                    break
            else:
                self.limits.spend(_TERMINAL_STEPS)
                is_literal = definition.body is None
                self._trees[user], self._measures[user] = (
                    self._literals.node(definition) if is_literal else self._joined(user, definition)
                )
                del path[user]

    def _check_use(self, user: LarkDefinition, used: int, position: int) -> None:
        kind, name = self.draft.definitions[used].kind, self.draft.definitions[used].name
        reasons = {
            "rule": f"the rule {name}; a terminal{_LIKE if user.attributes else ''} may contain terminals only",
            "special": f"the special token {name}; special tokens stand in rules only",
            "lark": "%lark; nested grammars stand in rules, in lower case, only",
            "json": "%json; JSON values stand in rules, in lower case, only",
        }
        if kind in reasons:
            raise GrammarError(f"the terminal {user.name} contains {reasons[kind]}", self.draft.grammar, position)

    def _joined(self, number: int, definition: LarkDefinition) -> tuple[Node, Measure]:
        """Return the tree of a terminal whose parts have been built, and its measure."""
        assert definition.body is not None
        parts = {used: self._small(used) for used, _ in definition.references}
        ordered, measure = of_tree(definition.body, self._measures.__getitem__)
        if definition.kind == "both":
            return self._both(number, definition, parts), measure
        if definition.attributes is not None:
            return self._with_attributes(number, definition, parts), measure._replace(text=None)
        return with_calls_replaced(ordered, parts.__getitem__), measure

    def _both(self, number: int, definition: LarkDefinition, parts: dict[int, Node]) -> Node:
        """Return the tree of the texts of all operands; one after `~` excludes its texts."""
        assert isinstance(definition.body, Alternate)
        language = TextLanguage.everything(self.limits)
        for operand, excluded in zip(definition.body.options, definition.excluded, strict=True):
            texts = TextLanguage.of_tree(with_calls_replaced(operand, parts.__getitem__), self.limits)
            language = language - texts if excluded else language & texts
        if language.is_empty:
            line = self.draft.grammar.count("\n", 0, definition.begin) + 1
            self.draft.warnings.append(f"no text is in all operands of & in line {line}, so what needs one is left out")
            self.textless.add(number)
            return Characters(CharSet())
        return language.machine()

    def _with_attributes(self, number: int, definition: LarkDefinition, parts: dict[int, Node]) -> Machine:
        """Return the tree of a rule that attributes make one terminal."""
        assert definition.body is not None
        assert definition.attributes is not None
        tree = with_calls_replaced(definition.body, parts.__getitem__)
        suffix = None if definition.attributes.suffix is None else parts[definition.attributes.suffix]
        if _is_special(tree) or (suffix is not None and _is_special(suffix)):
            what = "lookaheads, word boundaries, anchors and lazy quantifiers"
            self._refuse(f"{what} are not supported in {definition.name}, because it has attributes", definition)
        if suffix is not None:
            attributes = definition.attributes
            definition.marker = RuleMarker(
                tree, attributes.max_chars, suffix, attributes.marker_name, attributes.is_stop
            )
        if definition.attributes.max_tokens == 0:
            return Machine(((),), (True,))
        texts = shortest_texts(tree, definition.attributes, suffix, self.limits)
        if texts.is_empty:
            self._refuse(f"{definition.name} has no text with its attributes", definition)
        if definition.attributes.max_tokens is not None and suffix is not None:
            self._cut[number] = cut_texts(tree, definition.attributes, texts, self.limits)
        return texts.machine()

    def _small(self, number: int) -> Node:
        """Return a tree for use in another one."""
        tree = self._trees[number]
        if self._is_large(tree):
            if _is_special(tree):
                reason = "is too large to be part of another terminal, because it has assertions or lazy quantifiers"
                definition = self.draft.definitions[number]
                self._refuse(f"the terminal {definition.name} {reason}", definition)
            tree = self._trees[number] = self.lexeme(number).machine
        return tree

    def _is_large(self, tree: Node) -> bool:
        """Whether a tree is too deep or too large to be part of another one."""
        todo, levels, nodes = [(tree, 1)], 0, 0
        while todo and levels <= _MOST_LEVELS and nodes <= _MOST_NODES:
            node, level = todo.pop()
            levels = max(levels, level)
            nodes += _MACHINE_NODES if isinstance(node, Machine) else 1
            todo.extend([(part, level + 1) for part in inside(node)])
        self.limits.spend(_NODE_STEPS * nodes)
        return levels > _MOST_LEVELS or nodes > _MOST_NODES


def _is_special(tree: Node) -> bool:
    """Whether a tree is more than a set of texts."""
    return has_assertions(tree) or has_lazy_quantifiers(tree)
