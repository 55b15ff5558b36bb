r"""From a grammar in Lark's syntax to its rules.

A lexer drops the ignored terminals wherever they stand between others. Without a lexer, they are part of each terminal's rule:
with `%ignore WS`, the terminal `A` of a rule is the text of `A`, and then any number of texts of `WS`. The start may begin with
such texts too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from logitkit.budget import one_budget
from logitkit.compiler.bytes.limit_signs import LimitSigns
from logitkit.compiler.bytes.pushdown_views import bits
from logitkit.compiler.characters.symbols import Symbol
from logitkit.compiler.grammars.limited_rules import with_signs
from logitkit.errors import ConfigurationError, GrammarError, UnsupportedSchema
from logitkit.grammars.checks import checked_rule_set, no_start, undefined_rule
from logitkit.grammars.dialects import recognized
from logitkit.grammars.lark.competition import Competition
from logitkit.grammars.lark.differences import difference
from logitkit.grammars.lark.draft import Draft, with_calls_replaced
from logitkit.grammars.lark.json_values import schema_bodies
from logitkit.grammars.lark.lexer import Lexer
from logitkit.grammars.lark.literals import COMMON
from logitkit.grammars.lark.nested import NestedGrammars
from logitkit.grammars.lark.parse import parse_lark
from logitkit.grammars.lark.terminals import Terminals
from logitkit.grammars.named import NamedGrammar
from logitkit.grammars.rule_set import GrammarRule, RuleSet
from logitkit.limits import DEFAULT_LIMITS, Limits, check_limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import alternate, concatenate
from logitkit.patterns.syntax import Alternate, Call, Characters, Empty, Graph, Machine, Node, Repeat

__all__ = ["LarkLexer", "read_lark"]

LarkLexer: TypeAlias = Literal["longest", "contextual", "dynamic"]


def read_lark(
    text: str,
    start: str | None = None,
    lexer: LarkLexer | None = None,
    limits: Limits = DEFAULT_LIMITS,
    named: Sequence[NamedGrammar] = (),
) -> RuleSet:
    r"""Read a grammar in Lark's syntax, as LLGuidance and XGrammar take it.

    Rules, terminals, strings, ranges, regular expressions in the dialect of `logitkit.Regex`, groups and repetitions have their
    meaning in Lark, and so have `%ignore` and `%import common.NAME`. `<|name|>` and `<[1,5-9]>` are special tokens. `%json
    {...}` in a rule is a JSON value that satisfies a schema, written as `JsonSchema` writes it, `%lark {...}` a text of a nested
    grammar, as `@name` is of one that is given by name, and `%regex {...}` a part of a text. In terminals, `A & B` has the
    texts of both, and `~A` those that are not of `A`, as in LLGuidance. The first letter of a name says whether it is a rule.
    Templates are rules with parameters. Prefixes, aliases and the priorities of rules do not change a language. Refused, with the
    place: `%declare`, `%override`, `%extend`, other imports, and some attributes of rules.

    Args:
        text: The grammar.
        start: The rule of the whole text; `start` if it is not given.
        lexer: How terminals split a text. "longest": as a lexer for which the longest terminal counts, and keywords come before
            names. "contextual": as Lark's contextual lexer, which takes terminals in an order; see
            `logitkit.grammars.lark.precedence`. "dynamic": in any way, as Lark's `dynamic_complete` does; terminals are texts
            like any other. None: "longest", with a warning where Lark's lexer reads a text in another way. Most grammars in
            Lark's syntax are written for lexers: their own parsers refuse a text that only another split accepts.
        limits: Bounds on the reading, and on the automata of terminals.
        named: The grammars that `@name` in a rule refers to. They may refer to each other.

    Returns:
        The rules that the start needs.

    Raises:
        GrammarError: The grammar, or a schema in it, is not valid, or uses something that is not supported.
        PatternTooLarge: A limit is exceeded.

    Example:
        >>> from logitkit.grammars.lark import read_lark
        >>> rules = read_lark('start: "let" NAME ["=" NAME]\nNAME: /[a-z]+/\n%ignore " "')
        >>> [rule.name for rule in rules.rules if not rule.is_terminal]
        ['start', 'start']

    Source:
        https://lark-parser.readthedocs.io/en/stable/grammar.html
    """
    check_limits(limits)
    with one_budget(limits.work):
        try:
            draft = parse_lark(text, limits, named)
            return _LarkReader(draft, lexer, limits, named).rule_set("start" if start is None else start)
        except GrammarError as error:
            if looks := recognized(text, "lark"):
                raise GrammarError(f"{looks} (as Lark: {error.reason})", text, error.position) from None
            raise


class _AnySplit:
    """Terminals that may split a text in any way, under the names of `Lexer`."""

    def __init__(self, draft: Draft, terminals: Terminals) -> None:
        self.same: dict[int, int] = {}
        self.warnings: list[str] = []
        self.tree = terminals.tree
        self.ignored = [[terminals.tree(number) for number in draft.ignored]] if draft.ignored else []

    def ignored_after(self, _number: int | None) -> int:
        """Return which trees of `ignored` stand after a terminal."""
        return 0


class _LarkReader:
    """Collects the rules that the start needs, in the order in which they are reached."""

    def __init__(
        self,
        draft: Draft,
        kind: LarkLexer | None,
        limits: Limits,
        named: Sequence[NamedGrammar],
        around: tuple[str, ...] = (),
    ) -> None:
        self.draft = draft
        self.kind = kind
        self.limits = limits
        self.named = named
        self.nested = NestedGrammars(draft, self.read_nested, limits, around)
        in_order, any_split = kind == "contextual", kind == "dynamic"
        self.terminals = Terminals(draft, limits, in_order, any_split, self.nested)
        self.lexer: Lexer | _AnySplit
        self.reached: dict[int, int] = {}
        self.signs: dict[LimitSigns, tuple[int, ...]] = {}
        self.schema_warnings: list[str] = []

    def read_nested(self, text: str, around: tuple[str, ...]) -> RuleSet:
        """Read a nested grammar; its depth is limited by `MAX_NESTED` and `MAX_NAMED`."""
        draft = parse_lark(text, self.limits, self.named)
        reader = _LarkReader(draft, self.kind, self.limits, self.named, around)
        if (names := reader.names()) and "start" not in names:
            raise GrammarError(
                "there is no rule 'start'; give this name to the rule that the nested grammar begins with"
            )
        return reader.rule_set("start")

    def rule_set(self, start: str) -> RuleSet:
        """Return the rules."""
        first = self.draft.numbers.get(start)
        if first is None or not self.is_defined(first):
            raise no_start(start, self.names())
        self.check_names()
        warnings: list[str] = []
        if self.kind == "dynamic":
            self.lexer = _AnySplit(self.draft, self.terminals)
        else:
            self.lexer = Lexer(self.kind or "longest", self.draft, self.terminals, first, self.limits)
            if self.kind is None and (found := difference(self.lexer)):
                warnings.append(found)
        self.check_stops(first)
        same = self.lexer.same
        # The rule of the whole text, and those of the ignored terminals, come first.
        shift = 1 + len(self.lexer.ignored) if self.lexer.ignored else 0
        self.reached[first] = shift
        rules: list[GrammarRule] = []
        # The dictionary grows while it is read.
        order = [first]
        for number in order:
            definition = self.draft.definitions[number]
            is_terminal = definition.kind != "rule"
            if definition.kind in ("json", "lark"):
                body: Node = Empty()
            elif is_terminal:
                body = self.terminal_body(number)
            else:
                assert definition.body is not None
                for called, _ in definition.references:
                    used = same.get(called, called)
                    if used not in self.reached:
                        self.reached[used] = shift + len(order)
                        order.append(used)
                body = with_calls_replaced(definition.body, lambda used: Call(self.reached[same.get(used, used)]))
            named = definition.capture, definition.marker
            rules.append(GrammarRule(definition.name, body, definition.begin, definition.end, is_terminal, *named))
        if shift:
            rules = [*self.ignoring(first), *rules]
        self.add_json(rules, order)
        self.add_nested(rules, order)
        warnings = [
            *self.unused(),
            *self.draft.warnings,
            *warnings,
            *self.lexer.warnings,
            *dict.fromkeys(self.schema_warnings),
        ]
        return self.checked(rules, warnings)

    def checked(self, rules: list[GrammarRule], warnings: list[str]) -> RuleSet:
        """Check that the rules have a finite text."""
        grammar, tokens, textless = self.draft.grammar, self.terminals.tokens, self.terminals.textless
        left_out = None
        if textless:
            reason = "no text is in all operands of &, and every text needs one"
            left_out = reason, self.draft.definitions[min(textless)].begin
        return checked_rule_set(grammar, rules, 0, tokens, warnings, self.kind != "contextual", left_out)

    def add_json(self, rules: list[GrammarRule], order: list[int]) -> None:
        """Give the rule of each `%json` its body, and add a rule for each value that its schema calls."""
        for number in order:
            definition = self.draft.definitions[number]
            if definition.kind != "json":
                continue
            try:
                bodies, warnings = schema_bodies(definition.name, self.limits, first=len(rules))
            except (ConfigurationError, UnsupportedSchema) as error:
                raise GrammarError(f"in this schema: {error}", self.draft.grammar, definition.begin) from error
            at = self.reached[number]
            whole = replace(rules[at], name="%json", body=self.with_ignored(number, bodies[0]), is_terminal=False)
            rules[at] = whole
            rules.extend([replace(whole, body=body) for body in bodies[1:]])
            self.schema_warnings += warnings

    def add_nested(self, rules: list[GrammarRule], order: list[int]) -> None:
        """Give the rule of each `%lark` its body, and add the rules of the nested grammar."""
        for number in order:
            if self.draft.definitions[number].kind != "lark":
                continue
            found, at = self.nested.rule_set(number), self.reached[number]
            body = self.with_ignored(number, Call(len(rules) + found.start))
            rules[at] = replace(rules[at], name="%lark", body=body, is_terminal=False)
            rules += self.nested.rules(number, len(rules), self.terminals.number_tokens(found.tokens))
            self.limits.check_states(len(rules))
            self.schema_warnings += found.warnings

    def limited(self, number: int, tree: Node) -> Node:
        """Return the tree of a terminal with the signs of its limit of tokens, if it has one."""
        definition = self.draft.definitions[number]
        if not definition.is_limited:
            return tree
        assert definition.attributes is not None
        assert definition.attributes.max_tokens is not None
        signs = LimitSigns.of(definition.attributes.max_tokens)
        if signs not in self.signs:
            numbers = self.terminals.number_tokens(signs)
            self.signs[signs] = tuple([Symbol.special_token(number) for number in numbers])
        assert isinstance(tree, Machine | Graph)
        found = with_signs(tree, self.signs[signs])
        cut = self.terminals.cut(number)
        return found if cut is None else Alternate((found, with_signs(cut, self.signs[signs], whole=False)))

    def terminal_body(self, number: int) -> Node:
        """Return the tree of a terminal with the ignored terminals after it."""
        if self.terminals.has_no_text(number):
            return Characters(CharSet())
        return self.with_ignored(number, self.limited(number, self.lexer.tree(number)))

    def with_ignored(self, number: int | None, tree: Node) -> Node:
        """Return a terminal, or nothing for None, and the ignored terminals after it."""
        if not self.lexer.ignored:
            return tree
        return concatenate([tree, Call(1 + self.lexer.ignored_after(number))])

    def ignoring(self, first: int) -> list[GrammarRule]:
        """Return the rule of the whole text, and those of the ignored terminals."""
        start = self.draft.definitions[first]
        ignored = self.draft.definitions[self.draft.ignored[0]]
        before = [self.with_ignored(None, Empty())] if self.draft.ignored_first else []
        whole = concatenate([*before, Call(self.reached[first])])
        bodies = [Repeat(alternate(trees), 0, None) if trees else Empty() for trees in self.lexer.ignored]
        return [
            GrammarRule(start.name, whole, start.begin, start.end),
            *[GrammarRule("%ignore", body, ignored.begin, ignored.end, True) for body in bodies],
        ]

    def is_defined(self, number: int) -> bool:
        """Whether a number is that of a rule or a terminal with a body, or of a literal."""
        definition = self.draft.definitions[number]
        return definition.body is not None or definition.kind not in ("rule", "terminal")

    def check_names(self) -> None:
        """Raise for the first use of a name that is not defined."""
        for definition in self.draft.definitions:
            for used, position in definition.references:
                if not self.is_defined(used):
                    name = self.draft.definitions[used].name
                    if name in COMMON:
                        reason = f"the terminal {name!r} is not defined; write `%import common.{name}`"
                        raise GrammarError(reason, self.draft.grammar, position)
                    raise undefined_rule(name, self.names(), self.draft.grammar, position)

    def check_stops(self, first: int) -> None:
        """Raise for a marker of `stop` that what follows begins with again."""
        definitions, measure = self.draft.definitions, self.terminals.measure
        if not any(d.attributes is not None and d.attributes.is_stop for d in definitions):
            return
        same, may_be_empty = self.lexer.same, self.terminals.may_be_empty
        competition = Competition(self.draft, first, same, may_be_empty, self.limits)
        for number in competition.terminals:
            attributes = definitions[number].attributes
            if attributes is None or attributes.suffix is None or not attributes.is_stop:
                continue
            marker, after = measure(attributes.suffix).text, bits(competition.after[number] & ~(1 << competition.end))
            texts = [measure(n).text or "" for n in after if not self.terminals.has_no_lexeme(n)]
            if marker and any(text.startswith(marker) for text in texts):
                reason = (
                    f"what follows {definitions[number].name} begins with its marker again. LLGuidance takes the marker of "
                    "stop out of the text before it reads on, but tokens that have been written stay; write suffix= in place "
                    "of stop=, and leave the marker out after the rule"
                )
                raise GrammarError(reason, self.draft.grammar, definitions[number].begin)

    def names(self) -> list[str]:
        """Return the names that are defined."""
        named = [d for d in self.draft.definitions if d.kind in ("rule", "terminal") and d.attributes is None]
        definitions = [d for d in named if d.body is not None]
        return [d.name for d in definitions if not d.name.startswith("%")]

    def unused(self) -> list[str]:
        """Return a sentence for each name that is defined and not used."""
        used = {n for d in self.draft.definitions for n, _ in d.references} | self.reached.keys()
        names = [
            f"the {d.kind} {d.name} is not used"
            for number, d in enumerate(self.draft.definitions)
            if number not in used
            and d.kind in ("rule", "terminal")
            and d.body is not None
            and not d.name.startswith("%")
        ]
        return [*names, *[f"the template {name} is not used" for name in self.draft.unused]]
