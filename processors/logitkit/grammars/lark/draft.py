"""The definitions of a grammar that was read in Lark's syntax, which call each other by number, and walks over their trees."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from logitkit.grammars.lark.attributes import Attributes
from logitkit.grammars.rule_set import RuleMarker
from logitkit.patterns.construction import concatenate, with_inside
from logitkit.patterns.syntax import Alternate, Call, Concat, Node, Repeat

__all__ = ["Draft", "LarkDefinition", "has_lazy_quantifiers", "with_calls_replaced"]


def with_calls_replaced(tree: Node, replacement: Callable[[int], Node]) -> Node:
    """Return a tree with another node in place of each call."""
    match tree:
        case Call(definition):
            return replacement(definition)
        case Concat(parts):
            return concatenate([with_calls_replaced(part, replacement) for part in parts])
        case _:
            return with_inside(tree, lambda node: with_calls_replaced(node, replacement))


def has_lazy_quantifiers(tree: Node) -> bool:
    """Whether a quantifier of a tree, outside lookarounds and atomic groups, takes few copies before many."""
    match tree:
        case Repeat(node, minimum, maximum, kind):
            return (kind == "lazy" and minimum != maximum) or has_lazy_quantifiers(node)
        case Concat(parts) | Alternate(parts):
            return any(map(has_lazy_quantifiers, parts))
        case _:
            return False


@dataclass(eq=False, slots=True)
class LarkDefinition:
    """A rule, a terminal, or an unnamed terminal.

    Args:
        name: Its name, or the literal as written.
        begin: Where it begins in the grammar; where it is first used as long as it has no body.
        kind: "rule", "terminal", or the kind of a literal: "string", "regexp", "range", "special", "json",
            "regex", "lark" or "common"; "both" for what stands around `&` and after `~`.
        body: Its tree of calls. None for a literal, and for a name that is not defined. For "both", a choice of the operands.
        end: Where it ends.
        priority: The number after a dot after the name.
        references: The definitions that it calls, with the place of each call.
        ends: The strings of a range, as written.
        excluded: For "both", whether each operand is excluded by `~`.
        attributes: Those of the rule whose text a terminal is.
        source: The name of the grammar that it is, with @, if it was given by name.
        capture: The name under which the text of a rule is captured.
        marker: The marker at the end of a terminal, once its tree is known.
    """

    name: str
    begin: int
    kind: str
    body: Node | None = None
    end: int = 0
    priority: int = 0
    references: list[tuple[int, int]] = field(default_factory=list)
    ends: tuple[str, str] = ("", "")
    excluded: tuple[bool, ...] = ()
    attributes: Attributes | None = None
    source: str | None = None
    capture: str | None = None
    marker: RuleMarker | None = None

    @property
    def is_lazy(self) -> bool:
        """Whether it is a terminal that ends as soon as it can."""
        return self.attributes is not None and self.attributes.is_lazy

    @property
    def is_limited(self) -> bool:
        """Whether it is a terminal of a limited number of tokens."""
        return self.attributes is not None and bool(self.attributes.max_tokens)


@dataclass(eq=False, slots=True)
class Draft:
    """The definitions of a grammar by number, the numbers of names and of ignored terminals, unused templates, and doubts.

    `ignored_first` says whether a text may begin with what is ignored.
    """

    grammar: str
    definitions: list[LarkDefinition] = field(default_factory=list)
    numbers: dict[Hashable, int] = field(default_factory=dict)
    ignored: list[int] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    ignored_first: bool = True

    def number(self, key: Hashable, name: str, kind: str, begin: int) -> int:
        """Return the number of a definition, which is made if there is none with this key."""
        number = self.numbers.setdefault(key, len(self.definitions))
        if number == len(self.definitions):
            self.definitions.append(LarkDefinition(name, begin, kind, end=begin + len(name)))
        return number

    def same_terminals(self) -> dict[int, int]:
        """Return the literals that are all of a terminal with a name, and the names after `%ignore`, with these terminals."""
        found: dict[int, int] = {}
        for number, definition in enumerate(self.definitions):
            # A terminal may be another one under another name.
            at, seen = number, {number}
            while isinstance(body := self.definitions[at].body, Call) and self.definitions[at].kind == "terminal":
                at = body.rule
                if at in seen:
                    break
                seen.add(at)
                if number in self.ignored and self.definitions[at].kind == "terminal":
                    found[number] = at
                    break
            else:
                if definition.kind == "terminal" and self.definitions[at].kind in ("string", "regexp"):
                    found[at] = number
        return found
