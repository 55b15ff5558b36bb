"""Which calls stay calls: left recursion becomes loops, and rules are written out in their callers where that stays small.

By hand: `sum ::= sum "+" item | item` becomes the loop `item ("+" item)*`. With `item ::= "1" | "(" sum ")"`, only one of the
two rules stays a rule: `sum` becomes `("1" | "(" sum ")") ("+" ("1" | "(" sum ")"))*`.

Left recursion: let rules call each other at their left edges, as `sum` calls itself. Such a rule reads a text of one of them
without a call at the left edge, and then rests: wherever a text of rule X ends, each rule of them that may begin with X may go
on after it. So each of them is an automaton over all their states.

Writing out: a copy of a rule belongs to the place where it goes on after the call. A call at the end of a copy goes on where the
copy does, so that a rule that ends with a call of itself is a loop in its own copy. The rules that stay rules (*heads*) are
chosen so that nothing else is written out without end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TypeAlias

from logitkit.compiler.characters.components import components
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.compiler.characters.symbols import Symbol
from logitkit.compiler.grammars.nfa import Nfa
from logitkit.compiler.grammars.rule_automata import RuleAutomata
from logitkit.compiler.grammars.simulation import after_reading
from logitkit.limits import Limits

__all__ = ["inlined"]

# A rule that calls itself, and goes on in this many different places after its calls, stays a rule.
MANY_RETURNS = 3

# A rule that does not call itself is written out up to this many times its states.
MOST_COPIED = 1500
SMALL = 12

# The cost of copying a state into the automaton of a left-recursive rule, in steps.
COPY_STEPS = 20

# Pairs of states that are compared for one call.
MOST_COMPARED = 500


def inlined(rules: RuleAutomata, limits: Limits) -> dict[int, SymbolDfa]:
    """Return the automata of the rules that stay, the start's first; they call only each other."""
    automata = without_left_recursion(rules, limits)
    calls = {rule: _calls(rule, automata, rules, limits) for rule in automata}
    heads = _heads(automata, calls, limits)
    found: dict[int, SymbolDfa] = {}
    todo = [rules.start] if rules.start in automata else []
    while todo:
        rule = todo.pop()
        if rule not in found:
            found[rule] = _written_out(rule, automata, calls, heads, rules, limits)
            todo.extend(dict.fromkeys(callee for _, callee, _ in rules.calls(found[rule])))
    return found


def _graph(edges: dict[int, dict[int, int]]) -> list[list[int]]:
    """Return the strongly connected components of all nodes of a graph."""
    nodes = [*edges]
    number = {node: i + 1 for i, node in enumerate(nodes)}
    moves = [dict.fromkeys(range(1, len(nodes) + 1), 0)]
    moves += [{number[t]: 0 for t in edges[node] if t in number} for node in nodes]
    return [[nodes[i - 1] for i in component] for component in components(moves) if component != [0]]


def without_left_recursion(rules: RuleAutomata, limits: Limits) -> dict[int, SymbolDfa]:
    """Return the automata of all rules with their left recursion as loops."""
    bit = rules.call_bits()
    left = {r: {c: 0 for state, c, _ in rules.calls(dfa) if state == 0} for r, dfa in rules.automata.items()}
    automata = dict(rules.automata)
    for component in _graph(left):
        if len(component) == 1 and component[0] not in left[component[0]]:
            continue
        states = sum([len(rules.automata[rule].moves) for rule in component])
        limits.spend(COPY_STEPS * states * len(component))
        among = sum(bit[rule] for rule in component if rule in bit)
        for rule in component:
            nfa = Nfa(limits, signs=rules.signs)
            first = {r: nfa.add(len(rules.automata[r].moves)) for r in component}
            start, end = nfa.add(), nfa.add()
            ended = {r: nfa.add() for r in component}
            for r in component:
                dfa, base = rules.automata[r], first[r]
                for state, row in enumerate(dfa.moves):
                    nfa.edges[base + state] = [(mask, base + t) for t, mask in row.items()]
                    if dfa.accepting[state]:
                        nfa.empty[base + state].append(ended[r])
                for t, mask in dfa.moves[0].items():
                    if mask & ~among:
                        nfa.edges[start].append((mask & ~among, base + t))
                    for symbol in rules.split(mask & among)[1]:
                        nfa.empty[ended[Symbol.number(symbol)]].append(base + t)
            nfa.empty[ended[rule]].append(end)
            # The others begin with a text of this one, or do not count.
            smaller = nfa.minimal(start, end)
            assert smaller is not None
            automata[rule] = smaller
    return automata


# State, called rule, the state after it, and whether the call is the last thing that the rule does.
Calls: TypeAlias = list[tuple[int, int, int, bool]]


def _calls(rule: int, automata: dict[int, SymbolDfa], rules: RuleAutomata, limits: Limits) -> Calls:
    dfa = automata[rule]
    return [(s, callee, t, _is_last(automata[callee], dfa, t, limits)) for s, callee, t in rules.calls(dfa)]


def _is_last(called: SymbolDfa, caller: SymbolDfa, return_state: int, limits: Limits) -> bool:
    """Whether a call may be taken for the last thing in its rule.

    It may if the rule may end after the call, and whatever else may follow there may also follow inside the called rule, wherever
    that may end: in `e ::= e "+" e | "1"`, which is `"1" ("+" e)*`, the inner `e` reads all further `"+" e` itself.
    """
    if not caller.accepting[return_state]:
        return False
    if not caller.moves[return_state]:
        return True
    todo = [(state, return_state) for state, accepts in enumerate(called.accepting) if accepts]
    seen = set(todo)
    while todo:
        better, worse = todo.pop()
        limits.spend(3 + len(caller.moves[worse]))
        following = after_reading(called.moves[better], caller.moves[worse])
        ends_only_there = caller.accepting[worse] and not called.accepting[better]
        if following is None or ends_only_there or len(seen) > MOST_COMPARED:
            return False
        fresh = [pair for pair in dict.fromkeys(following) if pair not in seen]
        seen.update(fresh)
        todo.extend(fresh)
    return True


def _heads(automata: dict[int, SymbolDfa], calls: dict[int, Calls], limits: Limits) -> set[int]:
    """Choose the rules that stay rules."""
    inner = {rule: Counter(callee for _, callee, _, last in found if not last) for rule, found in calls.items()}
    every = {rule: {callee: 0 for _, callee, _, _ in found} for rule, found in calls.items()}
    returns: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for rule, found in calls.items():
        for _, callee, t, _ in found:
            returns[callee].add((rule, t))
    heads = _heads_of_cycles(inner, every, returns, limits)
    # From what calls nothing up: how large each rule is with all that is written out in it.
    size: dict[int, int] = {}
    for component in _graph(every):
        for rule in component:
            copied = {(c, t) for _, c, t, _ in calls[rule] if c not in heads}
            size[rule] = len(automata[rule].moves) + sum(size.get(c, 0) for c, _ in copied)
            many = len(returns[rule])
            if many > 1 and size[rule] > SMALL and many * size[rule] > MOST_COPIED:
                heads.add(rule)
    return heads


def _heads_of_cycles(
    inner: dict[int, Counter[int]],
    every: dict[int, dict[int, int]],
    returns: dict[int, set[tuple[int, int]]],
    limits: Limits,
) -> set[int]:
    """Choose rules so that all others call each other in no circle, but for calls at the end of a rule.

    Args:
        inner: For each rule, how often it calls each other one, not at its end.
        every: For each rule, all that it calls, as keys.
        returns: For each rule, the places to which its calls return.
        limits: Bounds on the work.
    """
    heads: set[int] = set()
    total = _summed(inner.values())
    left = [*every]
    first = True
    while left:
        edges = {rule: every[rule] for rule in left if rule not in heads}
        limits.spend(sum([10 + 4 * len(callees) for callees in edges.values()]))
        left = []
        for component in _graph(edges):
            within = _summed([inner[rule] for rule in component])
            members = set(component)
            if members.isdisjoint(within):
                continue
            left.extend(component)
            if first:
                heads.update(rule for rule in component if len(returns[rule]) >= MANY_RETURNS)
            if not (first and members & heads):
                heads.add(max(component, key=lambda rule: (total[rule] + within[rule], -rule)))
        first = False
    return heads


def _summed(counts: Iterable[Counter[int]]) -> Counter[int]:
    found = Counter[int]()
    for count in counts:
        found.update(count)
    return found


def _written_out(
    head: int,
    automata: dict[int, SymbolDfa],
    calls: dict[int, Calls],
    heads: set[int],
    rules: RuleAutomata,
    limits: Limits,
) -> SymbolDfa:
    """Return the automaton of one rule with copies of the rules that do not stay rules."""
    if all(c in heads and not (c == head and last) for _, c, _, last in calls[head]):
        return automata[head]
    bit = rules.call_bits()
    nfa = Nfa(limits, signs=rules.signs)
    end = nfa.add()
    copies: dict[tuple[int, int], int] = {}
    todo: list[tuple[int, int]] = []

    def copy(rule: int, return_state: int) -> int:
        if (rule, return_state) not in copies:
            copies[rule, return_state] = nfa.add(len(automata[rule].moves))
            todo.append((rule, return_state))
        return copies[rule, return_state]

    copy(head, end)
    while todo:
        rule, return_state = todo.pop()
        base, dfa = copies[rule, return_state], automata[rule]
        gone: dict[tuple[int, int], int] = defaultdict(int)
        for state, callee, t, last in calls[rule]:
            after = return_state if last else base + t
            if callee not in heads or (callee, after) in copies:
                nfa.empty[base + state].append(copy(callee, after))
                gone[state, t] |= bit[callee]
        _add_states(nfa, dfa, base, return_state, gone)
    found = nfa.minimal(copies[head, end], end)
    assert found is not None
    return found


def _add_states(nfa: Nfa, dfa: SymbolDfa, base: int, return_state: int, gone: dict[tuple[int, int], int]) -> None:
    """Add the moves of a rule's states, but for calls that are written out.

    Args:
        nfa: The automaton that they are added to.
        dfa: The rule.
        base: The first of its states there.
        return_state: The state after the rule.
        gone: For pairs of states, the calls that are written out between them, as masks.
    """
    for state, row in enumerate(dfa.moves):
        for t, mask in row.items():
            left = mask & ~gone[state, t]
            if left:
                nfa.edges[base + state].append((left, base + t))
        if dfa.accepting[state]:
            nfa.empty[base + state].append(return_state)
