"""The code of a user, for type checkers and to run: CI checks it against the installed wheel with mypy and basedpyright.

`assert_type` fails in a type checker if the annotation of a public name is lost. `test_user_sample.py` runs the functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, assert_type

import torch
from pydantic import BaseModel
from torch import Tensor

import logitkit as lk
from logitkit import languages
from logitkit.errors import LogitkitError


class Invoice(BaseModel):
    number: int
    paid: bool


class Newest(NamedTuple):
    token: Tensor  # [B] int64, -1 where nothing was written yet


@dataclass(frozen=True)
class NoDoubles:
    """Ban the last token of each row."""

    role = lk.Role.PENALTY

    def init_state(self, context: lk.Context) -> Newest:
        return Newest(torch.full((context.batch_size,), -1, device=context.device))

    def advance(self, state: Newest, tokens: Tensor) -> Newest:
        newest = state.token
        for column in lk.token_columns(tokens):
            newest = torch.where(column >= 0, column, newest)
        return Newest(newest)

    def process_logits(self, state: Newest, logits: Tensor, context: lk.Context) -> tuple[Newest, Tensor]:
        columns = torch.arange(logits.shape[1], device=logits.device)
        return state, logits.masked_fill(columns == state.token[:, None], -torch.inf)


def get_weather(city: Literal["Berlin", "Paris"]) -> str:
    """Tell the weather."""
    return f"Rain in {city}."


def small_vocabulary() -> lk.Vocabulary:
    return lk.Vocabulary([*(bytes([byte]) for byte in range(128)), None], eos_ids=[128])


def own_processor(vocabulary: lk.Vocabulary) -> None:
    own: lk.Processor[Newest] = NoDoubles()
    lk.check_processor(own, vocabulary)
    context = lk.Context.of([[1], [2]], vocabulary_size=vocabulary.size)
    state = own.advance(own.init_state(context), torch.tensor([3, 4]))
    state, logits = own.process_logits(state, torch.zeros(2, vocabulary.size), context)
    assert_type(state, Newest)
    assert_type(logits, Tensor)
    assert bool(torch.isneginf(logits[0, 3]))
    assert_type(lk.select(state, torch.tensor([0])), Newest)
    halve = lk.Stateless(lambda logits, context: logits / 2)
    assert_type(lk.chain(own, halve, lk.Temperature(0.7)), lk.Chain)


def every_processor(vocabulary: lk.Vocabulary) -> None:
    constraints = [
        lk.Regex("[0-9]+", vocabulary),
        lk.Choice(["yes", "no"], vocabulary),
        lk.JsonSchema(Invoice, vocabulary),
        lk.JsonSchema({"type": "integer"}, vocabulary),
        lk.Grammar('root ::= "a" root | "b"', vocabulary),
        lk.BannedStrings(["bad"], vocabulary),
    ]
    for constraint in constraints:
        state = constraint.init_state(lk.Context.of([[]], vocabulary_size=vocabulary.size))
        assert_type(constraint.is_dead(state), Tensor)
    counted = lk.chain(lk.RepetitionPenalty(1.1), lk.FrequencyPenalty(0.2), lk.PresencePenalty(0.2))
    penalties = lk.chain(counted, lk.NoRepeatNGram(3), lk.Dry(0.8, vocabulary=vocabulary))
    truncation = lk.chain(lk.TopK(40), lk.TopP(0.9), lk.MinP(0.05), lk.TypicalP(0.9), lk.TopNSigma(1.0), lk.TopA(0.1))
    sampling = lk.chain(lk.Temperature(0.8), truncation)
    tokens = lk.chain(lk.BanTokens([1]), lk.LogitBias({2: 0.5}), lk.MinNewTokens(1, eos_ids=[128]))
    stops = lk.StopStrings(["\n\n"], vocabulary)
    together = lk.chain(tokens, penalties, lk.Regex("[a-z]+", vocabulary), stops, sampling)
    assert_type(lk.to_config(lk.TopK(40)), dict[str, Any])
    configured: lk.Processor[Any] = lk.from_config({"regex": "[0-9]+", "top_k": 5}, vocabulary)
    assert lk.chain(configured, lk.MinP(0.1)) is not None
    assert together is not None


def every_language(vocabulary: lk.Vocabulary) -> None:
    number = languages.regex("[0-9]+")
    value = languages.either(number, languages.json_schema({"type": "boolean"}), languages.choice(["a", "b"]))
    whole = languages.sequence("x=", value, languages.optional(";"), languages.repeat(languages.literal("."), 0, 2))
    assert_type(whole.constraint(vocabulary), languages.LanguageConstraint)
    constraint = languages.sequence(languages.any_text(until="JSON: ", max_tokens=8), value).constraint(vocabulary)
    assert constraint.matches("JSON: 12")


def tool_calling(vocabulary: lk.Vocabulary) -> None:
    tools = lk.Tools([get_weather], format="hermes", choice="required", parallel=False)
    processor: lk.Processor[Any] = tools.constraint(vocabulary)
    assert lk.chain(processor) is not None
    turn = tools.parse('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>')
    for call in turn.calls:
        assert_type(call, lk.ToolCall)
        assert_type(call.name, str)
        arguments: Mapping[str, Any] = call.arguments
        assert arguments == {"city": "Paris"}


def misspelt() -> None:
    try:
        # Without an error of the type checker, this comment would be one.
        print(lk.Chioce)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
    except AttributeError as error:
        print(error)


def explanations(vocabulary: lk.Vocabulary) -> None:
    found = lk.explain(lk.Regex("[0-9]{4}", vocabulary), vocabulary, [], "20x")
    if found.refusal is not None:
        assert_type(found.refusal.byte, int | None)
    try:
        lk.Regex("(", vocabulary)
    except LogitkitError as error:
        print(error)


def in_transformers() -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from logitkit_adapters.demo import model_dir
    from logitkit_adapters.transformers import (
        Session,
        continuous,
        generate_typed,
        logits_processor,
        probabilities,
        vocabulary,
    )

    model: Any = AutoModelForCausalLM.from_pretrained(model_dir())
    tokenizer: Any = AutoTokenizer.from_pretrained(model_dir())
    words = vocabulary(tokenizer, model)
    assert_type(words, lk.Vocabulary)
    inputs = tokenizer("The price of", return_tensors="pt")
    for asked in (NoDoubles(), Invoice, re.compile("[0-9]+"), lk.Regex("[0-9]+", words), languages.choice(["a", "b"])):
        hook = logits_processor(asked, tokenizer, model=model, max_new_tokens=4)
        model.generate(**inputs, max_new_tokens=4, do_sample=False, logits_processor=[hook])

    found = generate_typed(model, tokenizer, "The invoice as JSON: ", Invoice)
    assert_type(found.value, Invoice)
    values(model, tokenizer, words)
    assert_type(probabilities(model, tokenizer, "Yes or no?", [" yes", " no"]), dict[str, float])

    text = continuous(model, tokenizer, max_new_tokens=4)
    state = text("The price of")
    assert_type(state, lk.SequenceState)
    assert_type(state + " euros", lk.SequenceState)
    assert_type(state[:3], lk.SequenceState)
    assert_type(state.tokens[:2], lk.SequenceState)
    assert_type(list(state), list[str])
    with Session(model, tokenizer, max_length=64) as session:
        assert_type(session, Session)
        turn = session.generate("The price of", processor=NoDoubles(), max_new_tokens=4)
        assert_type(turn.text, str)
        assert_type(turn.rows[0].cached_tokens, int)


def values(model: Any, tokenizer: Any, words: lk.Vocabulary) -> None:
    from logitkit_adapters.transformers import generate_typed

    several = generate_typed(model, tokenizer, ["One: ", "Two: "], Invoice, errors="return", retries=1, batch_size=2)
    assert_type([one.value for one in several], list[Invoice])
    chat = [{"role": "user", "content": "How much?"}]
    tokenizer.chat_template = "{{ messages[0].content }}"
    assert_type(generate_typed(model, tokenizer, chat, int, max_new_tokens=4).value, int)
    assert_type(generate_typed(model, tokenizer, [chat, chat], int, max_new_tokens=4)[0].value, int)
    assert_type(generate_typed(model, tokenizer, "A code: ", re.compile("[A-Z]{3}")).value, str)
    assert_type(generate_typed(model, tokenizer, "Yes? ", languages.choice(["yes", "no"])).text, str)
    pieces = generate_typed(model, tokenizer, "A code: ", re.compile("[A-Z]{3}"), stream=True)
    assert_type(list(pieces), list[str])
    assert_type(pieces.value, str)
    tools = lk.Tools([get_weather], format="hermes", choice="required")
    turn = generate_typed(model, tokenizer, "The weather? ", tools)
    assert_type(turn.value.calls[0].name, str)
    literal = generate_typed(model, tokenizer, "Is it? ", Literal["yes", "no"], processor=lk.Temperature(0.5))
    assert_type(literal.value, Any)
    samples = generate_typed(model, tokenizer, ["One: "], int, num_samples=2, seed=1, max_new_tokens=4)
    assert_type(samples[0].value, int)
    without_argument: lk.Processor = lk.Regex("[0-9]+", words)
    assert generate_typed(model, tokenizer, "A number: ", without_argument, max_new_tokens=40).value
    try:
        # A misspelt option is an error of the type checker: without it, this comment would be one.
        generate_typed(model, tokenizer, "", int, max_token=4)  # type: ignore[call-overload] # pyright: ignore[reportCallIssue]
    except TypeError as error:
        print(error)


def in_mlx_lm() -> None:
    from mlx_lm import generate, load

    from logitkit_adapters.demo import model_dir
    from logitkit_adapters.mlx_lm import logits_processor, vocabulary

    model, tokenizer = load(str(model_dir()))[:2]
    hook = logits_processor(lk.Regex("[0-9]{4}", vocabulary(tokenizer)))
    text = generate(model, tokenizer, "The year is ", max_tokens=8, logits_processors=[hook])
    assert re.fullmatch("[0-9]{4}", text)


def in_llama_cpp() -> None:
    from llama_cpp import Llama

    from logitkit_adapters.demo import gguf_path
    from logitkit_adapters.llama_cpp import logits_processor

    llama = Llama(str(gguf_path()), verbose=False)
    hooks = logits_processor(re.compile("[0-9]{4}"), llama)
    answer: Any = llama.create_completion("The year is ", max_tokens=8, logits_processor=hooks)
    assert re.fullmatch("[0-9]{4}", answer["choices"][0]["text"])


CORE = (own_processor, every_processor, every_language, tool_calling, explanations)
ENGINES = (in_transformers, in_mlx_lm, in_llama_cpp)
