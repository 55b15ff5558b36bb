"""Special tokens whose names have brackets are not text, wherever a row remembers items."""

from __future__ import annotations

import torch

import logitkit as lk
from logitkit import languages
from tests.remembering.test_masks import array

CALLS, END, EOS = 256, 257, 258
# Before the first array, in which items must differ, `[` would begin one.
TOKENS = [*(bytes([byte]) for byte in range(256)), b"[TOOL,CALLS]", b"[END]", b"[EOS]"]
VOCABULARY = lk.Vocabulary(TOKENS, eos_ids=[EOS], special={"[TOOL,CALLS]": CALLS, "[END]": END})


def test_a_special_token_with_a_bracket_is_legal_and_leads_on() -> None:
    calls = languages.sequence(
        languages.special("[TOOL,CALLS]"), languages.json_schema(array({"type": "string"})), languages.special("[END]")
    )
    constraint = calls.constraint(VOCABULARY)
    state = constraint.init_state(lk.Context.of([[]], vocabulary_size=VOCABULARY.size))
    for token in (CALLS, *b'["a","b"]', END, EOS):
        assert constraint.allowed_tokens(state)[0, token], token
        state = constraint.advance(state, torch.tensor([token]))
        assert not constraint.is_dead(state)[0], token


def test_a_special_token_is_not_an_item() -> None:
    constraint = lk.JsonSchema(array({"type": "string"}), VOCABULARY)
    state = constraint.init_state(lk.Context.of([[]], vocabulary_size=VOCABULARY.size))
    assert not constraint.allowed_tokens(state)[0, [CALLS, END, EOS]].any()
    assert constraint.is_dead(constraint.advance(state, torch.tensor([CALLS])))[0]
