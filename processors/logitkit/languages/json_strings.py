"""The languages of JSON strings whose value is a text of a grammar, or JSON again, such as the arguments of a tool."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from logitkit.compiler.nested_grammars.nested_grammar import NestedGrammar, NestedRule
from logitkit.errors import GrammarError
from logitkit.json_schema.compile import schema_grammar
from logitkit.json_schema.document import key_of, load
from logitkit.json_schema.layout import MemberOrder, Whitespace
from logitkit.json_schema.string_spellings import StringSpelling
from logitkit.languages.grammars import GrammarText
from logitkit.languages.language import Language
from logitkit.languages.language_writer import LanguageWriter
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import concatenate, with_inside
from logitkit.patterns.syntax import Alternate, Characters, Concat, Graph, Look, Machine, Node

__all__ = ["JsonStringOf", "JsonStringOfJson"]

QUOTE, BACKSLASH = CharSet.from_string('"'), CharSet.from_string("\\")
# The characters that a JSON string writes as an escape.
ESCAPED = QUOTE | BACKSLASH | CharSet(((0, 0x1F),))


@dataclass(frozen=True)
class JsonStringOf(Language):
    r"""A JSON string whose value is a text of a grammar. Each value has one spelling, that of `json.dumps`.

    Args:
        grammar: The grammar. It names no special tokens.
        depth: How many JSON strings it stands in: 2 in the text of JSON that is itself a JSON string.

    Raises:
        GrammarError: It does.

    Example:
        >>> from logitkit.languages import grammar
        >>> JsonStringOf(grammar('root ::= "a" | "\\"" root "\\""')).grammar.syntax
        'gbnf'
    """

    is_grammar: ClassVar[bool] = True

    grammar: GrammarText
    depth: int = 1

    def __post_init__(self) -> None:
        if self.grammar.rules.tokens:
            raise GrammarError(
                f"the grammar names the special token {self.grammar.rules.tokens[0]!r}, which cannot stand in a JSON string; "
                "leave it out"
            )

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree."""
        rules = self.grammar.rules
        bodies = list(rules.rules)
        quote: Node = Characters(QUOTE)
        for level in range(self.depth):
            escaping = _Escaping()
            bodies = [replace(rule, body=escaping.of(rule.body)) for rule in bodies]
            quote = escaping.of(quote) if level else quote
        return concatenate([quote, writer.grammar(self, replace(rules, rules=tuple(bodies))), quote])


@dataclass(frozen=True)
class JsonStringOfJson(Language):
    r"""A JSON string whose value is the JSON text of a value, as in `"{\"city\": \"Bonn\"}"`.

    Args:
        schema: The schema of the value.
        whitespace: The white space in it, as in `JsonSchema`.
        free_of: Texts that occur in no string of it, and no name of a member.
        strings: How strings in it are written.
        member_order: In which order members come, as in `ToolFormat`.

    Example:
        >>> JsonStringOfJson({"type": "integer"}, "compact").whitespace
        'compact'
    """

    is_schema: ClassVar[bool] = True

    schema: Any = field(compare=False)
    whitespace: Whitespace
    free_of: tuple[str, ...] = ()
    strings: StringSpelling = "json"
    member_order: MemberOrder = "schema"
    content: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", load(self.schema))
        object.__setattr__(self, "content", key_of(self.schema))

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree. Its strings have escapes inside of escapes, so no other language shares them.

        Raises:
            UnsupportedSchema: A keyword cannot be enforced exactly.
            ConfigurationError: No value satisfies the schema.
        """
        options = writer.options
        found = schema_grammar(
            self.schema,
            writer.limits,
            self.whitespace,
            fragments=False,
            closing=options.closing,
            forgets=options.forgets,
            free_of=self.free_of,
            strings=self.strings,
            member_order=self.member_order,
        )
        escaping, grammar = _Escaping(), found.nested_grammar
        rules = [replace(rule, body=escaping.of(rule.body)) for rule in grammar.rules if isinstance(rule, NestedRule)]
        assert len(rules) == len(grammar.rules)
        inside = NestedGrammar(escaping.of(grammar.main), tuple(rules), grammar.words)
        own = self.content, self.whitespace, self.free_of, self.strings, self.member_order
        key = ("in a string", *own, options, writer.limits)
        quote = Characters(QUOTE)
        return concatenate([quote, writer.value(key, found._replace(nested_grammar=inside)), quote])


class _Escaping:
    """Writes the characters of trees as they stand in a JSON string."""

    def __init__(self) -> None:
        # By identity: a node may stand in a tree many times.
        self._done: dict[int, Node] = {}

    def of(self, tree: Node) -> Node:
        if id(tree) not in self._done:
            self._done[id(tree)] = self._of(tree)
        return self._done[id(tree)]

    def _of(self, tree: Node) -> Node:
        match tree:
            case Characters(charset):
                return _escaped(charset)
            case Look(Characters(charset)):
                return replace(tree, node=_escaped_first(charset))
            case Look(Machine() as machine):
                return replace(tree, node=_escaped_machine(machine))
            case Machine(moves, accepting):
                return Graph(tuple([tuple([(_escaped(chars), to) for chars, to in row]) for row in moves]), accepting)
            case _:
                return with_inside(tree, self.of)


def _escaped(charset: CharSet) -> Node:
    spelled = [Concat(tuple([Characters(CharSet.single(ord(c))) for c in _spelled(p)])) for p in charset & ESCAPED]
    plain = Characters(charset - ESCAPED)
    return Alternate((plain, *spelled)) if spelled else plain


def _escaped_first(charset: CharSet) -> Node:
    """Return what the characters begin with in a string, or their whole spellings if others begin so too."""
    if not charset & ESCAPED:
        return Characters(charset)
    if not ESCAPED - charset:
        return Characters(charset - ESCAPED | BACKSLASH)
    return _escaped_machine(Machine((((charset, 1),), ()), (False, True)))


def _escaped_machine(machine: Machine) -> Machine:
    """Return the automaton of the same texts as they stand in a JSON string; it is deterministic too."""
    rows = [[(charset - ESCAPED, target) for charset, target in row if charset - ESCAPED] for row in machine.moves]
    accepting = [*machine.accepting]
    # The states inside of escapes, by the state before the escape and what has been read of it.
    inside: dict[tuple[int, str], int] = {}
    for state, row in enumerate(machine.moves):
        for charset, target in row:
            for code_point in charset & ESCAPED:
                spelling, at = _spelled(code_point), state
                for end in range(1, len(spelling)):
                    after = inside.setdefault((state, spelling[:end]), len(rows))
                    if after == len(rows):
                        rows.append([])
                        accepting.append(False)
                        rows[at].append((CharSet.single(ord(spelling[end - 1])), after))
                    at = after
                rows[at].append((CharSet.single(ord(spelling[-1])), target))
    return Machine(tuple(map(tuple, rows)), tuple(accepting))


def _spelled(code_point: int) -> str:
    return json.dumps(chr(code_point))[1:-1]
