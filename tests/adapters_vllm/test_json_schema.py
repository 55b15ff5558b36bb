"""A real vLLM engine generates texts that a JSON Schema allows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.adapters_vllm import engine, schemas


@pytest.mark.parametrize("number", range(3))
def test_texts_are_whole_and_satisfy_their_schema(llm: Any, number: int) -> None:
    asked = schemas.requests(engine.PROMPTS[3 * number % 5])
    for (config, schema), output in zip(schemas.CONFIGURATIONS, engine.generate(llm, asked), strict=True):
        schemas.check(output.text, schema)
        closing = config["json_schema"]["closing"]
        assert len(output.token_ids) <= (schemas.TOKENS if closing is True else closing + 1)  # EOS


def biased_to_open(llm: Any) -> dict[str, float]:
    return {str(llm.get_tokenizer().convert_tokens_to_ids("[")): 20.0}


@pytest.mark.parametrize("tokens", [6, 9, 13, 20])
def test_closing_is_within_the_tokens_of_the_request(llm: Any, tokens: int) -> None:
    config = {"json_schema": {"schema": {"type": "array", "items": {"$ref": "#"}}, "closing": True}}
    both = {"then": {"first": {"regex": "[a-z]{2}"}, "second": config, "marker": ":"}}
    for one in (config, both):
        ours = {"logitkit": {**one, "logit_bias": biased_to_open(llm)}}
        params = {"max_tokens": tokens, "temperature": 0.0, "extra_args": ours}
        (output,) = engine.generate(llm, [(engine.PROMPTS[3], params)])
        assert "[[" in output.text or one is both
        assert isinstance(json.loads(output.text.rpartition(":")[2]), list)


def test_closing_is_within_the_length_of_the_engine(llm: Any) -> None:
    """Offline, vLLM accepts a request even if there is too little room for its `max_tokens`."""
    schema = {"type": "array", "items": {"type": "string"}, "minItems": 2}
    config = {"json_schema": {"schema": schema, "closing": True}}
    longest = llm.llm_engine.model_config.max_model_len
    prompt = (llm.get_tokenizer().encode(engine.PROMPTS[3]) * longest)[: longest - 26]
    params = {"max_tokens": 40, "temperature": 0.0, "extra_args": {"logitkit": config}}
    (output,) = engine.generate(llm, [({"prompt_token_ids": prompt}, params)])
    assert len(output.token_ids) <= 26
    schemas.check(output.text, schema)


def test_what_nests_is_closed(llm: Any) -> None:
    schema = {"type": "array", "items": {"$ref": "#"}}
    config = {"json_schema": {"schema": schema, "closing": True}, "logit_bias": biased_to_open(llm)}
    asked = {"max_tokens": 80, "temperature": 1.5, "extra_args": {"logitkit": config}}
    outputs = engine.generate(llm, [(engine.PROMPTS[3], asked)] * 24)
    for output in outputs:
        schemas.check(output.text, schema)
    assert any("[[[" in output.text for output in outputs)


def test_a_request_has_several_languages_beside_requests_with_one(llm: Any) -> None:
    lists = {"type": "array", "items": {"$ref": "#"}}
    closed = {"json_schema": {"schema": lists, "closing": True}}
    several = {"chain": [closed, {"banned_strings": ["[[["]}, {"json_schema": {"type": "array", "minItems": 1}}]}
    asked = [
        (engine.PROMPTS[3], {"max_tokens": 24, "temperature": 1.5, "extra_args": {"logitkit": config}})
        for config in [closed, {"regex": "[a-z]{9}"}, several] * 8
    ]
    outputs = [output.text for output in engine.generate(llm, asked)]
    for text in outputs[::3] + outputs[2::3]:
        schemas.check(text, lists)
    assert all(text.isalpha() and len(text) == 9 for text in outputs[1::3])
    assert all("[[[" not in text and json.loads(text) for text in outputs[2::3])


def test_beams_are_whole(llm: Any) -> None:
    from logitkit_adapters.vllm import beam_search

    config = {"json_schema": {"schema": schemas.PERSON, "closing": True}}
    (beams,) = beam_search(llm, [engine.PROMPTS[3]], beam_width=3, max_tokens=24, config=json.dumps(config))
    for beam in beams:
        schemas.check(beam.text, schemas.PERSON)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"properties": {"a/b": {"type": "strin"}}}, "'type' at #/properties/a~1b is 'strin'"),
        (
            {"schema": {"items": {"format": "nobody"}}, "strict_formats": True},
            "'format' at #/items: the format 'nobody' is not known",
        ),
        ({"schema": schemas.PERSON, "closing": 3}, "closing is 3, but the shortest text of this schema takes"),
        ({"schema": schemas.PERSON, "closing": True}, "closing is 5, but the shortest text of this schema takes"),
    ],
    ids=["type", "format", "closing", "tokens"],
)
def test_bad_schemas_are_refused(llm: Any, schema: Any, message: str) -> None:
    from vllm.exceptions import VLLMValidationError

    with pytest.raises(VLLMValidationError, match=message):
        engine.generate(llm, [("a", {"max_tokens": 5, "extra_args": {"logitkit": {"json_schema": schema}}})])
