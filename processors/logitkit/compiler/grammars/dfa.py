"""Compile the rules of a grammar to a pushdown automaton over bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from logitkit.budget import one_budget, spent
from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.bytes.pushdown_dfa import PushdownDfa
from logitkit.compiler.bytes.pushdown_step import PushdownStep
from logitkit.compiler.bytes.pushdown_views import Views, bits
from logitkit.compiler.grammars.call_inlining import inlined
from logitkit.compiler.grammars.contradictions import PushdownNodes, without_contradictions
from logitkit.compiler.grammars.lr_states import LrStates
from logitkit.compiler.grammars.rule_automata import rule_automata
from logitkit.compiler.grammars.rules import Rules
from logitkit.compiler.grammars.stack_machine import StackMachine, stack_machine
from logitkit.errors import PatternTooLarge
from logitkit.limits import Limits

__all__ = ["pushdown_dfa"]

# The first try, before nodes are split, may spend one part in this many of the work that is left.
FIRST_TRY = 6


def pushdown_dfa(rules: Rules, limits: Limits, splits: bool = False) -> PushdownDfa:
    """Compile a grammar to a pushdown automaton over bytes: a deterministic one, if it becomes so.

    Args:
        rules: The grammar.
        limits: Bounds on the automata and on the work of building them.
        splits: Whether a symbol may have several actions where the grammar does not become deterministic.

    Raises:
        GrammarError: No text belongs to the grammar, or its trees are not those of `Rules`.
        PatternTooLarge: A limit is exceeded, or the grammar must become deterministic and does not; the message says how many
            states were reached.
    """
    with one_budget(limits.work):
        automata = rule_automata(rules, limits)
        heads = inlined(automata, limits)
        machine = stack_machine(automata, heads, len(rules.special_tokens), limits)
        nodes = _nodes(machine, limits, splits)
        made = without_contradictions(nodes, limits) if automata.looks else _as_they_are(nodes, limits)
        rows, views = made.rows, made.views
        states = len(rows)
        limits.spend(states * machine.symbols // 16)
        step = np.zeros((states, machine.symbols), np.int32)
        members: dict[int, list[int]] = {}
        further: list[tuple[int, int, int]] = []
        for state, row in enumerate(rows):
            for mask, does in row:
                if mask not in members:
                    members[mask] = [*bits(mask)]
                if not nodes.split:
                    step[state, members[mask]] = does
                    continue
                for symbol in members[mask]:
                    if step[state, symbol] == DEAD:
                        step[state, symbol] = does
                    elif step[state, symbol] != does:
                        further.append((state, symbol, does))
        need = np.array(views.need[:states], np.int64)
        need[:FIRST_STATE] = 0
        return_state = sorted(
            (n, frame, after if views.live[after] else DEAD) for (n, frame), after in made.return_state.items()
        )
        return PushdownDfa(
            step,
            machine.byte_class,
            rules.special_tokens,
            made.start,
            tuple(made.pushed),
            np.array(made.target, np.int64),
            made.frames,
            np.array(return_state, np.int64).reshape(-1, 3),
            need,
            np.array(sorted({*further}, key=lambda f: (*f[:2], PushdownStep.order(f[2]))), np.int64).reshape(-1, 3),
            np.array(views.frame_need, np.int64),
        )


def _as_they_are(nodes: LrStates, limits: Limits) -> PushdownNodes:
    """Return nodes in which no condition contradicts anything."""
    views = Views(nodes.rows, nodes.pushed, nodes.target, nodes.return_state, limits)
    return PushdownNodes(
        nodes.rows, nodes.pushed, nodes.target, len(nodes.frames), nodes.return_state, nodes.start, views
    )


def _nodes(machine: StackMachine, limits: Limits, splits: bool) -> LrStates:
    """Return the nodes of a machine, which are split only if they must be."""
    if not splits:
        return LrStates(machine, limits)
    try:
        # It takes a part of the work that is left, or nothing would be left for what is tried next.
        return LrStates(machine, replace(limits, work=spent() + (limits.work - spent()) // FIRST_TRY))
    except PatternTooLarge:
        return LrStates(machine, limits, split=True)
