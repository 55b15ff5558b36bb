"""Logits that are far wider than a vocabulary belong to another model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.errors import VocabularyError
from logitkit.runtime.logit_arrays import check_width
from tests.processors.four_logits import on_either_path

# Ids:                             0     1     2 = EOS
SMALL = lk.Vocabulary([b"[", b"]", None], eos_ids=[2])
RECURSIVE = {"$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"}
MAKE: dict[str, Callable[[lk.Vocabulary], Any]] = {
    "Regex": lambda v: lk.Regex("[[]+", v),
    "JsonSchema": lambda v: lk.JsonSchema(RECURSIVE, v),
    "StopStrings": lambda v: lk.StopStrings(["[["], v),
    "ThinkingBudget": lambda v: lk.ThinkingBudget(3, "]", v),
    "BannedStrings": lambda v: lk.BannedStrings(["[["], v),
    "chain": lambda v: lk.chain(lk.Regex("[[]", v), lk.TopK(3)),
}
REFUSED = (
    r"the logits have 1280 columns, but the vocabulary has 3 ids; the other 1277 are too many to be padding.*size=1280"
)


@pytest.mark.parametrize("name", MAKE)
def test_far_wider_logits_are_refused_on_either_path(name: str) -> None:
    with pytest.raises(VocabularyError, match=REFUSED):
        on_either_path(MAKE[name](SMALL), [], [0.5] * 1280)
    said = lk.Vocabulary([b"[", b"]", None], eos_ids=[2], size=1280)
    for vocabulary, columns in ((SMALL, 1027), (SMALL, 3), (said, 1280), (said, 1300)):
        assert len(on_either_path(MAKE[name](vocabulary), [], [0.5] * columns)) == columns


@pytest.mark.parametrize(
    ("size", "columns", "allowed"),
    [
        *((50_257, 50_304, True), (50_295, 51_200, True), (151_665, 152_064, True)),
        *((32_000, 33_024, True), (32_000, 33_025, False), (3, 1280, False), (128_000, 128_256, True)),
        *((252_000, 256_000, True), (251_999, 256_000, False), (100, 99, False)),
    ],
)
def test_padding_is_allowed(size: int, columns: int, allowed: bool) -> None:
    if allowed:
        check_width(size, columns)
    else:
        with pytest.raises(
            VocabularyError, match=f"the logits have {columns} columns, but the vocabulary has {size} ids"
        ):
            check_width(size, columns)


def test_hooks_of_one_row_refuse_them_too() -> None:
    from logitkit_adapters.transformers import logits_processor

    for processor in (MAKE["Regex"](SMALL), lk.chain(MAKE["Regex"](SMALL), lk.TopK(5))):
        with pytest.raises(VocabularyError, match=REFUSED):
            logits_processor(processor)(torch.tensor([[5, 6]]), torch.zeros(1, 1280))


def test_neutral_rows_need_no_vocabulary() -> None:
    vocabulary = lk.Vocabulary([b"x", b"y", None, None, None], eos_ids=[2])
    regex = lk.Regex("x", vocabulary)
    neutral = regex.neutral_state(lk.Context.of([[]], 4000))
    logits = torch.zeros(1, 4000)
    assert torch.equal(regex.process_logits(neutral, logits.clone(), lk.Context.of([[]], 4000))[1], logits)
