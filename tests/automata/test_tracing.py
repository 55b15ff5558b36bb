"""Automata come while a graph is traced."""

from __future__ import annotations

import threading
from typing import Any

import torch

# Imported before any test runs: other tests replace `is_compiling`, and dynamo must not meet the replacement first.
import torch._dynamo

import logitkit as lk
from logitkit.runtime.constraint_state import ConstraintState


def test_tables_stay_in_their_place_while_a_graph_is_traced() -> None:
    # The content occurs in no other test, so that the registry is new.
    vocabulary = lk.Vocabulary([b"a", b"b", None, b"traced"], eos_ids=[2])
    regex = lk.Regex("ab*", vocabulary)
    others: list[lk.Regex] = []
    tables = regex.registry.tables

    def come() -> None:
        # More states than the tables have room for.
        others.append(lk.Regex("a{400}b", vocabulary))
        others[0].handle()

    comer = threading.Thread(target=come)

    def compiler(graph: Any, _: Any) -> Any:
        comer.start()
        comer.join(0.5)
        return graph.forward

    def step(state: ConstraintState, tokens: torch.Tensor) -> ConstraintState:
        return regex.advance(state, tokens)

    torch.compiler.reset()
    try:
        compiled = torch.compile(step, fullgraph=True, backend=compiler)
        start = regex.init_state(lk.Context.of([[]], vocabulary_size=4))
        after = compiled(start, torch.tensor([0]))
        comer.join()
    finally:
        torch.compiler.reset()
    assert torch.equal(after.at.state, regex.advance(start, torch.tensor([0])).at.state)
    assert regex.registry.tables is not tables
    assert not others[0].is_dead(others[0].init_state(lk.Context.of([[]], vocabulary_size=4)))


def test_one_function_is_traced_for_several_vocabularies() -> None:
    def compiled(regex: lk.Regex) -> Any:
        def step(state: ConstraintState, logits: torch.Tensor, context: lk.Context) -> Any:
            return regex.process_logits(state, logits, context)[1]

        return torch.compile(step, fullgraph=True, backend="aot_eager")

    context = lk.Context.of([[]], 4)
    torch.compiler.reset()
    for text in (b"first", b"second", b"third"):
        vocabulary = lk.Vocabulary([b"a", b"b", text, None], eos_ids=[3])
        regex = lk.Regex("a|second", vocabulary)
        logits = compiled(regex)(regex.init_state(context), torch.zeros(1, 4), context)
        assert (logits == 0).tolist() == [[True, False, text == b"second", False]]
