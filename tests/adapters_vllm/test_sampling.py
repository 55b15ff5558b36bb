"""`sampling_params(Type)`: vLLM writes a value of each type, which pydantic validates."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pydantic
import pytest

import logitkit as lk
from logitkit import languages
from logitkit.errors import ConfigurationError
from tests.output_types.types import PATTERNS, TYPES

LIMIT = 48


def test_each_type_is_written(llm: Any) -> None:
    from logitkit_adapters.vllm import sampling_params

    def weather(city: str) -> str:
        return city

    tools = lk.Tools([weather], choice="required", parallel=False)
    pattern, value = PATTERNS["several flags"], languages.json_schema(TYPES["dataclass"].given)
    given = [*(written.given for written in TYPES.values()), pattern, value, tools]
    asked = [sampling_params(each, max_tokens=LIMIT, temperature=0.0, skip_special_tokens=False) for each in given]
    texts = [
        output.outputs[0].text.removesuffix("</s>")
        for output in llm.generate(["The invoice is dated "] * len(asked), asked)
    ]
    for each, text in zip(given, texts, strict=True):
        if each is pattern:
            assert pattern.fullmatch(text)
        elif each is tools:
            assert tools.parse(text).calls[0].name == "weather"
        elif isinstance(each, dict):
            jsonschema.validate(json.loads(text), each)
        else:
            kind = TYPES["dataclass"].given if each is value else each
            adapter = kind if isinstance(kind, pydantic.TypeAdapter) else pydantic.TypeAdapter(kind)
            adapter.validate_json(text)


def test_extra_arguments_and_options_are_kept() -> None:
    from logitkit_adapters.vllm import sampling_params

    own = {"other": 1}
    made = sampling_params(lk.TopK(5), extra_args=own, n=2, seed=3)
    assert made.extra_args == {"other": 1, "logitkit": {"top_k": 5}}
    assert (made.n, made.seed, own) == (2, 3, {"other": 1})
    with pytest.raises(ConfigurationError, match="extra_args has 'logitkit' already"):
        sampling_params(int, extra_args={"logitkit": {"top_k": 5}})
    with pytest.raises(ConfigurationError, match=r"OneText of logitkit\.languages has no JSON form"):
        sampling_params(languages.choice(["a"]))
    with pytest.raises(ConfigurationError, match="output_type is the class Regex; create an instance"):
        sampling_params(lk.Regex)
