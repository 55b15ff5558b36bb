"""Forced tokens take no forward pass of their own, and the text is that of the engine's own `generate`."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit_adapters.sessions import Session
from tests.adapters.demo import tokenizer, vocabulary
from tests.sessions.alone import alone
from tests.sessions.engines import ENGINES, loaded, watched

PROMPT = "Name: Emma Brown\nAs JSON: "
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"enum": ["Emma Brown", "Noah Miller"]},
        "age": {"type": "integer", "minimum": 10, "maximum": 99},
        "member": {"type": "boolean"},
    },
    "required": ["name", "age", "member"],
    "additionalProperties": False,
}
PATTERN = r'\{"name":"(Emma Brown|Noah Miller)","age":[1-9][0-9],"member":(true|false)\}'


@cache
def letters() -> lk.Vocabulary:
    """Return the tokens of one byte only: with them there is one way to write a text."""
    whole = vocabulary()
    return lk.Vocabulary([t if t is not None and len(t) == 1 else None for t in whole.tokens], eos_ids=whole.eos_ids)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["schema", "pattern", "schema and penalties"])
def test_keys_of_an_object_take_no_passes_where_a_text_has_one_tokenization(kind: str, engine: str) -> None:
    schema = lk.JsonSchema(SCHEMA, letters())
    processor: Any = {
        "schema": schema,
        "pattern": lk.Regex(PATTERN, letters()),
        "schema and penalties": lk.chain(lk.RepetitionPenalty(1.3), schema, lk.Temperature(0.7), lk.TopK(3)),
    }[kind]
    ids = tokenizer()(PROMPT, add_special_tokens=False)["input_ids"]
    model, tokens = loaded(engine)
    with Session(model, tokens, max_length=256) as session, watched(model) as fed:
        (row,) = session.generate(ids, processor=processor, max_new_tokens=80).rows
    with watched(model) as fed_alone:
        assert row.token_ids == alone(engine, ids, 80, processor)
    text = tokenizer().decode(row.token_ids, skip_special_tokens=True)
    assert len(row.token_ids) == len(text) + 1  # each character, and EOS
    # The model chooses the name by its first letter, two digits, and true or false by the first letter.
    assert (row.forward_passes, row.forced_tokens) == (4, len(text) + 1 - 4)
    assert row.forward_passes_saved == len(text) - 3 > 38
    # From the last choice on nothing is fed.
    unfed = len("true}" if "true" in text else "false}")
    assert (sum(fed), row.positions_saved) == (row.positions_fed, unfed)
    assert row.positions_fed == len(ids) + len(text) - unfed
    # In mlx-lm the last token of several is a call of its own. Feeding ahead, `generate` of mlx-lm calls once more;
    # that of llama.cpp runs in a context of its own here, which is not watched. ONNX Runtime GenAI is only watched where a
    # generator is given tokens.
    calls = {
        "transformers": (4, len(text) + 1),
        "mlx-lm": (7, len(text) + 3),
        "llama.cpp": (4, 0),
        "onnxruntime-genai": (4, 1),
    }
    assert (len(fed), len(fed_alone)) == calls[engine]


@pytest.mark.parametrize("engine", ENGINES)
def test_with_words_as_tokens_only_what_one_token_writes_is_forced(engine: str) -> None:
    ids = tokenizer()(PROMPT, add_special_tokens=False)["input_ids"]
    processor = lk.JsonSchema(SCHEMA, vocabulary())
    with Session(*loaded(engine), max_length=256) as session:
        (row,) = session.generate(ids, processor=processor, max_new_tokens=80).rows
    assert row.token_ids == alone(engine, ids, 80, processor)
    # "name" may be written n, na, name, ...: the model chooses. After a single n, there is only one continuation.
    forced = forced_in(processor, ids, row.token_ids)
    assert row.forward_passes_saved == row.forced_tokens == forced == 6
    assert len(row.token_ids) == 23


def forced_in(processor: Any, prompt: list[int], tokens: list[int]) -> int:
    """Count the tokens to which the processor leaves no alternative, one by one."""
    context = lk.Context.of([prompt], vocabulary().size)
    state, count = processor.init_state(context), 0
    for token in tokens:
        state, logits = processor.process_logits(state, torch.zeros(1, vocabulary().size), context)
        count += int((logits > -torch.inf).sum()) == 1
        state = processor.advance(state, torch.tensor([token]))
    return count
