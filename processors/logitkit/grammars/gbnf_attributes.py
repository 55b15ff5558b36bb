r"""Attributes of rules in GBNF, as XGrammar has them: `name[lazy, max_chars=9, max_tokens=3, capture="x"] ::= ...`.

They mean the same as in Lark's syntax (`logitkit.grammars.lark.attributes`). A rule with one that changes its texts is one
pattern: it may call other rules, but none that calls itself. A rule that it calls may be `lazy` or have `max_chars`. Its tokens
cannot be counted, and its text is not captured.

By hand, for `name[lazy] ::= letter+` and `letter ::= [a-z]`: the call is replaced by the class, and the texts are those that no
shorter one begins, so all texts of one letter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from logitkit.compiler.bytes.limit_signs import LimitSigns
from logitkit.compiler.characters.symbols import Symbol
from logitkit.compiler.grammars.limited_rules import with_signs
from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import GrammarError
from logitkit.grammars.checks import calls_of
from logitkit.grammars.lark.attributes import REFUSED, Attributes, shortest_texts
from logitkit.grammars.rule_set import GrammarRule
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import inside as inside_of
from logitkit.patterns.construction import with_inside
from logitkit.patterns.syntax import Call, Characters, Empty, Machine, Node

__all__ = ["GbnfAttributes", "read_attributes", "with_attributes"]

KNOWN = ("capture", "lazy", "max_chars", "max_tokens")

_NAME = re.compile(r"[ \t]*([A-Za-z_]+)[ \t]*")
_VALUE = re.compile(r'=[ \t]*(?:([0-9]+)|"([^"\\\r\n]*)")[ \t]*')
_MOST_DIGITS = 9
# The cost of a call that is replaced by the rule that it calls.
_CALL_STEPS = 20


class GbnfAttributes(NamedTuple):
    """The attributes of a rule, and the name under which its text is captured."""

    texts: Attributes
    capture: str | None


def read_attributes(text: str, at: int, name: str) -> tuple[GbnfAttributes, int]:
    """Read the attributes that begin with a bracket somewhere; return them, and where they end.

    Raises:
        GrammarError: They are not attributes, or one is not supported.
    """
    found, capture, seen = Attributes(), None, set[str]()
    at += 1
    while True:
        key, at = _read_key(text, at, seen)
        seen.add(key)
        value = _VALUE.match(text, at)
        number, word = (value[1], value[2]) if value else (None, None)
        if reason := _wrong_value(key, value is not None, number, word):
            raise GrammarError(reason, text, value.end() if value else at)
        if number is not None and key == "max_chars":
            found = replace(found, max_chars=int(number))
        elif number is not None:
            found = replace(found, max_tokens=int(number))
        elif key == "lazy":
            found = replace(found, is_lazy=True)
        else:
            capture = word or name
        at = value.end() if value else at
        if text[at : at + 1] not in (",", "]"):
            raise GrammarError("a comma, or ] after the attributes of a rule, is missing", text, at)
        at += 1
        if text[at - 1] == "]":
            return GbnfAttributes(found, capture), at


def _read_key(text: str, at: int, seen: set[str]) -> tuple[str, int]:
    """Read the name of an attribute; return it, and where its value begins."""
    found = _NAME.match(text, at)
    key, place = (found[1], found.start(1)) if found else ("", at)
    if key in REFUSED:
        raise GrammarError(REFUSED[key], text, place)
    if found is None or key not in KNOWN:
        raise GrammarError(f"an attribute of a rule is one of {', '.join(KNOWN)}", text, place)
    if key in seen:
        raise GrammarError(f"the attribute {key} is given twice", text, place)
    return key, found.end()


def _wrong_value(key: str, has_value: bool, number: str | None, word: str | None) -> str | None:
    """Return why a value is not one of an attribute; None if it is."""
    if key == "lazy" and has_value:
        return "lazy has no value"
    if key == "capture" and has_value and not word:
        return 'a capture has a name, as in capture="name"'
    if key in ("max_chars", "max_tokens") and (number is None or word is not None):
        return f"{key} needs a number, as in {key}=100"
    if number is not None and len(number) > _MOST_DIGITS:
        return f"the number of {key} has more than {_MOST_DIGITS} digits"
    return None


def with_attributes(
    rules: Sequence[GrammarRule],
    attributes: dict[int, Attributes],
    tokens: dict[str | int, int],
    text: str,
    limits: Limits,
) -> list[GrammarRule]:
    """Return the rules of a grammar with what the attributes of some of them say.

    Args:
        rules: The rules.
        attributes: The attributes of some, by number.
        tokens: The special tokens, with their numbers. Signs of limits are added.
        text: The grammar.
        limits: Bounds on the automata.

    Raises:
        GrammarError: A rule with attributes is not one pattern, or has no text with them.
        PatternTooLarge: A limit is exceeded.
    """
    patterns = _Patterns(rules, attributes, text, limits)
    found = list(rules)
    for number, own in attributes.items():
        texts = patterns.texts(number)
        body: Node = texts.machine()
        if own.max_tokens == 0:
            body = Empty()
        elif own.max_tokens is not None:
            numbers = [tokens.setdefault(sign, len(tokens)) for sign in LimitSigns.of(own.max_tokens)]
            body = with_signs(texts.machine(), [Symbol.special_token(number) for number in numbers])
        found[number] = replace(rules[number], body=body, is_terminal=True)
    return _with_terminals(found) if any(rule.capture for rule in rules) else found


def _with_terminals(rules: list[GrammarRule]) -> list[GrammarRule]:
    """Return rules in which all characters stand in terminals, which captures are read by (`logitkit.grammars.captures`)."""
    found = list(rules)
    known: dict[Node, int] = {}

    def terminal(node: Node, rule: GrammarRule) -> Call:
        if node not in known:
            known[node] = len(found)
            found.append(replace(rule, body=node, is_terminal=True, capture=None))
        return Call(known[node])

    def split(node: Node, rule: GrammarRule) -> Node:
        if isinstance(node, Characters | Machine):
            return terminal(node, rule)
        return with_inside(node, lambda part: split(part, rule))

    for number, rule in enumerate(rules):
        body = terminal(rule.body, rule) if rule.is_terminal else split(rule.body, rule)
        found[number] = replace(rule, body=body, is_terminal=False)
    return found


class _Patterns:
    """The rules with attributes as patterns, and those that they call."""

    def __init__(
        self, rules: Sequence[GrammarRule], attributes: Mapping[int, Attributes], text: str, limits: Limits
    ) -> None:
        self.rules, self.attributes, self.text, self.limits = rules, attributes, text, limits
        # The tree of each rule that has been called, with what its attributes say.
        self._called: dict[int, Node] = {}

    def texts(self, number: int) -> TextLanguage:
        """Return the texts of a rule with attributes."""
        texts = shortest_texts(self._tree(number), self.attributes[number], None, self.limits)
        if texts.is_empty:
            raise self._refusal(f"the rule {self.rules[number].name!r} has no text with its attributes", number)
        return texts

    def _tree(self, number: int) -> Node:
        """Return the tree of a rule without calls, in which its own attributes have no effect yet."""
        # Each rule with those that it still has to call.
        around: dict[int, list[int]] = {}
        rule: int | None = number
        while rule is not None:
            if rule not in around:
                self.limits.spend(_CALL_STEPS)
                around[rule] = [*dict.fromkeys(calls_of(self.rules[rule].body))]
            if around[rule]:
                called = around[rule].pop()
                if called in around:
                    raise self._calls_itself(number, called)
                if called not in self._called:
                    self._check_called(number, called)
                    rule = called
            else:
                del around[rule]
                if rule == number:
                    break
                self._called[rule] = self._small(number, rule)
                rule = next(reversed(around))
        return self._written_out(number, number)

    def _written_out(self, number: int, rule: int) -> Node:
        """Return the tree of a rule that a pattern calls, or of itself, without calls."""

        def replaced(tree: Node) -> Node:
            return self._called[tree.rule] if isinstance(tree, Call) else with_inside(tree, replaced)

        tree = replaced(self.rules[rule].body)
        if _has_tokens(tree):
            raise self._refusal(
                f"the rule {self.rules[number].name!r} has attributes, so it is one pattern over text, but it has a special "
                "token; leave out the attributes, or the token",
                number,
            )
        return tree

    def _small(self, number: int, rule: int) -> Node:
        """Return a rule that is called, as one node, so that trees inside of each other do not become deep."""
        tree, own = self._written_out(number, rule), self.attributes.get(rule, Attributes())
        if own.max_tokens == 0:
            return Empty()
        if isinstance(tree, Characters) and own == Attributes():
            return tree
        texts = shortest_texts(tree, own, None, self.limits)
        return Characters(CharSet()) if texts.is_empty else texts.machine()

    def _check_called(self, number: int, called: int) -> None:
        """Raise `GrammarError` if a rule that a pattern calls needs what only rules in a grammar can do."""
        rule, name = self.rules[called], self.rules[number].name
        own = self.attributes.get(called, Attributes())
        if own.max_tokens or rule.capture is not None:
            what = "max_tokens" if own.max_tokens else "capture"
            raise self._refusal(
                f"the rule {rule.name!r} has {what}, but {name!r} calls it, which is one pattern because of its own attributes; "
                f"leave out {what} here, or the attributes of {name!r}",
                called,
            )

    def _calls_itself(self, number: int, called: int) -> GrammarError:
        return self._refusal(
            f"the rule {self.rules[number].name!r} has attributes, so it is one pattern, but it calls "
            f"{self.rules[called].name!r}, which calls itself; leave out the attributes, or write the rule without it",
            number,
        )

    def _refusal(self, reason: str, number: int) -> GrammarError:
        return GrammarError(reason, self.text, self.rules[number].begin)


def _has_tokens(tree: Node) -> bool:
    """Whether a tree without calls reads more than characters."""
    if isinstance(tree, Characters):
        return bool(tree.charset) and not Symbol.is_character(tree.charset.ranges[-1][1])
    return any(map(_has_tokens, inside_of(tree)))
