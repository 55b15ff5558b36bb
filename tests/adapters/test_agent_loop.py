"""An agent in each engine: the shipped model calls a tool, reads the result, and answers by a schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

import mlx_lm
import pytest
import torch
from pydantic import Field

import logitkit as lk
from logitkit_adapters import llama_cpp, transformers
from logitkit_adapters import mlx_lm as mlx_adapter
from tests.adapters import demo, demo_llama_cpp, demo_mlx_lm

Generate = Callable[[str, Callable[[lk.Vocabulary], Any]], str]

PRICES = {"lamp": 12, "camera": 230}
ANSWER = {
    "type": "object",
    "properties": {"total": {"type": "integer", "minimum": 1}, "note": {"type": "string", "maxLength": 20}},
    "required": ["total", "note"],
    "additionalProperties": False,
}
LIMIT = 120


def get_price(item: Literal["lamp", "camera"], count: Annotated[int, Field(ge=1, le=9)]) -> int:
    """Look up what some items cost."""
    return PRICES[item] * count


def in_transformers(prompt: str, constraint: Callable[[lk.Vocabulary], Any]) -> str:
    inputs = demo.tokenizer()(prompt, return_tensors="pt")
    hook = transformers.logits_processor(constraint(demo.vocabulary()))
    with torch.no_grad():
        ids = demo.model().generate(**inputs, max_new_tokens=LIMIT + 1, do_sample=False, logits_processor=[hook])
    return demo.text_of(ids[0, inputs["input_ids"].shape[1] :])


def in_mlx_lm(prompt: str, constraint: Callable[[lk.Vocabulary], Any]) -> str:
    model, tokenizer = demo_mlx_lm.loaded()
    hook = mlx_adapter.logits_processor(constraint(mlx_adapter.vocabulary(tokenizer, model)))
    return mlx_lm.generate(model, tokenizer, prompt, logits_processors=[hook], max_tokens=LIMIT + 1)


def in_llama_cpp(prompt: str, constraint: Callable[[lk.Vocabulary], Any]) -> str:
    llama = demo_llama_cpp.llama()
    hooks = llama_cpp.logits_processor(constraint(llama_cpp.vocabulary(llama)))
    made = llama.create_completion(prompt, max_tokens=LIMIT + 1, temperature=0, logits_processor=hooks)
    text: str = made["choices"][0]["text"]
    return text


@pytest.mark.parametrize("form", ["hermes", "qwen_coder", "llama3_json", "json"])
def test_call_result_and_answer_in_each_engine(form: str) -> None:
    asking = lk.Tools([get_price], form, choice="required", parallel=False)
    answering = lk.Tools([get_price], form, choice="none", answer=ANSWER)
    engines: list[Generate] = [in_transformers, in_mlx_lm, in_llama_cpp]
    calls, answers = [], []
    for generate in engines:
        prompt = "The lamp costs "
        written = generate(prompt, lambda v: asking.constraint(v, closing=LIMIT))
        turn = asking.parse(written)
        assert turn.complete, turn
        (call,) = turn.calls
        calls.append((call.name, call.arguments))
        result = get_price(**call.arguments)
        final = generate(f"{prompt}{result}\n", lambda v: answering.constraint(v, closing=LIMIT))
        last = answering.parse(final)
        assert last.calls == ()
        answer = json.loads(last.text)
        assert answer["total"] >= 1
        assert len(answer["note"]) <= 20
        answers.append(answer)
    # One model: the engines agree.
    assert calls == [calls[0]] * 3
    assert answers == [answers[0]] * 3


CHAT = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{{ tools | length }} tools\nassistant: "


def test_chat_template_and_chat_completion_take_the_schemas_and_the_constraint() -> None:
    tools = lk.Tools([get_price], "hermes", choice="required", parallel=False)
    messages = [{"role": "user", "content": "What does the lamp cost?"}]
    tokenizer = demo.tokenizer()
    prompt: Any = tokenizer.apply_chat_template(messages, tools=tools.schemas(), chat_template=CHAT, tokenize=False)
    assert "1 tools" in prompt
    turn = tools.parse(in_transformers(prompt, lambda v: tools.constraint(v, closing=LIMIT)))
    llama = demo_llama_cpp.llama()
    hooks = llama_cpp.logits_processor(tools.constraint(llama_cpp.vocabulary(llama), closing=LIMIT))
    made = llama.create_chat_completion(
        messages, tools=tools.schemas(), max_tokens=LIMIT + 1, temperature=0, logits_processor=hooks
    )
    for found in (turn, tools.parse(made["choices"][0]["message"]["content"])):
        assert found.complete
        assert get_price(**found.calls[0].arguments) > 0
