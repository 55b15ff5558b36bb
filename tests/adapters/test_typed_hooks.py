"""`logits_processor(Type, tokenizer)` in transformers, mlx-lm and llama.cpp: the shipped model writes a value of each type."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable
from typing import Any

import jsonschema
import mlx_lm
import pydantic
import pytest
import torch
from transformers import AutoTokenizer

import logitkit as lk
from logitkit import languages
from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.output_types import output_type_of
from logitkit_adapters import llama_cpp as for_llama_cpp
from logitkit_adapters import mlx_lm as for_mlx_lm
from logitkit_adapters import transformers as for_transformers
from logitkit_adapters.demo import model_dir
from logitkit_adapters.hooks import known_vocabularies
from logitkit_adapters.hooks.known_vocabularies import known_vocabulary
from tests.adapters import demo, demo_mlx_lm
from tests.adapters.demo_llama_cpp import llama, loaded
from tests.output_types.types import PATTERNS, TYPES

PROMPT, LIMIT = "The invoice is dated ", 48


def with_transformers(given: Any) -> str:
    model, tokenizer = demo.model(), demo.tokenizer()
    hook = for_transformers.logits_processor(given, tokenizer, model=model, max_new_tokens=LIMIT)
    inputs = tokenizer(PROMPT, return_tensors="pt")
    ids = model.generate(**inputs, max_new_tokens=LIMIT, do_sample=False, logits_processor=[hook])
    text: str = tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    return text


def with_mlx_lm(given: Any) -> str:
    model, tokenizer = demo_mlx_lm.loaded()
    hook = for_mlx_lm.logits_processor(given, tokenizer, model=model, max_new_tokens=LIMIT)
    return mlx_lm.generate(model, tokenizer, PROMPT, max_tokens=LIMIT, logits_processors=[hook])


def with_llama_cpp(given: Any) -> str:
    hooks = for_llama_cpp.logits_processor(given, llama())
    answer = llama().create_completion(PROMPT, max_tokens=LIMIT, temperature=0, logits_processor=hooks)
    text: str = answer["choices"][0]["text"]
    return text


ENGINES: dict[str, Callable[[Any], str]] = {
    "transformers": with_transformers,
    "mlx-lm": with_mlx_lm,
    "llama.cpp": with_llama_cpp,
}

MAKERS: dict[str, tuple[Callable[..., Any], Callable[[], Any]]] = {
    "transformers": (for_transformers.logits_processor, demo.tokenizer),
    "mlx-lm": (for_mlx_lm.logits_processor, demo_mlx_lm.tokenizer),
    "llama.cpp": (for_llama_cpp.logits_processor, llama),
}


def check(given: Any, text: str) -> None:
    """Validate a text by pydantic, or by jsonschema if it is written by a schema."""
    if isinstance(given, dict):
        jsonschema.validate(json.loads(text), given)
    else:
        adapter = given if isinstance(given, pydantic.TypeAdapter) else pydantic.TypeAdapter(given)
        assert adapter.validate_json(text) == output_type_of(given).value(text, [], None)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_model_writes_a_value_of_each_type(engine: str, name: str) -> None:
    check(TYPES[name].given, ENGINES[engine](TYPES[name].given))


@pytest.mark.parametrize("engine", ENGINES)
def test_patterns_languages_and_tools(engine: str) -> None:
    write = ENGINES[engine]
    assert PATTERNS["plain"].fullmatch(write(PATTERNS["plain"]))
    assert write(languages.choice(["red", "green"])) in ("red", "green")

    def weather(city: str) -> str:
        return city

    tools = lk.Tools([weather], choice="required", parallel=False)
    # The names of special tokens are lost in the text, so it is read as text.
    assert [call.name for call in tools.parse(write(tools)).calls] == ["weather"]


@pytest.mark.parametrize("engine", ENGINES)
def test_without_a_tokenizer_it_says_so(engine: str) -> None:
    make, _ = MAKERS[engine]
    argument = "llama" if engine == "llama.cpp" else "tokenizer"
    with pytest.raises(ConfigurationError, match=rf"int.* compiled .* and {argument} is None; .*, {argument}\)"):
        make(int)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_vocabulary_of_another_tokenizer_is_refused(engine: str) -> None:
    make, tokenizer = MAKERS[engine]
    own = demo.vocabulary()
    right = lk.chain(lk.Regex("a+", own), lk.RepetitionPenalty(1.1))
    assert make(right, tokenizer()) is not None
    tokens = list(own.tokens)
    tokens[500], tokens[501] = tokens[501], tokens[500]
    swapped = lk.Vocabulary(tokens, own.eos_ids)
    with pytest.raises(VocabularyError, match=r"Regex was built for other tokens .* token 500 is b"):
        make(lk.chain(lk.Regex("a+", swapped), lk.RepetitionPenalty(1.1)), tokenizer())
    longer = lk.Vocabulary([*own.tokens, b"more"], own.eos_ids)
    with pytest.raises(VocabularyError, match="its vocabulary has 1281 ids, and the tokenizer 1280"):
        make(lk.Regex("a+", longer), tokenizer())
    shorter = lk.Vocabulary(own.tokens[:1000], own.eos_ids)
    with pytest.raises(VocabularyError, match="its vocabulary has 1000 ids, and the tokenizer 1280"):
        make(lk.Regex("a+", shorter), tokenizer())
    # A vocabulary may leave out tokens, or be padded.
    fewer = lk.Vocabulary([None if i == 600 else t for i, t in enumerate(own.tokens)], own.eos_ids, size=1300)
    assert make(lk.Regex("a+", fewer), tokenizer()) is not None


def test_the_model_says_where_texts_end() -> None:
    """With the model, a hook knows all ids at which `generate` ends a text, and refuses processors that do not."""
    model, tokenizer = demo.model(), demo.tokenizer()
    before = model.generation_config.eos_token_id
    model.generation_config.eos_token_id = [2, 5]
    try:
        hook = for_transformers.logits_processor(int, tokenizer, model=model)
        assert hook.processor.vocabulary.eos_ids == (2, 5)  # type: ignore[attr-defined]
        with pytest.raises(VocabularyError, match=r"ends a text at the ids \[2, 5\]"):
            for_transformers.logits_processor(lk.Regex("a", demo.vocabulary()), tokenizer, model=model)
    finally:
        model.generation_config.eos_token_id = before
    hook = for_transformers.logits_processor(int, tokenizer, model=model)
    assert hook.processor.vocabulary.eos_ids == (2,)  # type: ignore[attr-defined]


def test_closing_follows_the_token_limit() -> None:
    tokenizer = demo.tokenizer()
    kinds: list[Any] = [int, languages.json_schema(int), languages.regex("a+")]
    for given in kinds:
        for limit in (None, 20):
            hook = for_transformers.logits_processor(given, tokenizer, max_new_tokens=limit)
            assert hook.processor.closing is (limit is not None)  # type: ignore[attr-defined]


def read(tokenizer: Any, model: Any) -> lk.Vocabulary:
    READ.append(tokenizer)
    return for_transformers.vocabulary(tokenizer, model)


READ: list[Any] = []


def test_a_vocabulary_is_read_once_for_each_tokenizer_and_model() -> None:
    READ.clear()
    tokenizer, other = (AutoTokenizer.from_pretrained(model_dir()) for _ in range(2))
    first = known_vocabulary(read, tokenizer)
    assert known_vocabulary(read, tokenizer) is first
    assert known_vocabulary(read, tokenizer, demo.model()) == first
    assert known_vocabulary(read, tokenizer, demo.model()) is known_vocabulary(read, tokenizer, demo.model())
    assert known_vocabulary(read, other) == first
    assert len(READ) == 3


def test_a_tokenizer_that_changed_is_read_again() -> None:
    READ.clear()
    tokenizer = AutoTokenizer.from_pretrained(model_dir())
    before = known_vocabulary(read, tokenizer)
    tokenizer.add_tokens(["<new>"])
    longer = known_vocabulary(read, tokenizer)
    assert (before.size, longer.size, longer.special["<new>"]) == (1280, 1281, 1280)
    tokenizer.eos_token = "<new>"
    assert known_vocabulary(read, tokenizer).eos_ids == (1280,)
    assert known_vocabulary(read, tokenizer).eos_ids == (1280,)
    assert len(READ) == 3


def test_neither_tokenizers_nor_models_are_kept_alive() -> None:
    class Model:
        config = demo.model().config

    tokenizer, model = AutoTokenizer.from_pretrained(model_dir()), Model()
    hook = for_transformers.logits_processor(int, tokenizer, model=model)
    gone: list[Any] = [weakref.ref(tokenizer), weakref.ref(model)]
    count = len(known_vocabularies._known)
    del tokenizer, model
    gc.collect()
    assert [alive() is None for alive in gone] == [True, True]
    assert len(known_vocabularies._known) < count
    assert hook.processor.vocabulary.size == 1280  # type: ignore[attr-defined]


class WithoutWeakReferences:
    """A tokenizer of Python with slots."""

    __slots__ = ("backend_tokenizer", "eos_token_id", "pad_token_id")


def test_a_tokenizer_without_weak_references_is_read_each_time() -> None:
    tokenizer = WithoutWeakReferences()
    tokenizers = []

    def reader(given: Any, model: Any) -> lk.Vocabulary:
        tokenizers.append(given)
        return demo.vocabulary()

    for _ in range(2):
        assert known_vocabulary(reader, tokenizer) is demo.vocabulary()
    assert tokenizers == [tokenizer, tokenizer]
    assert id(tokenizer) not in known_vocabularies._known


def test_a_model_that_is_not_one_is_refused_each_time() -> None:
    tokenizer = demo.tokenizer()
    for_transformers.logits_processor(int, tokenizer)
    for _ in range(2):
        with pytest.raises(VocabularyError, match="model is of type int"):
            for_transformers.logits_processor(int, tokenizer, model=5)
    with pytest.raises(VocabularyError, match=r"must be the llama_cpp\.Llama passed as llama"):
        for_llama_cpp.logits_processor(int, llama(), model=loaded(vocab_only=True))
    assert for_llama_cpp.logits_processor(int, model=llama()) is not None
    with pytest.raises(ConfigurationError, match="is compared with the model, and tokenizer is None"):
        for_transformers.logits_processor(lk.TopK(5), model=demo.model())


def test_a_processor_alone_is_taken_as_it_is() -> None:
    processor = lk.Regex("a+", lk.Vocabulary([b"a", None], eos_ids=[1]))
    assert for_transformers.logits_processor(processor).processor is processor
    assert for_mlx_lm.logits_processor(processor).processor is processor
    assert for_llama_cpp.logits_processor(processor)[0].processor is processor  # type: ignore[attr-defined]


def test_rows_of_a_batch_have_one_type() -> None:
    tokenizer, model = demo.tokenizer(), demo.model()
    inputs = tokenizer([PROMPT, "name: "], return_tensors="pt", padding=True, padding_side="left")
    hook = for_transformers.logits_processor(list[int], tokenizer, max_new_tokens=12)
    ids = model.generate(**inputs, max_new_tokens=12, do_sample=False, num_beams=2, logits_processor=[hook])
    for row in ids[:, inputs["input_ids"].shape[1] :]:
        assert isinstance(row, torch.Tensor)
        check(list[int], tokenizer.decode(row, skip_special_tokens=True))
