"""What every grammar is checked for once it has been read: rules that are missing, that never end, or that nothing uses.

A rule is *productive* if it has a finite text. In `list ::= "[" list "]"` every text needs another one, so there is none. The
check is a count: a sequence waits for all of its parts, a choice for one of its options, and a call waits for its rule. Whoever
waits for nothing is productive, and everybody who waited for it waits for one less. This takes time linear in the grammar.

Trees are walked with a list instead of recursion, so the number and the nesting of rules may be large.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches

from logitkit.errors import GrammarError
from logitkit.grammars.rule_set import GrammarRule, RuleSet
from logitkit.patterns.syntax import Alternate, Atomic, Call, Characters, Concat, Graph, Look, Node, Repeat

__all__ = ["calls_of", "checked_rule_set", "defined_twice", "no_start", "undefined_rule"]

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
) -> RuleSet:
    r"""Check that every rule has a finite text, and warn of rules that the start does not reach.

    Args:
        grammar: The text of the grammar.
        rules: The rules. Every `Call` in them is a rule of the list.
        start: The rule of the whole text.
        tokens: The special tokens of the trees.
        warnings: What the reader found suspicious, in sentences.

    Raises:
        GrammarError: A rule has no finite text.

    Example:
        >>> from logitkit.patterns import parse
        >>> rules = [GrammarRule("root", parse("a"), 0, 9), GrammarRule("b", parse("b"), 9, 20)]
        >>> checked_rule_set('root ::= "a"\\nb ::= "b"', rules, 0).warnings
        ("the rule 'b' is not used",)
    """
    callees = [list(dict.fromkeys(calls_of(rule.body))) for rule in rules]
    productive = _productive(rules)
    if not all(productive):
        raise _endless(grammar, rules, callees, productive)
    used, waiting = {start}, [start]
    while waiting:
        new = [i for i in callees[waiting.pop()] if i not in used]
        used.update(new)
        waiting.extend(new)
    kept = {rules[i].name for i in used}
    unused = list(dict.fromkeys(rule.name for rule in rules if rule.name not in kept))
    said = [f"the rule{'s' * (len(unused) > 1)} {_listed(unused)} {'are' if len(unused) > 1 else 'is'} not used"]
    return RuleSet(tuple(rules), start, tuple(tokens), (*warnings, *said[: len(unused)]))


def calls_of(tree: Node) -> Iterator[int]:
    """Return the rules that a tree calls, in the order of the text, with repetitions."""
    waiting: list[Node] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Call):
            yield node.definition
        else:
            waiting.extend([part for part in reversed(_children(node)) if not isinstance(part, Characters)])


def _children(node: Node) -> Sequence[Node]:
    match node:
        case Concat():
            return node.parts
        case Alternate():
            return node.options
        case Repeat() | Atomic() | Look():
            return (node.node,)
        case Graph():
            return [label for moves in node.moves for label, _ in moves]
        case _:
            return ()


def _productive(rules: Sequence[GrammarRule]) -> list[bool]:
    """Return whether each rule has a finite text."""
    # A goal is a rule, a sequence or a choice: the number of goals that it waits for, and who waits for it.
    missing = [1] * len(rules)
    waits: list[list[int]] = [[] for _ in rules]
    done: list[int] = []
    trees: list[tuple[Node, int]] = [(rule.body, i) for i, rule in enumerate(rules)]
    while trees:
        node, goal = trees.pop()
        match node:
            case Call(called):
                waits[called].append(goal)
            case Concat() | Alternate():
                parts = _children(node)
                rest = [part for part in parts if not (isinstance(part, Characters) and part.charset.ranges)]
                if not rest or (isinstance(node, Alternate) and len(rest) < len(parts)):
                    done.append(goal)
                    continue
                trees.extend([(part, len(missing)) for part in rest])
                missing.append(len(rest) if isinstance(node, Concat) else 1)
                waits.append([goal])
            case Repeat() if node.minimum:
                trees.append((node.node, goal))
            case Characters(charset) if not charset:
                pass
            case _:
                done.append(goal)
    while done:
        goal = done.pop()
        missing[goal] -= 1
        if missing[goal] == 0:
            done.extend(waits[goal])
    return [count <= 0 for count in missing[: len(rules)]]


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
