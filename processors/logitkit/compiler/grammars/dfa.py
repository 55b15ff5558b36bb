"""Compile the rules of a grammar."""

from __future__ import annotations

import numpy as np

from logitkit.budget import one_budget
from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.compiler.bytes.pushdown_dfa import NEVER, PushdownDfa
from logitkit.compiler.grammars.call_inlining import inlined
from logitkit.compiler.grammars.contradictions import without_contradictions
from logitkit.compiler.grammars.rule_automata import rule_automata
from logitkit.compiler.grammars.rules import Rules
from logitkit.compiler.grammars.set_nodes import SetNodes
from logitkit.compiler.grammars.stack_machine import stack_machine
from logitkit.compiler.grammars.views import Views
from logitkit.limits import Limits

__all__ = ["pushdown_dfa"]


def pushdown_dfa(rules: Rules, limits: Limits) -> PushdownDfa:
    """Compile a grammar to a deterministic pushdown automaton over bytes.

    Args:
        rules: The grammar.
        limits: Bounds on the automata and on the work of building them.

    Raises:
        GrammarError: No text belongs to the grammar, or its trees are not those of `Rules`.
        PatternTooLarge: A limit is exceeded, or the grammar does not become deterministic; the message says how many states were
            reached.
    """
    with one_budget(limits.work):
        automata = rule_automata(rules, limits)
        heads = inlined(automata, limits)
        machine = stack_machine(automata, heads, len(rules.letters), limits)
        nodes = SetNodes(machine, limits)
        if automata.looks:
            rows, views = without_contradictions(nodes, limits)
        else:
            rows, views = nodes.rows, Views(nodes.rows, nodes.pushed, nodes.target, nodes.behind, limits)
        states = len(nodes.nodes)
        limits.spend(states * machine.symbols // 16)
        step = np.zeros((states, machine.symbols), np.int32)
        members: dict[int, list[int]] = {}
        for state, row in enumerate(rows):
            for mask, does in row:
                if mask not in members:
                    members[mask] = [i for i in range(mask.bit_length()) if mask >> i & 1]
                step[state, members[mask]] = does if does >= -1 else states - 2 - does
        # A state may be met in several views; what the most demanding one needs is enough for all.
        need = np.zeros(states, np.int64)
        for view, (node, _) in enumerate(views.views):
            if node >= FIRST_STATE:
                need[node] = max(need[node], views.need[view] if views.exits[view] else NEVER * (view < states))
        behind = sorted((node, frame, after) for (node, frame), after in nodes.behind.items() if need[after] < NEVER)
        return PushdownDfa(
            step,
            machine.byte_class,
            rules.letters,
            nodes.start,
            tuple(nodes.pushed),
            np.array(nodes.target, np.int64),
            len(nodes.frames),
            np.array(behind, np.int64).reshape(-1, 3),
            need,
        )
