"""A real vLLM engine generates texts of grammars, next to requests with other constraints."""

from __future__ import annotations

from typing import Any

import logitkit as lk
from tests.adapters_vllm import engine

PAIRS = 'root ::= "(" root? ")"'
SUM = 'start: item ("+" item)*\nitem: /[0-9]{1,2}/ | "(" start ")"'
EVERY_BYTE = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])


def test_each_row_follows_its_own_grammar(llm: Any) -> None:
    configs: list[dict[str, Any]] = [
        {"grammar": {"text": PAIRS, "max_depth": 6}},
        {"grammar": {"text": SUM, "syntax": "lark"}},
        {"regex": "[a-z]{9}"},
    ]
    asked = [
        (engine.PROMPTS[3], {"max_tokens": 24, "temperature": 1.5, "extra_args": {"logitkit": config}})
        for config in configs * 8
    ]
    outputs = [output.text for output in engine.generate(llm, asked)]
    pairs = lk.Grammar(PAIRS, EVERY_BYTE, max_depth=6)
    assert all(pairs.matches(text) for text in outputs[::3])
    sums = lk.Grammar(SUM, EVERY_BYTE, syntax="lark")
    # These may be cut off, but nothing illegal is in them.
    assert all(lk.explain(sums, EVERY_BYTE, "", text).refusal is None for text in outputs[1::3])
    assert all(text.isalpha() and len(text) == 9 for text in outputs[2::3])
    assert len({*outputs[::3]}) > 1
