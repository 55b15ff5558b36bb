"""Both entry points take the same kinds of prompts in every engine, and refuse all others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BatchEncoding

from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions import Session, continuous, read_prompts
from tests.adapters.demo import tokenizer
from tests.adapters.tokenizer_zoo import known
from tests.sessions.engines import ENGINES, loaded

TEXTS = ["The price of", "Question: Is Paris in France?\nAnswer:"]
TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}bot:{% endif %}"
)
CHAT = [{"role": "user", "content": "Is it?"}, {"role": "bot", "content": "no"}, {"role": "user", "content": "Why?"}]
AS_TEXT = "user: Is it?\nbot: no\nuser: Why?\nbot:"
Writer = Callable[..., list[list[int]]]


def by_session(model: Any, tokenizer: Any) -> Writer:
    def write(prompt: Any, **options: Any) -> list[list[int]]:
        with Session(model, tokenizer, max_length=128) as session:
            rows = session.generate(prompt, max_new_tokens=4, **options).rows
        return [row.token_ids[: row.token_ids.index(2) if 2 in row.token_ids else None] for row in rows]

    return write


def by_generator(model: Any, tokenizer: Any) -> Writer:
    def write(prompt: Any, **options: Any) -> list[list[int]]:
        text = continuous(model, tokenizer)
        state = text(prompt, max_new_tokens=4, **options)
        lengths = state.prompt_lengths.tolist()
        return [list(row[n:]) for row, n in zip(state.rows, lengths, strict=True)]

    return write


@pytest.fixture(
    params=[(name, entry) for name in ENGINES for entry in (by_session, by_generator)],
    ids=lambda made: f"{made[0]}-{made[1].__name__}",
)
def writer(request: pytest.FixtureRequest) -> Writer:
    name, entry = request.param
    model, its_tokenizer = loaded(name)
    write: Writer = entry(model, its_tokenizer)
    return write


def test_one_prompt_of_every_kind(writer: Writer) -> None:
    ids = tokenizer()(TEXTS[1]).input_ids
    wanted = writer([ids])
    encoding = tokenizer()(TEXTS[1])
    assert isinstance(encoding, BatchEncoding)
    for prompt in (
        TEXTS[1],
        [TEXTS[1]],
        ids,
        tuple(ids),
        np.array(ids),
        [np.int64(i) for i in ids],
        torch.tensor(ids),
        torch.tensor([ids], dtype=torch.int32),
        [torch.tensor(ids)],
        encoding,
        tokenizer()(TEXTS[1], return_tensors="pt"),
        tokenizer()([TEXTS[1]], return_tensors="np"),
        {"input_ids": ids},
    ):
        assert writer(prompt) == wanted


def test_an_array_of_mlx(writer: Writer) -> None:
    import mlx.core as mx

    ids = tokenizer()(TEXTS[0]).input_ids
    assert writer(mx.array(ids)) == writer(mx.array([ids])) == writer(ids)


def test_several_prompts_of_every_kind_with_pads_on_either_side(writer: Writer) -> None:
    rows = [tokenizer()(text).input_ids for text in TEXTS]
    wanted = writer(rows)
    assert wanted == [*writer(rows[0]), *writer(rows[1])]
    assert writer(TEXTS) == writer(tuple(TEXTS)) == writer(tokenizer()(TEXTS)) == wanted
    for side in ("left", "right"):
        for kind in ("pt", "np", None):
            padded = tokenizer()(TEXTS, padding=True, padding_side=side, return_tensors=kind)
            assert writer(padded) == wanted
            assert writer(padded["input_ids"], attention_mask=padded["attention_mask"]) == wanted
    mask = [True] * 3 + [False] * 2
    assert writer([*rows[0][:3], 9, 9], attention_mask=mask) == writer(rows[0][:3])


def test_chats(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    for given in (CHAT, [CHAT], CHAT[2:]):
        with pytest.raises(ConfigurationError, match="prompt is a chat, but the tokenizer has no chat template; give"):
            writer(given)
    mlx, llama = loaded("mlx-lm")[1], loaded("llama.cpp")[0]
    monkeypatch.setattr(loaded("transformers")[1], "chat_template", TEMPLATE)
    monkeypatch.setattr(mlx._tokenizer, "chat_template", TEMPLATE)
    monkeypatch.setitem(mlx.__dict__, "has_chat_template", True)
    monkeypatch.setitem(llama.metadata, "tokenizer.chat_template", TEMPLATE)
    monkeypatch.setattr(type(loaded("onnxruntime-genai")[1]), "chat_template", TEMPLATE)
    wanted = writer(AS_TEXT)
    assert writer(CHAT) == writer([CHAT]) == wanted
    assert writer([CHAT, CHAT[:1]]) == [*wanted, *writer("user: Is it?\nbot:")]
    # `apply_chat_template` returns a mapping.
    assert writer(loaded("transformers")[1].apply_chat_template(CHAT, add_generation_prompt=True)) == wanted


REFUSED: list[tuple[Any, str]] = [
    (None, "prompt is None, of the type NoneType; give a text, a list of token ids, a tensor"),
    (5, "prompt is 5, of the type int"),
    (True, "prompt is True"),
    (1.5, "prompt is 1.5"),
    (b"abc", "prompt is b'abc', of the type bytes"),
    (bytearray(b"abc"), "of the type bytearray"),
    ({1, 2}, "of the type set"),
    ({}, "prompt is a dict with no input_ids"),
    ({"role": "user", "content": "a"}, "prompt is a dict with 'role', .*; put a chat message into a list"),
    ({"input_ids": [5], "pixel_values": [5]}, "prompt is a dict with 'pixel_values', which is not a part of a prompt"),
    (iter([5, 6]), "of the type list_iterator"),
    ([], "prompt is empty"),
    (torch.zeros(0, dtype=torch.int64), "prompt is empty"),
    ([[]], "a prompt has no tokens"),
    ([[5], []], "a prompt has no tokens"),
    ([1.5, 2.5], r"prompt is \[1.5, 2.5\]"),
    ([True, False], "prompt is"),
    ([b"abc"], "prompt is"),
    (["a", 5], "prompt is a list that begins with a text, and item 1 is a token id: 5; all items must be of one kind"),
    ([5, "a"], "begins with a token id, and item 1 is a text"),
    ([5, 1.5], "begins with a token id, and item 1 is of the type float"),
    ([5, None], "item 1 is of the type NoneType"),
    ([[5], "a"], "begins with a list of token ids, and item 1 is a text"),
    (["a", CHAT], "item 1 is a chat"),
    ([CHAT[0], "a"], "begins with a chat message, and item 1 is a text"),
    ([[5, 1.5]], "a prompt has the token id 1.5; allowed are integers from 0 to"),
    ([[5, True]], "a prompt has the token id True"),
    ([-1], "a prompt has the token id -1"),
    ([2**31], "a prompt has the token id 2147483648"),
    ([[["a"]]], "a prompt has the token id"),
    (torch.tensor([1.0, 2.0]), "prompt is"),
    (torch.tensor([True, False]), "prompt is"),
    (torch.ones(1, 2, 2, dtype=torch.int64), "a prompt has the token id"),
    (torch.tensor(5), "prompt is 5"),
    ([{"a": 1}], "prompt is"),
    ([{"role": "user"}], "a chat has the message"),
    ([{"role": 5, "content": "a"}], "a chat has the message"),
    ([[CHAT[0], "a"]], "a chat has the message 'a'"),
    (SimpleNamespace(ids=[5]), "of the type SimpleNamespace"),
]


@pytest.mark.parametrize(
    ("wrong", "said"), REFUSED, ids=[repr(wrong)[:40].split(" object at ")[0] for wrong, _ in REFUSED]
)
def test_what_is_not_a_prompt_is_refused(writer: Writer, wrong: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as raised:
        writer(wrong)
    assert len(str(raised.value)) < 600


def test_half_of_a_character_is_refused(writer: Writer) -> None:
    with pytest.raises(ConfigurationError, match="a prompt has a lone surrogate at position 2"):
        writer("a \ud800")


def test_half_of_a_character_is_not_appended() -> None:
    state = continuous(*loaded("transformers"))("The", max_new_tokens=2)
    for more in ("\ud800", ["a\ud800"]):
        with pytest.raises(ConfigurationError, match="lone surrogate"):
            state + more


def test_masks_that_do_not_fit_are_refused(writer: Writer) -> None:
    ids = torch.tensor([[5, 6, 7], [5, 6, 7]])
    for prompt, mask, said in (
        (
            ids,
            torch.ones(2, 2),
            "attention_mask has 2 rows of .2, 2. values, and the prompt 2 rows of .3, 3. token ids",
        ),
        (ids, torch.ones(3), "attention_mask has 1 rows"),
        (ids, [[1, 1, 2], [1, 1, 1]], "attention_mask has the value 2; allowed are 1 for a token and 0 for padding"),
        (ids, torch.ones(2, 3) / 2, "attention_mask has the value 0.5"),
        (ids, [[1, 1, None], [1, 1, 1]], "attention_mask has the value None"),
        (ids, [[1, 1, "1"], [1, 1, 1]], "attention_mask has the value '1'"),
        (ids, 1, "attention_mask is 1"),
        ("a", [1], "prompt is 'a'; with an attention_mask"),
        ({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, torch.ones_like(ids), "given twice"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            writer(prompt, attention_mask=mask)
    text = continuous(*loaded("transformers"))
    state = text("a", max_new_tokens=1)
    with pytest.raises(ConfigurationError, match="attention_mask is given with a state"):
        text(state, max_new_tokens=1, attention_mask=torch.ones(1, 2))


def test_chats_by_tokenizers_with_a_way_of_their_own() -> None:
    mistral = known("mistral-common SentencePiece in transformers")[0]
    message = [{"role": "user", "content": "hi"}]
    assert read_prompts(message, None, mistral) == [mistral.apply_chat_template(message)["input_ids"]]
    with pytest.raises(ConfigurationError, match="there is no tokenizer"):
        read_prompts(message, None)
    templated = copy.deepcopy(tokenizer())
    templated.chat_template = TEMPLATE
    assert read_prompts(message, None, templated) == [tokenizer()("user: hi\nbot:").input_ids]
