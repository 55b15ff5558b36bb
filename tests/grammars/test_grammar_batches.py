"""Batches of 32 rows with 32 grammars: each row has the masks that it has alone, on both paths, also after rows are exchanged."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

import pytest
import torch

import logitkit as lk
from tests.batches import tensor_path

PIECES = [*(bytes([byte]) for byte in range(256)), b"((", b"))", b"(1", b"1)", b"aa", b"ab", b"ba", b"aba"]
VOCABULARY = lk.Vocabulary([*PIECES, None], eos_ids=[len(PIECES)])
CONTEXT = lk.Context.of([[]], vocabulary_size=VOCABULARY.size)
ROWS = 32

KINDS = {
    # A frame or none, and another number of brackets in each.
    "deterministic": [
        f'root ::= "1"{{{n + 1}}} | "{"(" * (n % 3 + 1)}" root "{")" * (n % 3 + 1)}"' for n in range(ROWS)
    ],
    "several stacks": [f'root ::= "a" root "a" | "b" root "b" | "1"{{0,{n}}}' for n in range(ROWS)],
    "regular": [f"root ::= [ab]{{{n},{n + 5}}}" for n in range(ROWS)],
}


def legal(grammar: lk.Grammar, state: Any, rows: int) -> torch.Tensor:
    context = lk.Context.of([[]] * rows, vocabulary_size=VOCABULARY.size)
    return grammar.process_logits(state, torch.zeros(rows, VOCABULARY.size), context)[1] == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by_tensors", [False, True], ids=["host", "tensors"])
def test_32_rows_of_32_grammars(kind: str, by_tensors: bool) -> None:
    chance = random.Random(0)
    grammars = [lk.Grammar(text, VOCABULARY, max_depth=6, configurations=4) for text in KINDS[kind]]
    assert len({grammar.automaton.content_key for grammar in grammars}) == ROWS
    alone: list[Any] = [grammar.init_state(CONTEXT) for grammar in grammars]
    state: Any = lk.concatenate(alone)
    with tensor_path() if by_tensors else nullcontext():
        for step in range(8):
            masks = legal(grammars[0], state, ROWS)
            for row, grammar in enumerate(grammars):
                assert torch.equal(masks[row], legal(grammar, alone[row], 1)[0]), (step, row)
            chosen = [chance.choice(mask.nonzero().flatten().tolist()) for mask in masks]
            state = grammars[0].advance(state, torch.tensor(chosen))
            alone = [g.advance(s, torch.tensor([t])) for g, s, t in zip(grammars, alone, chosen, strict=True)]
            order = chance.sample(range(ROWS), ROWS)
            state = lk.select(state, torch.tensor(order))
            grammars, alone = [grammars[row] for row in order], [alone[row] for row in order]
