"""Wrong arguments of `explain` and `matches` are refused in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import logitkit as lk
from logitkit.errors import ConfigurationError, VocabularyError

VOCABULARY = lk.Vocabulary([*(bytes([byte]) for byte in range(128)), b"ab", None], eos_ids=[129])
WORD = lk.Regex("[ab]+", VOCABULARY)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "is of type NoneType; give a list of token ids, or a text as str"),
        (97, "is of type int; give a list of token ids"),
        (b"ab", "is of type bytes; give a list of token ids, or a text as str"),
        ("a\ud800", "has a lone surrogate at position 1"),
        (["a"], r"\[0\] is 'a'; a token id is an integer"),
        ([97, 97.5], r"\[1\] is 97.5; a token id is an integer"),
        ([True], r"\[0\] is True; a token id is an integer"),
        (torch.tensor([[97, 98]]), r"\[0\] is tensor.*; a token id is an integer"),
    ],
)
def test_what_is_neither_a_text_nor_token_ids(given: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"output{message}" if message[0] == "\\" else f"output {message}"):
        lk.explain(WORD, VOCABULARY, [], given)
    with pytest.raises(ConfigurationError, match="prompt"):
        lk.explain(WORD, VOCABULARY, given, "ab")


def test_token_ids_may_be_tensors_and_arrays() -> None:
    for ids in (torch.tensor([97, 128]), np.array([97, 128]), (97, 128)):
        assert lk.explain(WORD, VOCABULARY, ids, ids).complete  # type: ignore[arg-type]


@pytest.mark.parametrize("tokens", [[b"a", None], [*reversed(VOCABULARY.tokens[:128]), b"ab", None]])
def test_another_vocabulary_than_that_of_the_processor(tokens: list[bytes | None]) -> None:
    other = lk.Vocabulary(tokens, eos_ids=[len(tokens) - 1])
    for processor in (WORD, lk.chain(WORD, lk.BanTokens([0]))):
        with pytest.raises(VocabularyError, match="Regex was built for other tokens"):
            lk.explain(processor, other, [], [0])
    with pytest.raises(VocabularyError, match="Regex was built for other tokens"):
        lk.explain(lk.Regex("a", lk.Vocabulary([b"a", None], eos_ids=[1])), VOCABULARY, [], "a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "text is None of type NoneType; allowed are str and bytes"),
        ([97], "text is .97. of type list; allowed are str and bytes"),
        ("a\udfff", "text has a lone surrogate at position 1"),
    ],
)
def test_what_is_not_a_text_matches_nothing(text: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        WORD.matches(text)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"max_length": -3}, "max_length is -3; allowed are integers from 0"),
        ({"max_length": 2.5}, "max_length is 2.5; allowed are integers"),
        ({"logits": 5}, "logits is of type int; give one tensor for each token"),
        ({"logits": [torch.zeros(5)]}, r"logits has a row of the shape \[5\]; give a tensor .* each of the 130 tokens"),
        ({"logits": [[0.0] * 130]}, "logits has a row of type list; give a tensor"),
        ({"logits": []}, "logits has only 0 rows"),
    ],
)
def test_wrong_logits_and_lengths(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        lk.explain(WORD, VOCABULARY, [], "a", **more)
