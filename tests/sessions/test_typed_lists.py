"""Typed output of lists: rows run together, write what they would write alone, and one bad row loses nothing."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
import torch
from pydantic import BaseModel, field_validator

import logitkit as lk
from logitkit.errors import BrokenLogits, ConfigurationError, IncompleteOutput, InvalidOutput, OutputError
from logitkit_adapters.transformers import Session, generate_typed
from tests.sessions.engines import loaded
from tests.sessions.test_session_options import NEAR
from tests.sessions.test_typed import Engine

PROMPTS = [
    "The meeting is on ",
    "A date: ",
    "The lamp was sold on the first day of the year, which is ",
    "On ",
    "Tea and bread, bought ",
    "Yesterday: ",
    "It rained on the ",
    "The price of tea since ",
]


@pytest.fixture(params=["transformers", "mlx-lm", "llama.cpp"], scope="module")
def engine(request: pytest.FixtureRequest) -> Engine:
    return Engine(str(request.param))


@pytest.fixture
def passes() -> Iterator[list[int]]:
    """The number of rows of each forward pass of the model of transformers."""
    found = list[int]()

    def count(_: Any, args: Any, kwargs: Any) -> None:
        found.append(len(kwargs["input_ids"]))

    handle = loaded("transformers")[0].register_forward_pre_hook(count, with_kwargs=True)
    yield found
    handle.remove()


def same(found: list[Any], expected: list[Any]) -> None:
    """Assert that outputs are the same, up to rounding of probabilities."""
    assert [(one.text, one.token_ids, one.finished) for one in found] == [
        (one.text, one.token_ids, one.finished) for one in expected
    ]
    for one, other in zip(found, expected, strict=True):
        assert one.log_prob == pytest.approx(other.log_prob, abs=NEAR * len(one.token_ids))


def test_a_list_takes_as_many_passes_as_its_longest_output(passes: list[int]) -> None:
    model, tokenizer = loaded("transformers")
    together = generate_typed(model, tokenizer, PROMPTS, date, max_new_tokens=20)
    assert set(passes) == {len(PROMPTS)}
    assert len(passes) == max(len(one.token_ids) for one in together)


@pytest.mark.parametrize("size", [1, 3, 32])
def test_rows_write_what_they_write_alone(engine: Engine, size: int) -> None:
    alone = [engine.typed(prompt, date, max_new_tokens=20) for prompt in PROMPTS]
    same(engine.typed(PROMPTS, date, max_new_tokens=20, batch_size=size), alone)


@pytest.mark.parametrize("size", [2, 5, 32])
def test_samples_are_those_of_a_session(engine: Engine, size: int) -> None:
    options: dict[str, Any] = {"num_samples": 3, "seed": 7, "max_new_tokens": 12, "processor": lk.Temperature(2.0)}
    pattern = re.compile("[a-z]{1,4}[0-9]{0,3}")
    found = engine.typed(PROMPTS[:4], pattern, batch_size=size, **options)
    same(found, engine.typed(PROMPTS[:4], pattern, session=engine.session(), **options))
    assert len({one.text for one in found}) > 3


def test_beams_are_those_of_a_session(engine: Engine) -> None:
    options: dict[str, Any] = {"num_beams": 3, "length_penalty": 0.5, "max_new_tokens": 8}
    pattern = re.compile("[a-z]{1,4}")
    found = engine.typed(PROMPTS[:3], pattern, **options)
    assert len(found) == 9
    same(found, engine.typed(PROMPTS[:3], pattern, session=engine.session(), **options))
    best = engine.typed(PROMPTS[0], pattern, **options)
    assert [one.text for one in best] == [one.text for one in found[:3]]
    assert all(re.fullmatch("[a-z]{1,4}", one.value) for one in found)


def test_a_row_of_padding_ends_before_it_begins() -> None:
    model, tokenizer = loaded("transformers")
    ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
    mask = torch.tensor([[1, 1, 1], [0, 0, 0]])
    pattern = re.compile("[a-z]{0,3}")
    found = generate_typed(model, tokenizer, ids, pattern, attention_mask=mask, max_new_tokens=4)
    assert found[0].text == generate_typed(model, tokenizer, [5, 6, 7], pattern, max_new_tokens=4).text
    assert found[1].token_ids == []


def test_ends_of_rows_have_the_names_of_a_session() -> None:
    model, tokenizer = loaded("transformers")
    vocabulary = Engine("transformers").module.vocabulary(tokenizer, model)
    no_digits = lk.BanTokens([i for i, data in enumerate(vocabulary.tokens) if data and re.search(rb"[0-9]", data)])
    no_end = lk.BanTokens(vocabulary.eos_ids)
    banned = torch.tensor([*no_digits.ids, *vocabulary.eos_ids])
    no_way = lk.Stateless(lambda logits, _: logits.index_fill(1, banned, -torch.inf))
    stop = lk.StopStrings(["e"], vocabulary)
    for pattern, processor in [
        ("a[0-9]+", no_digits),
        ("[a-z]+[0-9]?", stop),
        ("a[0-9]*", lk.chain(no_digits, no_end)),
        ("a[0-9]*", no_way),
    ]:
        options: dict[str, Any] = {"processor": processor, "max_new_tokens": 6, "errors": "return", "closing": False}
        found = generate_typed(model, tokenizer, PROMPTS, re.compile(pattern), **options)
        with Session(model, tokenizer) as session:
            same(found, generate_typed(model, tokenizer, PROMPTS, re.compile(pattern), session=session, **options))


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def is_even(cls, number: int) -> int:
        """Refuse odd numbers."""
        if number % 2:
            raise ValueError(f"{number} is odd")
        return number


def sampled(engine: Engine, **options: Any) -> list[Any]:
    """Return eight outputs, some of which a validator refuses."""
    hot = lk.Temperature(3.0)
    found: list[Any] = engine.typed(PROMPTS, Even, max_new_tokens=14, seed=5, processor=hot, **options)
    return found


def test_one_bad_row_loses_nothing(engine: Engine) -> None:
    found = sampled(engine, errors="return")
    bad = [row for row, one in enumerate(found) if one.error is not None]
    assert 0 < len(bad) < len(found)
    assert [(one.error.row, len(one.error.outputs)) for one in found if one.error is not None] == [(b, 8) for b in bad]
    for row, one in enumerate(found):
        number = int(re.findall("-?[0-9]+", one.text)[0])
        assert (number % 2 == 1) == (row in bad)
        assert one.value == (None if row in bad else Even(number=number))
    with pytest.raises(
        InvalidOutput, match=f"(?s)output {bad[0]} of 8: a validator of the type refuses .* is odd"
    ) as caught:
        sampled(engine)
    error = caught.value
    assert (error.row, error.text) == (bad[0], found[bad[0]].text)
    assert isinstance(error, ValueError)
    assert "is odd" in str(error.__cause__)
    assert [one.text for one in error.outputs] == [one.text for one in found]
    assert [one.value for one in error.outputs] == [one.value for one in found]


def test_a_refused_output_is_sampled_again(engine: Engine) -> None:
    first = sampled(engine, errors="return")
    found = sampled(engine, retries=20)
    assert all(one.error is None and one.value.number % 2 == 0 for one in found)
    for one, before in zip(found, first, strict=True):
        assert before.error is not None or one == before
    assert [one.text for one in sampled(engine, retries=20)] == [one.text for one in found]


def test_greedy_outputs_are_sampled_again() -> None:
    model, tokenizer = loaded("transformers")
    greedy = generate_typed(model, tokenizer, "A letter: ", re.compile("[a-z]"), max_new_tokens=3)

    class Other(BaseModel):
        letter: str

        @field_validator("letter")
        @classmethod
        def differs(cls, letter: str) -> str:
            """Refuse a letter."""
            assert letter != greedy.value
            return letter

    found = generate_typed(model, tokenizer, PROMPTS, Other, max_new_tokens=30, retries=30, errors="return")
    assert all(one.error is None for one in found)


def test_an_incomplete_row_keeps_the_others() -> None:
    model, tokenizer = loaded("transformers")
    options: dict[str, Any] = {"max_new_tokens": 3, "closing": False}
    with pytest.raises(IncompleteOutput, match=r"output \d of 8: .* was cut off at the token limit") as caught:
        generate_typed(model, tokenizer, PROMPTS, re.compile("[a-z]{2,40}"), **options)
    found = generate_typed(model, tokenizer, PROMPTS, re.compile("[a-z]{2,40}"), errors="return", **options)
    assert [one.text for one in caught.value.outputs] == [one.text for one in found]
    assert caught.value.row == next(row for row, one in enumerate(found) if one.error)
    # Other processes get it as well, as far as its arguments say.
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (copied.limit, copied.needed, copied.text) == (3, caught.value.needed, caught.value.text)


def test_an_error_of_a_single_output_names_no_row() -> None:
    model, tokenizer = loaded("transformers")
    with pytest.raises(OutputError, match=r"^the output .[a-z]+. was cut off") as caught:
        generate_typed(model, tokenizer, PROMPTS[0], re.compile("[a-z]{40}"), max_new_tokens=3, closing=False)
    assert len(caught.value.outputs) == 1
    stream = generate_typed(
        model,
        tokenizer,
        PROMPTS[0],
        re.compile("[a-z]{40}"),
        max_new_tokens=3,
        closing=False,
        stream=True,
        errors="return",
    )
    text = "".join(stream)
    assert stream.output.error is not None
    assert stream.output.error.text == text


def test_broken_logits_of_a_second_try_name_the_row_of_the_list() -> None:
    model, tokenizer = loaded("transformers")
    hot: dict[str, Any] = {"seed": 5, "processor": lk.Temperature(3.0), "max_new_tokens": 14}
    found = generate_typed(model, tokenizer, PROMPTS, Even, errors="return", **hot)
    bad = [row for row, one in enumerate(found) if one.error is not None]
    tries = iter([False, True])

    def broken(_: Any, args: Any, kwargs: Any, output: Any) -> Any:
        if kwargs["input_ids"].shape[1] > 1 and next(tries):
            output.logits[:] = torch.nan
        return output

    handle = model.register_forward_hook(broken, with_kwargs=True)
    try:
        with pytest.raises(BrokenLogits) as caught:
            generate_typed(model, tokenizer, PROMPTS, Even, retries=1, **hot)
    finally:
        handle.remove()
    assert caught.value.row in bad
    assert bad != [*range(len(bad))]


def test_broken_logits_name_the_row_of_the_list() -> None:
    model, tokenizer = loaded("transformers")
    # The longest prompt is the last row of the batch.
    longest = max(PROMPTS, key=len)

    def broken(_: Any, args: Any, kwargs: Any, output: Any) -> Any:
        if kwargs["input_ids"].shape[0] > 1:
            output.logits[-1] = torch.nan
        return output

    handle = model.register_forward_hook(broken, with_kwargs=True)
    try:
        with pytest.raises(BrokenLogits) as caught:
            generate_typed(model, tokenizer, PROMPTS, date, max_new_tokens=20)
    finally:
        handle.remove()
    assert caught.value.row == PROMPTS.index(longest)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"errors": "ignore"}, "errors is 'ignore'; allowed are 'raise' and 'return'"),
        ({"retries": -1}, "retries"),
        ({"batch_size": 0}, "batch_size"),
        ({"retries": 1, "stream": True}, "stream=True was given with retries=1"),
        ({"num_beams": 2, "stream": True}, "stream=True was given with several prompts, samples or beams"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], message: str) -> None:
    model, tokenizer = loaded("transformers")
    with pytest.raises(ConfigurationError, match=message):
        generate_typed(model, tokenizer, PROMPTS[0], int, max_new_tokens=4, **options)


def test_a_text_without_end_stops_at_the_default_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = loaded("transformers")
    monkeypatch.setattr("logitkit_adapters.sessions.typed.DEFAULT_LIMIT", 9)
    letters = lk.BanTokens(Engine("transformers").module.vocabulary(tokenizer, model).eos_ids)
    found = generate_typed(model, tokenizer, PROMPTS[:2], re.compile("[a-z]*"), processor=letters, errors="return")
    assert [len(one.token_ids) for one in found] == [9, 9]
    with pytest.raises(IncompleteOutput, match=r"the limit is 9 new tokens, .*; give max_new_tokens=12 or more"):
        generate_typed(model, tokenizer, PROMPTS[0], date)
    assert generate_typed(model, tokenizer, PROMPTS[0], date, max_new_tokens=12).finished == "closed"


def test_the_error_of_models_with_an_encoder_names_the_way() -> None:
    from transformers import T5Config, T5ForConditionalGeneration

    small = T5Config(vocab_size=1280, d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2)
    with pytest.raises(ConfigurationError, match=r"generate with a hook: model\.generate\(.*logits_processor="):
        generate_typed(T5ForConditionalGeneration(small), loaded("transformers")[1], PROMPTS[0], int, max_new_tokens=4)
