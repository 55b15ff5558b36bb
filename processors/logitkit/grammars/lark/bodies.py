"""The bodies of definitions in Lark's syntax: alternatives, groups, repetitions, literals and names.

A body becomes a tree of calls: each literal is a definition of its own, and equal ones are one definition.

The reader keeps its own stack of groups. At most `MAX_GROUPS` nest, so functions that walk a tree can recurse.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from logitkit.grammars.checks import calls_of
from logitkit.grammars.dialects import macros
from logitkit.grammars.lark.draft import LarkDefinition
from logitkit.grammars.lark.numbers import read_number
from logitkit.grammars.lark.templates import NumberUse, TemplateUse
from logitkit.grammars.lark.tokens import LarkToken, LarkTokenReader
from logitkit.grammars.named import NamedGrammar
from logitkit.limits import Limits
from logitkit.patterns.construction import alternate, concatenate, repeat
from logitkit.patterns.groups import SIGNS
from logitkit.patterns.syntax import Alternate, Call, Node

__all__ = ["ITEMS", "MAX_GROUPS", "UNSUPPORTED", "LarkBodyReader"]

MAX_GROUPS = 64
"""The maximum nesting depth of groups."""

_CLOSING = {"(": ")", "[": "]"}
ITEMS = {"string", "regexp", "special", "json", "regex", "lark", "grammar", "rule", "terminal", "modifier"}
UNSUPPORTED = {
    "%declare": "%declare names terminals without a text, such as indentation; define them as terminals with a text",
    "%override": "%override changes an imported rule, and only terminals of `common` can be imported; define the rule here",
    "%if": "%if is the condition of an alternative of a rule with a parameter, as in name::_: ...; leave it out",
    "%extend": "%extend changes an imported rule, and only terminals of `common` can be imported; define the rule here",
}


@dataclass(eq=False, slots=True)
class _OpenLarkGroup:
    """A group that is not closed: its opening, its finished options, and of the current one what stands before and after `&`."""

    opening: LarkToken
    options: list[Node] = field(default_factory=list)
    operands: list[Node] = field(default_factory=list)
    parts: list[Node] = field(default_factory=list)
    repeatable: bool = False


class LarkBodyReader(LarkTokenReader):
    """Reads bodies into a draft."""

    def __init__(self, grammar: str, limits: Limits, named: Sequence[NamedGrammar] = ()) -> None:
        super().__init__(grammar, limits, named)
        self.macros = macros(grammar)
        self.uses: list[TemplateUse | NumberUse] = []
        # While a template is read: what its parameters stand for, and how many uses it arises from.
        self.bindings: dict[str, tuple[int, int]] = {}
        self.level = 0
        # While a rule with a number as parameter is read: the number.
        self.value: int | None = None

    def read_body(self, definition: LarkDefinition) -> None:
        """Read alternatives until the end of the definition."""
        self.references, self.is_rule = definition.references, definition.kind == "rule"
        self.group = _OpenLarkGroup(self.here)
        self.stack: list[_OpenLarkGroup] = []
        while True:
            token = self.take()
            if token.kind == "end" or (token.kind == "newline" and not self.stack and not self.continues()):
                break
            if token.kind != "newline":
                self.read_part(token)
        if self.stack:
            self.refuse(f"this {self.group.opening.text} is not closed", self.group.opening)
        definition.body = self.alternatives()
        definition.end = definition.begin + len(self.grammar[definition.begin : token.begin].rstrip())
        self.at -= token.kind == "end"

    def read_part(self, token: LarkToken) -> None:
        """Read a part of an alternative, or what stands between parts."""
        group = self.group
        if token.kind in ITEMS and (token.kind != "modifier" or token.text not in SIGNS):
            group.parts.append(self.item(token))
            group.repeatable = True
        elif token.text in _CLOSING:
            if len(self.stack) == MAX_GROUPS:
                reason = f"groups nest more than {MAX_GROUPS} deep; leave out those that change nothing"
                self.refuse(f"{reason}, or make rules of the inner ones", token)
            self.stack.append(group)
            self.group = _OpenLarkGroup(token)
        elif token.text in (")", "]"):
            self.close(token)
        elif token.text in ("|", "&"):
            self.next_option(token)
        elif token.text in (*SIGNS, "~", "{"):
            self.read_repeat(token)
        elif token.text == "->" and not self.stack:
            if self.take().kind not in ("rule", "terminal"):
                self.refuse("the name of an alias is missing after ->", token)
            if self.here.kind not in ("newline", "end") and self.here.text != "|":
                self.refuse("an alias ends its alternative; write | or a new line after it", self.here)
        else:
            self.refuse_in_body(token)

    def alternatives(self) -> Node:
        """Return the node of the open group."""
        return alternate([*self.group.options, self.option()])

    def next_option(self, token: LarkToken) -> None:
        """Begin another option, or another operand of the current one."""
        group = self.group
        if token.text == "|":
            group.options.append(self.option())
        else:
            self.refuse_in_rules(token)
            group.operands.append(concatenate(group.parts))
            group.parts = []
        group.repeatable = False

    def option(self) -> Node:
        """Return the node of the current option of the open group, and begin another one."""
        group = self.group
        node = concatenate(group.parts)
        if group.operands:
            node = self.both([*group.operands, node], (False,) * (1 + len(group.operands)))
        group.parts, group.operands = [], []
        return node

    def both(self, operands: list[Node], excluded: tuple[bool, ...]) -> Node:
        """Return the call of a definition for the texts of all operands."""
        begin = self.group.opening.begin
        number = self.draft.number(("both", len(self.draft.definitions)), "&", "both", begin)
        definition = self.draft.definitions[number]
        definition.body, definition.excluded = Alternate(tuple(operands)), excluded
        definition.references = [(used, begin) for used in calls_of(definition.body)]
        self.references.append((number, begin))
        return Call(number)

    def read_excluded(self, token: LarkToken) -> None:
        """Read what stands after `~`."""
        self.refuse_in_rules(token)
        item = self.take()
        if item.kind not in ITEMS or item.kind == "modifier":
            self.refuse(
                "after ~, write a number of copies, or a string, a regular expression or a terminal to exclude", item
            )
        self.group.parts.append(self.both([self.item(item)], (True,)))
        self.group.repeatable = True

    def refuse_in_rules(self, token: LarkToken) -> None:
        """Raise if a rule is read."""
        if self.is_rule:
            self.refuse(
                f"{token.text} is only allowed in terminals; write its operands in a terminal, with a name in upper case",
                token,
            )

    def close(self, token: LarkToken) -> None:
        """Close a group."""
        if not self.stack or _CLOSING[self.group.opening.text] != token.text:
            self.refuse(f"{token.text} closes no group", token)
        node = self.alternatives()
        self.group = self.stack.pop()
        self.group.parts.append(node if token.text == ")" else repeat(node, 0, 1, "greedy", 0))
        self.group.repeatable = True

    def continues(self) -> bool:
        """Whether the next line that is not blank continues a definition."""
        while self.here.kind == "newline":
            self.at += 1
        return self.here.kind == "sign" and self.here.text == "|"

    def refuse_in_body(self, token: LarkToken) -> NoReturn:
        """Raise for a token that no body has."""
        reasons = {
            ":": 'a definition begins on a line of its own; a colon as text is written ":"',
            "->": "an alias names a whole alternative of a rule, and not a part in a group",
            "..": 'a range is written between two strings, as in "a".."z"',
            "::=": "this looks like GBNF: pass syntax='gbnf'",
            ";": 'a definition ends with its line; a semicolon as text is written ";"',
        }
        if token.kind == "options":
            reason = "options of a grammar stand on a line of their own"
        elif token.kind == "directive":
            reason = UNSUPPORTED.get(token.text, f"{token.text} begins a line of its own")
        else:
            reason = reasons.get(token.text, f"{token.text!r} means nothing here; text stands in double quotes")
        self.refuse(reason, token)

    def item(self, token: LarkToken) -> Node:
        """Return the call of a literal or a name."""
        kind, name = token.kind, token.text
        key: Hashable = name
        ends = ("", "")
        if kind == "modifier":
            self.refuse("write ? or ! before the name of a rule in its definition, and ? after an optional part", token)
        if kind == "string" and self.takes(".."):
            last = self.expect("string", "the string that ends a range")
            kind, name, ends = "range", f"{token.text}..{last.text}", (token.text, last.text)
            key = (kind, *ends)
        elif kind == "grammar":
            key, (name, kind) = ("named", name), self.named_grammar(token)
        elif kind not in ("rule", "terminal"):
            key = (kind, name)
        elif (
            self.here.text == "{" and self.tokens[self.at + 1].kind != "number" and self.tokens[self.at + 1].text != ","
        ):
            return self.use_of_template(token)
        elif self.here.text == "::":
            return self.use_of_number(token)
        elif kind == "rule" and name in self.bindings:
            self.references.append(self.bindings[name])
            self.limits.check_states(len(self.references))
            return Call(self.bindings[name][0])
        elif kind == "terminal" and name in self.macros and self.here.text == "(":
            self.refuse(self.macros[name], token)
        number = self.draft.number(key, name, kind, token.begin)
        self.draft.definitions[number].ends = ends
        self.draft.definitions[number].source = token.text if token.kind == "grammar" else None
        self.references.append((number, token.begin))
        # Each becomes a state at least.
        self.limits.check_states(len(self.references))
        return Call(number)

    def use_of_template(self, token: LarkToken, nesting: int = 1) -> Node:
        """Return the call of a template; its arguments come next."""
        if token.kind != "rule" or token.text in self.bindings:
            what = "parameter" if token.text in self.bindings else "terminal"
            self.refuse(f"the {what} {token.text} takes no arguments in {{...}}; only templates do", self.here)
        opening, arguments = self.take(), list[tuple[int, int]]()
        if nesting > MAX_GROUPS:
            self.refuse(f"the arguments of templates nest more than {MAX_GROUPS} deep", opening)
        used_by, self.references = self.references, []
        while not arguments or self.takes(","):
            argument = self.take()
            if argument.kind not in ITEMS or argument.kind == "modifier":
                self.refuse("an argument of a template is a name, a string or a regular expression", argument)
            is_use = argument.kind == "rule" and self.here.text == "{"
            node = self.use_of_template(argument, nesting + 1) if is_use else self.item(argument)
            assert isinstance(node, Call)
            arguments.append((node.rule, argument.begin))
        self.references = used_by
        self.expect("sign", "a comma, or } after the arguments of a template,", "}")
        key = ("template", token.text, tuple([number for number, _ in arguments]))
        is_new = key not in self.draft.numbers
        number = self.draft.number(key, token.text, "rule", token.begin)
        if is_new:
            self.uses.append(TemplateUse(token, number, tuple(arguments), self.level + 1))
        self.references.append((number, token.begin))
        self.limits.check_states(len(self.references))
        return Call(number)

    def use_of_number(self, token: LarkToken) -> Node:
        """Return the call of a rule with a number as parameter; the number comes next."""
        if token.kind != "rule" or not self.is_rule:
            self.refuse("only rules, in lower case, have a parameter as in name::0, and only rules use them", token)
        self.take()
        value = read_number(self, self.value)
        key = ("number", token.text, value)
        is_new = key not in self.draft.numbers
        number = self.draft.number(key, token.text, "rule", token.begin)
        if is_new:
            self.uses.append(NumberUse(token, number, value))
        self.references.append((number, token.begin))
        self.limits.check_states(len(self.references))
        return Call(number)

    def read_repeat(self, token: LarkToken) -> None:
        """Read what repeats the part before it, or excludes the one after it."""
        group = self.group
        if token.text == "~" and self.here.kind != "number":
            self.read_excluded(token)
            return
        if not group.repeatable:
            reason = f'{token.text} has nothing to repeat; as text it is written "{token.text}"'
            if group.parts:
                reason = f"{token.text} repeats what is repeated already; put that into a group (...)"
            self.refuse(reason, token)
        if token.text == "~":
            minimum: int = self.integer("the number of copies after ~")
            maximum: int | None = self.integer("the maximum of ~ n..m") if self.takes("..") else minimum
        elif token.text == "{":
            minimum, maximum = self.braces()
        else:
            minimum, maximum = SIGNS[token.text]
        if minimum < 0 or (maximum is not None and maximum < minimum):
            self.refuse("the number of copies must be at least 0, and the maximum at least the minimum", token)
        group.parts[-1] = repeat(group.parts[-1], minimum, maximum, "greedy", 0)
        group.repeatable = False

    def braces(self) -> tuple[int, int | None]:
        """Read the counts of `{n}`, `{m,n}`, `{m,}` or `{,n}`."""
        what = "a number of copies, as in {2,4},"
        minimum = 0 if self.here.text == "," else self.integer(what)
        maximum: int | None = minimum
        if self.takes(","):
            maximum = None if self.here.text == "}" else self.integer(what)
        self.expect("sign", "} after the number of copies", "}")
        return minimum, maximum
