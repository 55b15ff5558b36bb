"""`generate` with a processor for each row: each row gets the tokens that it gets alone."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit_adapters.transformers import logits_processor
from tests.adapters.demo import model, tokenizer, vocabulary
from tests.conformance.engines import until_eos
from tests.conformance.families import FAMILIES, family
from tests.conformance.replay import Replay
from tests.examples import of_all

NEW = 16
TEXT = "The price of the"


class NoDoubles(lk.Stateless):
    """A processor that no configuration can express."""


@cache
def processors() -> list[Any]:
    v = vocabulary()
    return [
        lk.Regex("[a-z ]{4,12}\\.", v),
        lk.chain(lk.RepetitionPenalty(1.3), lk.JsonSchema({"type": "array", "items": {"type": "integer"}}, v)),
        None,
        lk.chain(lk.Temperature(0.7), lk.BannedStrings(["e", "a"], v)),  # in another order than configurations
        NoDoubles(lambda logits, context: logits * 0.5),
        lk.Regex("[A-Z]{2}-[0-9]{3}", v),
    ]


@cache
def prompt() -> Tensor:
    ids: Tensor = tokenizer()(TEXT, return_tensors="pt").input_ids
    return ids


def generate(ids: Tensor, hooks: list[Any], mask: Tensor | None = None, **options: Any) -> Tensor:
    settings = {"max_new_tokens": NEW, "do_sample": False, **options}
    mask = torch.ones_like(ids) if mask is None else mask
    torch.manual_seed(0)
    written: Tensor = model().generate(ids, attention_mask=mask, logits_processor=hooks, **settings)
    return written[:, ids.shape[1] :]


def alone(processor: Any, **options: Any) -> list[list[int]]:
    hooks = [] if processor is None else [logits_processor(processor)]
    return [until_eos(row) for row in generate(prompt(), hooks, **options).tolist()]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="greedy"),
        pytest.param({"num_beams": 3, "num_return_sequences": 2}, id="beams"),
        pytest.param({"cache_implementation": "static"}, id="static cache"),
    ],
)
def test_rows_with_one_prompt_get_what_they_get_alone(options: dict[str, Any]) -> None:
    """Token ids do not tell these rows from one another, as long as they write the same."""
    hook = logits_processor(processors())
    found = generate(prompt().repeat(len(processors()), 1), [hook], **options).tolist()
    wanted = [row for processor in processors() for row in alone(processor, **options)]
    assert [until_eos(row) for row in found] == wanted
    assert len({*map(tuple, wanted)}) > len(processors()) // 2


def test_prompts_of_different_lengths() -> None:
    texts = ["The", "The price of the lamp", "A code: ", "On Monday, she", "Go", "Name: "]
    tokenizer().padding_side = "left"
    batch = tokenizer()(texts, return_tensors="pt", padding=True)
    hook = logits_processor(processors(), attention_mask=batch.attention_mask)
    found = generate(batch.input_ids, [hook], batch.attention_mask).tolist()
    for text, processor, row in zip(texts, processors(), found, strict=True):
        ids = tokenizer()(text, return_tensors="pt").input_ids
        hooks = [] if processor is None else [logits_processor(processor)]
        assert until_eos(row) == until_eos(generate(ids, hooks)[0].tolist()), text
    assert re.fullmatch("[A-Z]{2}-[0-9]{3}", tokenizer().decode(until_eos(found[-1])[:-1]))


class RowReplay:
    """The replays of rows: each is compared with the core, call by call."""

    def __init__(self, processors: list[Any], prompt: list[int]) -> None:
        self.rows = [Replay(lk.chain() if p is None else p, prompt) for p in processors]

    def before(self, ids: Tensor, scores: Tensor) -> Tensor:
        for replay, given in zip(self.rows, scores.chunk(len(self.rows)), strict=True):
            replay.before(given)
        return scores

    def after(self, ids: Tensor, scores: Tensor) -> Tensor:
        count = len(self.rows)
        for replay, row, found in zip(self.rows, ids.chunk(count), scores.chunk(count), strict=True):
            replay.behind(row.tolist(), found)
        return scores


@pytest.mark.parametrize("kind", of_all(FAMILIES, 3))
@pytest.mark.parametrize("options", [{"do_sample": True, "num_return_sequences": 2}, {"num_beams": 2}], ids=str)
def test_each_call_gives_each_row_what_the_core_gives(kind: str, options: dict[str, Any]) -> None:
    """With samples and beams of each row, next to rows of the same and of other processors."""
    rows = [family(kind), processors()[0], None, family(kind)]
    replay = RowReplay(rows, prompt()[0].tolist())
    hooks = [replay.before, logits_processor(rows), replay.after]
    generate(prompt().repeat(4, 1), hooks, max_new_tokens=8, **options)
    assert all(row.calls > 4 for row in replay.rows)


def test_types_and_patterns_are_compiled_for_the_tokenizer() -> None:
    hook = logits_processor([int, None, re.compile("yes|no")], tokenizer(), model=model(), max_new_tokens=NEW)
    number, free, answer = generate(prompt().repeat(3, 1), [hook]).tolist()
    texts = [tokenizer().decode(until_eos(row), skip_special_tokens=True) for row in (number, answer)]
    assert re.fullmatch("-?[0-9]+", texts[0])
    assert texts[1] in ("yes", "no")
    assert until_eos(free) == alone(None)[0]
    rows: Any = hook.processor
    assert rows.is_finished(hook.state)[2]


def test_wrong_lists_are_refused() -> None:
    regex = lk.Regex("a", vocabulary())
    with pytest.raises(ConfigurationError, match="there are no processors"):
        logits_processor([])
    with pytest.raises(ConfigurationError, match="is the class TopK"):
        logits_processor([regex, lk.TopK])
    hook = logits_processor([regex, None])
    with pytest.raises(BatchMismatch, match=r"3 rows, but .* 2"):
        generate(prompt().repeat(3, 1), [hook])


def test_one_hook_and_the_next_generation() -> None:
    """Reused after `new_generation`, and with a prompt that was the output of another row."""
    hook = logits_processor(processors()[:2])
    first = generate(prompt().repeat(2, 1), [hook])
    hook.new_generation()
    assert generate(prompt().repeat(2, 1), [hook]).equal(first)
    longer = torch.cat([prompt(), first[:1, :3]], 1)
    found = generate(longer.repeat(2, 1), [logits_processor(processors()[:2])])
    for row, processor in zip(found.tolist(), processors()[:2], strict=True):
        assert until_eos(row) == until_eos(generate(longer, [logits_processor(processor)])[0].tolist())
