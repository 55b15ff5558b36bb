"""`generate` of ONNX Runtime GenAI: the engine's own search, with a processor and without."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime_genai as og
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import BrokenLogits, ConfigurationError, VocabularyError
from logitkit_adapters.onnxruntime_genai import generate, generate_step
from logitkit_adapters.onnxruntime_genai.model_limits import limits_of
from tests.adapters.demo import vocabulary
from tests.adapters.demo_onnxruntime_genai import EOS, PROMPT, by_engine, copy_with, model, tokenizer
from tests.examples import examples
from tests.sessions.failing import Failing

IDS = st.lists(st.integers(3, 1279), min_size=4, max_size=4)
SAMPLING: list[dict[str, Any]] = [
    {"do_sample": False},
    {"do_sample": True, "top_k": 0, "top_p": 1.0},
    {"do_sample": True, "top_k": 40, "temperature": 1.7},
    {"do_sample": True, "top_k": 30, "top_p": 0.8, "temperature": 0.6},
    {"do_sample": True, "top_k": 0, "top_p": 0.9, "repetition_penalty": 1.3},
]
PATTERN = r" [a-f]{2,5}(, [0-9é]{2}){1,3}"


@cache
def closing() -> lk.Processor[Any]:
    return lk.languages.regex(PATTERN).constraint(vocabulary(), closing=True)


NOTHING = lk.chain(lk.BanTokens([]), lk.TopK(1280))


@settings(max_examples=examples(60))
@given(st.lists(IDS, min_size=1, max_size=3), st.sampled_from(SAMPLING), st.integers(0, 2**31 - 1))
def test_a_processor_that_changes_nothing_leaves_the_tokens_of_the_engine(
    prompts: list[list[int]], options: dict[str, Any], seed: int
) -> None:
    wanted = by_engine(prompts, 12, random_seed=seed, **options)
    for processor in (None, NOTHING):
        found = generate(model(), None, prompts, processor, max_new_tokens=12, random_seed=seed, **options)
        assert found.token_ids == wanted


@settings(max_examples=examples(40))
@given(st.lists(st.lists(st.integers(3, 1279), min_size=1, max_size=9), min_size=1, max_size=4), st.integers(0, 99))
def test_sampled_rows_of_any_length_are_texts_of_the_pattern(prompts: list[list[int]], seed: int) -> None:
    options: dict[str, Any] = {"do_sample": True, "top_k": 0, "random_seed": seed}
    for row in generate(model(), None, prompts, closing(), max_new_tokens=24, **options).rows:
        assert row.token_ids[-1] == EOS
        assert re.fullmatch(PATTERN, vocabulary().decode(row.token_ids).decode())


def test_each_row_of_a_batch_is_as_it_is_alone() -> None:
    prompts = [PROMPT[:n] for n in (3, 10, 1, 7)]
    for processor in (None, lk.RepetitionPenalty(1.4), lk.chain(lk.FrequencyPenalty(0.5), lk.MinNewTokens(9, [EOS]))):
        together = generate(model(), None, prompts, processor, max_new_tokens=16).token_ids
        assert together == [generate(model(), None, one, processor, max_new_tokens=16).token_ids[0] for one in prompts]


def test_rows_with_a_processor_each_are_as_they_are_alone() -> None:
    def odd(logits: Any, _context: Any) -> Any:
        return logits.index_fill(1, torch.arange(4, 1280, 2), -np.inf)

    price = lk.chain(lk.RepetitionPenalty(1.4), lk.Regex("[0-9]{2,9}", vocabulary()))
    stop = lk.StopStrings([" is", "a"], vocabulary())
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    rows = [price, None, re.compile("(red|blue){2}"), lk.Stateless(odd), stop, schema, price]
    prompts = [PROMPT[:n] for n in (3, 10, 1, 7, 5, 8, 2)]
    found = generate(model(), tokenizer(), prompts, rows, max_new_tokens=20).rows
    for prompt, processor, row in zip(prompts, rows, found, strict=True):
        (alone,) = generate(model(), tokenizer(), prompt, processor, max_new_tokens=20).rows
        assert (row.token_ids, row.text, row.finished) == (alone.token_ids, alone.text, alone.finished)
    assert {row.finished.partition(" ")[0] for row in found} >= {"closed", "stop:"}


def test_a_list_without_processors_leaves_the_options_of_the_engine_alone() -> None:
    prompts, options = [PROMPT, PROMPT[:3]], {"min_length": 14, "do_sample": False}
    wanted = generate(model(), None, prompts, None, max_new_tokens=8, **options).token_ids
    assert generate(model(), None, prompts, [None, None], max_new_tokens=8, **options).token_ids == wanted


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([NOTHING], "there are 1 processors for 2 prompts; give one for each"),
        ([NOTHING, NOTHING, None], "there are 3 processors"),
        ([], "there are 0 processors"),
        ([NOTHING, 5], "processor is of type int"),
        ([None, lk.Guidance(1.5)], "Guidance reads the logits of a second pass"),
        ([None, lk.Regex("a", lk.Vocabulary(vocabulary().tokens, eos_ids=[1]))], "ends a text at the ids"),
    ],
)
def test_wrong_lists_of_processors_are_refused(rows: list[Any], said: str) -> None:
    with pytest.raises((ConfigurationError, VocabularyError), match=re.escape(said)):
        generate(model(), tokenizer(), [PROMPT, PROMPT[:2]], rows, max_new_tokens=3)


def test_steps_are_the_tokens_of_the_rows_as_they_come() -> None:
    whole = generate(model(), None, [PROMPT[:3], PROMPT], lk.Choice(["a", "abba"], vocabulary()), max_new_tokens=9)
    assert len({len(row) for row in whole.token_ids}) == 2
    rows: list[list[int]] = [[], []]
    steps = generate_step(model(), None, [PROMPT[:3], PROMPT], lk.Choice(["a", "abba"], vocabulary()), max_new_tokens=9)
    for step in steps:
        for row, token in zip(rows, step, strict=True):
            if token is None:
                assert row[-1] == EOS
            else:
                row.append(token)
    assert rows == whole.token_ids


def test_rows_say_why_they_ended_and_types_are_compiled() -> None:
    price = lk.Regex("[0-9]{2}", vocabulary())
    assert generate(model(), tokenizer(), "It is ", price, max_new_tokens=9).rows[0].finished == "closed"
    assert generate(model(), tokenizer(), "It is ", max_new_tokens=2).rows[0].finished == "length"
    stops = lk.StopStrings([" is"], vocabulary())
    row = generate(model(), tokenizer(), "The price of", stops, max_new_tokens=30).rows[0]
    assert (row.finished, row.text) == ("stop:  is", " the café au lait")
    conflict = lk.chain(price, lk.BanTokens(range(3, 1280)))
    assert generate(model(), tokenizer(), "It is ", conflict, max_new_tokens=9).rows[0].finished == "conflict"
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    found = generate(model(), tokenizer(), "Name: Emma Brown\nAs JSON: ", schema, max_new_tokens=30).text
    assert '"age"' in found


def test_the_logits_are_not_copied_between_the_engine_and_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    get, put = og.Generator.get_logits, og.Generator.set_logits

    def get_logits(generator: Any) -> Any:
        shown.append(get(generator))
        return shown[-1]

    def set_logits(generator: Any, logits: Any) -> None:
        assert logits is shown[-1]
        put(generator, logits)

    monkeypatch.setattr(og.Generator, "get_logits", get_logits)
    monkeypatch.setattr(og.Generator, "set_logits", set_logits)
    seen: list[int] = []

    def look(logits: Any, _context: Any) -> Any:
        seen.append(logits.data_ptr())
        return logits

    generate(model(), None, [PROMPT] * 2, lk.Stateless(look), max_new_tokens=3)
    assert seen == [array.ctypes.data for array in shown]


def test_a_function_may_return_other_logits() -> None:
    def only(logits: Any, _context: Any) -> Any:
        return logits.clone().fill_(-np.inf).index_fill(1, torch.tensor([7]), 1.0)

    assert generate(model(), None, [PROMPT] * 2, lk.Stateless(only), max_new_tokens=3).token_ids == [[7] * 3] * 2


@pytest.mark.parametrize("at", [0, 3])
def test_an_error_of_the_processor_reaches_the_caller(at: int) -> None:
    for error in (RuntimeError("no"), KeyboardInterrupt()):
        steps = generate_step(model(), None, PROMPT, Failing(error, at), max_new_tokens=9)
        found = list[Any]()
        with pytest.raises(type(error)):
            found += iter(steps)
        with pytest.raises(StopIteration):
            next(steps)


def test_broken_logits_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    get = og.Generator.get_logits

    def broken(generator: Any) -> Any:
        logits = get(generator)
        logits[1, 0, 7] = np.nan
        return logits

    monkeypatch.setattr(og.Generator, "get_logits", broken)
    with pytest.raises(BrokenLogits, match="NaN") as caught:
        generate(model(), None, [PROMPT] * 2, lk.TopK(3), max_new_tokens=3)
    assert caught.value.row == 1


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"num_beams": 4}, r"does not show which beam a row continues; use Session.generate\(num_beams=...\)"),
    ({"num_return_sequences": 2}, "give the prompt several times"),
    ({"min_length": 30}, "logitkit.MinNewTokens"),
    ({"no_repeat_ngram_size": 2}, "logitkit.NoRepeatNGram"),
    ({"repetition_penalty": -1.0}, "would bring back tokens that a processor banned; give a finite number above 0"),
    ({"repetition_penalty": 0.0}, "give a finite number above 0"),
    ({"repetition_penalty": float("nan")}, "give a finite number above 0"),
    ({"max_length": 9}, "give max_new_tokens= instead"),
    (
        {"seed": 1},
        "seed is not an option here; allowed are max_new_tokens, do_sample, temperature, top_k, top_p, random_seed,",
    ),
    ({"min_p": 0.1}, r"put logitkit.MinP\(0.1\) into the processor"),
    ({"top_k": "many"}, "are not search options of ONNX Runtime GenAI"),
    ({"do_sample": True, "top_p": 2.0}, "does not start with these search options: top_p must be between 0.0 and 1.0"),
    ({"do_sample": True, "top_k": -1}, "does not start with these search options: top_k must be 0 or greater"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_options_that_do_not_work_with_a_processor(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        generate(model(), None, PROMPT, lk.TopK(3), max_new_tokens=3, **options)


@pytest.mark.parametrize(
    ("search", "said"),
    [
        ({"num_beams": 3}, "genai_config.json has num_beams=3: the engine does not show"),
        ({"no_repeat_ngram_size": 3}, "genai_config.json has no_repeat_ngram_size=3: .*NoRepeatNGram"),
        ({"min_length": 5}, "genai_config.json has min_length=5: .*MinNewTokens"),
        ({"repetition_penalty": -2.0}, "repetition_penalty is -2.0"),
    ],
)
def test_such_options_in_the_configuration_of_the_model(search: dict[str, Any], said: str, tmp_path: Path) -> None:
    other = copy_with(tmp_path, search=search)
    with pytest.raises(ConfigurationError, match=said):
        generate(other, None, PROMPT, lk.TopK(3), max_new_tokens=3)


def test_drafts_of_the_configuration_are_switched_off(tmp_path: Path) -> None:
    other = copy_with(tmp_path, speculative={"ngram_size": 2, "max_draft_tokens": 4})
    assert og.GeneratorParams(other).get_speculative_options()["ngram_size"] == 2
    prompt = PROMPT * 3
    wanted = by_engine([prompt], 24)
    for processor in (None, lk.TopK(5)):
        assert generate(other, None, prompt, processor, max_new_tokens=24).token_ids == wanted


def test_prompts_that_the_engine_would_misread() -> None:
    for prompt, said in (
        ([5, 0], "prompt 0 ends with the id 0, which ONNX Runtime GenAI takes for padding; use Session"),
        ([[5, 6], [7, 0]], "prompt 1 ends with the id 0"),
        ([5, 1280], "prompt 0 has the token id 1280; allowed are ids below 1280"),
        ([[5]] * 33, "33 prompts are given; ONNX Runtime GenAI runs at most 32 at once"),
        ([5] * 2048, r"a prompt of 2048 tokens and 3 new ones are more than the 2048 of search.max_length"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            generate(model(), None, prompt, max_new_tokens=3)
    assert len(generate(model(), None, [0], max_new_tokens=3).token_ids[0]) == 3


def test_other_arguments_that_are_refused() -> None:
    given: Any
    for given in ("model", None, object()):
        with pytest.raises(ConfigurationError, match=r"give an onnxruntime_genai.Model"):
            generate(given, None, PROMPT, max_new_tokens=3)
    for count in (0, -1, 2.5, True, 9999):
        with pytest.raises(ConfigurationError, match="max_new_tokens"):
            generate(model(), None, PROMPT, max_new_tokens=count)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="tokenizer is None"):
        generate(model(), None, PROMPT, {"type": "object"}, max_new_tokens=3)
    with pytest.raises(ConfigurationError, match="there is no tokenizer"):
        generate(model(), None, "text", max_new_tokens=3)
    unaware = lk.Vocabulary(vocabulary().tokens, eos_ids=[1])
    with pytest.raises(VocabularyError, match=r"the engine ends a text at the ids \[2\]"):
        generate(model(), None, PROMPT, lk.Regex("[0-9]", unaware), max_new_tokens=3)


def test_a_generation_does_not_cross_a_switch_of_position_embeddings(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = replace(limits_of(model()), switches_at=12)
    monkeypatch.setattr("logitkit_adapters.onnxruntime_genai.generation.limits_of", lambda _: limits)
    with pytest.raises(ConfigurationError, match=r"pass 12 tokens, where .* computes logits of this model again"):
        generate(model(), None, PROMPT, lk.TopK(3), max_new_tokens=4)
    assert generate(model(), None, PROMPT, lk.TopK(3), max_new_tokens=1).token_ids
