"""Several generations of llama-cpp-python that take turns: none goes on with the context or the hooks of another."""

from __future__ import annotations

import re

import pytest

from logitkit.errors import ConfigurationError
from logitkit_adapters.llama_cpp import logits_processor
from tests.adapters.demo import vocabulary
from tests.adapters.demo_llama_cpp import COLOURS, PROMPT, ids, llama, llama_text, loaded, text_of


def test_two_generations_of_one_llama_do_not_mix() -> None:
    first = llama().generate(ids(PROMPT), temp=0, logits_processor=logits_processor(COLOURS))
    second = llama().generate(ids("Name: Emma"), temp=0, logits_processor=logits_processor(COLOURS))
    found = [next(first)]
    assert vocabulary().decode([*found, next(second)])
    with pytest.raises(ConfigurationError, match="used for something else"):
        next(first)
    expected = llama_text(b"Name: Emma")
    second = llama().generate(ids("Name: Emma"), temp=0, logits_processor=logits_processor(COLOURS))
    assert text_of(second) == expected


@pytest.mark.parametrize("same", [False, True])
def test_two_streams_of_one_llama_do_not_mix(same: bool) -> None:
    processors, options = logits_processor(COLOURS), {"stream": True, "temperature": 0, "max_tokens": 60}
    one = llama().create_completion(PROMPT, logits_processor=processors, **options)
    other = processors if same else logits_processor(COLOURS)
    next(one)
    two = llama().create_completion(PROMPT, logits_processor=other, **options)
    text = next(two)["choices"][0]["text"]
    with pytest.raises(ConfigurationError, match="used for something else"):
        next(one)
    assert re.fullmatch(COLOURS.pattern, text + "".join(chunk["choices"][0]["text"] for chunk in two))


@pytest.mark.parametrize("length", [2, 6, 7, 8, 20])
def test_a_plain_generation_cannot_go_on_with_the_hooks_of_another(length: int) -> None:
    plain = llama().generate(ids(PROMPT * 4)[:length], temp=0)
    next(plain)
    ours = llama().generate(ids("Name: Emma"), temp=0, logits_processor=logits_processor(COLOURS))
    next(ours)
    with pytest.raises(ConfigurationError, match="used for something else"):
        next(plain)
    with pytest.raises(ConfigurationError, match="used for something else"):
        next(ours)


def test_a_context_that_was_changed_in_between_is_noticed() -> None:
    tokens = llama().generate(ids(PROMPT), temp=0, logits_processor=logits_processor(COLOURS))
    next(tokens)
    llama().eval([5])
    with pytest.raises(ConfigurationError, match="used for something else"):
        next(tokens)


def test_generations_of_two_llamas_with_one_list_do_not_disturb_each_other() -> None:
    processors, engines = logits_processor(COLOURS), (llama(), loaded())
    both = [engine.generate(ids(PROMPT), temp=0, logits_processor=processors) for engine in engines]
    found = [(next(both[0]), next(both[1])) for _ in range(5)]
    assert all(one == other for one, other in found)
    assert text_of(both[0]) == text_of(both[1])
    expected = llama_text(PROMPT.encode())
    assert vocabulary().decode([one for one, _ in found]) == expected[: len(vocabulary().decode(o for o, _ in found))]


def test_plain_generations_pass_through_as_they_are() -> None:
    one, two = llama().generate(ids(PROMPT), temp=0), llama().generate(ids("Name: Emma"), temp=0)
    assert type(one).__name__ == "generator"
    assert one.gi_code.co_filename.endswith("llama.py")
    assert [next(one), next(two), next(one)]
