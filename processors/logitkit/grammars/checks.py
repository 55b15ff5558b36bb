"""Checks of every grammar once it has been read: rules that are missing, that never end, or that nothing uses.

A rule is *productive* if it has a finite text. In `list ::= "[" list "]"` every text needs another one, so there is none.

Trees are walked with a list instead of recursion, so the number and the nesting of rules may be large.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches

from logitkit.compiler.bytes.special_tokens import OTHERS
from logitkit.compiler.characters.components import reached
from logitkit.compiler.grammars.rules import deriving
from logitkit.errors import GrammarError
from logitkit.grammars.rule_set import GrammarRule, RuleSet
from logitkit.limits import UNBOUNDED
from logitkit.patterns.construction import inside
from logitkit.patterns.syntax import Call, Characters, Node

__all__ = ["calls_of", "check_names_of_tokens", "checked_rule_set", "defined_twice", "no_start", "undefined_rule"]

# How many names a message lists.
LISTED = 5
# Near matches are searched among this many names; each comparison takes about 20 microseconds.
COMPARED = 10_000


def undefined_rule(name: str, names: Collection[str], grammar: str, position: int) -> GrammarError:
    """Return the error for a rule that is called but not defined.

    Args:
        name: The name that is called.
        names: The names of the rules that are defined.
        grammar: The text of the grammar.
        position: Where the name stands, in characters.
    """
    return GrammarError(f"the rule {name!r} is not defined{_instead(name, names)}", grammar, position)


def defined_twice(name: str, first: int, grammar: str, position: int) -> GrammarError:
    """Return the error for a second definition of a rule; `first` is where the first one begins, in characters."""
    line = grammar.count("\n", 0, first) + 1
    reason = f"the rule {name!r} is already defined in line {line}; join both definitions by |, or rename one of them"
    return GrammarError(reason, grammar, position)


def no_start(start: str, names: Collection[str]) -> GrammarError:
    """Return the error for a grammar that lacks the rule of the whole text."""
    if not names:
        return GrammarError("the grammar has no rules")
    near = _instead(start, names) or f"; the rules are {_listed(names)}"
    return GrammarError(f"there is no rule {start!r}; pass the name of the start rule as start=...{near}")


def checked_rule_set(
    grammar: str,
    rules: Sequence[GrammarRule],
    start: int,
    tokens: Iterable[str | int] = (),
    warnings: Iterable[str] = (),
    all_end: bool = True,
    left_out: tuple[str, int] | None = None,
) -> RuleSet:
    r"""Check that rules have a finite text, and warn of rules that the start does not reach.

    Args:
        grammar: The text of the grammar.
        rules: The rules. Every `Call` in them is a rule of the list.
        start: The rule of the whole text.
        tokens: The special tokens of the trees.
        warnings: The reader's doubts, in sentences.
        all_end: Whether every rule must have a finite text, and not only the start.
        left_out: A reason to leave out alternatives that need an empty set of characters, and its place: then a rule need have
            no text if it needs such a set. The error says the reason if the start does.

    Raises:
        GrammarError: One that must has no finite text.

    Example:
        >>> from logitkit.patterns import parse
        >>> rules = [GrammarRule("root", parse("a"), 0, 9), GrammarRule("b", parse("b"), 9, 20)]
        >>> checked_rule_set('root ::= "a"\\nb ::= "b"', rules, 0).warnings
        ("the rule 'b' is not used",)
    """
    callees = [list(dict.fromkeys(calls_of(rule.body))) for rule in rules]
    # A terminal that is not a set of characters has a text.
    bodies = [rule.body for rule in rules]
    productive = deriving(bodies, lambda leaf: not isinstance(leaf, Characters) or bool(leaf.charset), UNBOUNDED)
    ending = productive if left_out is None else deriving(bodies, lambda _: True, UNBOUNDED)
    if not (all(ending) if all_end else ending[start]):
        raise _endless(grammar, rules, callees, ending)
    if left_out is not None and not productive[start]:
        reason, begin = left_out
        raise GrammarError(f"{reason}: {_endless(grammar, rules, callees, productive).reason}", grammar, begin)
    kept = {rules[i].name for i in reached(start, callees.__getitem__)}
    unused = list(dict.fromkeys(rule.name for rule in rules if rule.name not in kept))
    said = [f"the rule{'s' * (len(unused) > 1)} {_listed(unused)} {'are' if len(unused) > 1 else 'is'} not used"]
    return RuleSet(tuple(rules), start, tuple(tokens), (*warnings, *said[: len(unused)]))


def check_names_of_tokens(names: Sequence[str | int], ids: Sequence[int], grammar: str = "") -> None:
    """Check that a grammar with `!<...>` names each token in one way, so that the token is not one of the others too.

    Args:
        names: The special tokens of the grammar, by name or id.
        ids: A number for each, the same for two names of the same token.
        grammar: The text of the grammar, if the error should show it.

    Raises:
        GrammarError: Two names are the same token.
    """
    if OTHERS not in names:
        return
    name_of: dict[int, str | int] = {}
    for name, token in zip(names, ids, strict=True):
        other = name_of.setdefault(token, name)
        if other != name:
            written = [f"<[{n}]>" if isinstance(n, int) else n for n in (other, name)]
            reason = f"{written[0]} and {written[1]} are the same token; in a grammar with !<...>, name it in one way"
            raise GrammarError(reason, grammar, max(grammar.find(written[1]), 0) if grammar else None)


def calls_of(tree: Node) -> Iterator[int]:
    """Return the rules that a tree calls, in the order of the text, with repetitions."""
    waiting: list[Node] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Call):
            yield node.rule
        else:
            waiting.extend([part for part in reversed(inside(node)) if not isinstance(part, Characters)])


def _endless(
    grammar: str, rules: Sequence[GrammarRule], callees: list[list[int]], productive: list[bool]
) -> GrammarError:
    """Return the error for the first rule without a finite text, with calls that lead back to a rule."""
    first = min((i for i, has_text in enumerate(productive) if not has_text), key=lambda i: rules[i].begin)
    name, path = rules[first].name, [first]
    while (called := next((i for i in callees[path[-1]] if not productive[i]), None)) is not None:
        path.append(called)
        if called in path[:-1] or len(path) > LISTED:
            break
    reason = f"no text matches the rule {name!r}; leave out the empty set of characters in it"
    if len(path) > 1:
        chain = " -> ".join(rules[i].name for i in path)
        reason = f"the rule {name!r} has no finite text ({chain} -> ...); add an alternative that ends"
    return GrammarError(reason, grammar, rules[first].begin)


def _instead(name: str, names: Collection[str]) -> str:
    near = get_close_matches(name, list(names)[:COMPARED], n=1) if len(name) <= 100 else []
    return f"; did you mean {near[0]!r}?" if near else ""


def _listed(names: Collection[str]) -> str:
    shown = [repr(name) for name in names]
    if len(shown) > LISTED:
        shown = [*shown[:LISTED], f"{len(shown) - LISTED} more"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))
