"""Prompts into a fixed-shape cache of transformers: however they are fed, the same comes out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import StaticCache

import logitkit as lk
from logitkit_adapters.transformers import FixedCache, logits_processor, prefill
from logitkit_adapters.transformers.cache_argument import cache_argument
from tests.sessions.prefill_models import KINDS, SLOTS, assert_same, empty, expected, feed, ids, layers, model, tensors

SPLITS = [(6,), (1, 5), (5, 1), (3, 3), (2, 2, 2), (1, 2, 3), (1, 1, 1, 1, 1, 1)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("split", SPLITS)
def test_any_split_gives_the_same_logits_and_cache(kind: str, split: tuple[int, ...]) -> None:
    held = feed(kind, ids(), empty(kind), split)
    torch.testing.assert_close(held.logits, expected(kind, ids()), atol=1e-5, rtol=1e-5)
    assert_same(held, feed(kind, ids(), empty(kind), (6,)))
    assert held.length == 6
    assert held.slots.tolist() == [[True] * 6 + [False] * 6] * 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("split", SPLITS)
def test_a_cache_that_is_not_empty_is_gone_on_from(kind: str, split: tuple[int, ...]) -> None:
    first, second = ids(seed=1)[:, :3], ids()
    held = feed(kind, second, prefill(model(kind), first, empty(kind)), split)
    whole = torch.cat([first, second], 1)
    torch.testing.assert_close(held.logits, expected(kind, whole), atol=1e-5, rtol=1e-5)
    assert_same(held, feed(kind, whole, empty(kind), (9,)))


@pytest.mark.parametrize("kind", KINDS)
def test_forced_tokens_and_chunks_equal_the_causal_prompt(kind: str) -> None:
    causal = prefill(model(kind), ids(), empty(kind))
    assert_same(prefill(model(kind), ids(), empty(kind), mode="forced"), causal)
    assert_same(prefill(model(kind), ids(), empty(kind), chunk_length=4), causal)


def test_forced_tokens_are_fed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fed = watch(monkeypatch)
    prefill(model(), ids(), empty(), mode="forced")
    prefill(model(), ids(), empty(), chunk_length=4)
    assert fed == [1, *[1] * 6, 1, 4, 2]  # one token allocates a cache


def watch(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    fed: list[int] = []
    forward = model().forward

    def watched(*args: Any, position_ids: Any = None, **options: Any) -> Any:
        fed.append(options["input_ids"].shape[1])
        return forward(*args, position_ids=position_ids, **options)

    monkeypatch.setattr(model(), "forward", watched)
    return fed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("prefix", [6, 4, [2, 5]])
def test_a_prefix_sees_itself_whole(kind: str, start: int, prefix: int | list[int]) -> None:
    held = empty(kind)
    if start:
        held = prefill(model(kind), ids(seed=1)[:, :start], held)
    lengths = torch.tensor(prefix) if isinstance(prefix, list) else prefix
    held = prefill(model(kind), ids(), held, mode="prefix", prefix_lengths=lengths)
    # Written out: a query sees what is before it, and in the prefix all of it.
    total = start + 6
    seen = torch.zeros(2, 1, total, total, dtype=torch.bool)
    for row in range(2):
        end = start + (prefix[row] if isinstance(prefix, list) else prefix)
        for query in range(total):
            for slot in range(total):
                seen[row, 0, query, slot] = slot <= query or (start <= query < end and slot < end)
    whole = torch.cat([ids(seed=1)[:, :start], ids()], 1)
    form = seen if kind.endswith("sdpa") else torch.where(seen, 0.0, torch.finfo(torch.float32).min)
    with torch.no_grad():
        reference = model(kind)(whole, attention_mask=form, use_cache=False).logits[:, -1]
    torch.testing.assert_close(held.logits, reference, atol=1e-5, rtol=1e-5)
    causal = expected(kind, whole)
    assert (held.logits - causal).abs().amax() > 1e-3


def test_the_default_prefix_is_all_and_causal_tokens_follow_it() -> None:
    whole = prefill(model(), ids(), empty(), mode="prefix", prefix_lengths=4)
    parts = prefill(model(), ids()[:, :4], empty(), mode="prefix")
    assert_same(prefill(model(), ids()[:, 4:], parts), whole)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("form", ["[6, 6]", "[B, 6, 6]", "[B, 1, 6, 6]", "[B, heads, 6, 6]", "[B, 1, 6, max]"])
def test_a_mask_of_the_caller_is_anded(kind: str, start: int, form: str) -> None:
    generator = torch.Generator().manual_seed(3)
    heads = model(kind).config.num_attention_heads
    shape = {"[6, 6]": (6, 6), "[B, 6, 6]": (2, 6, 6), "[B, heads, 6, 6]": (2, heads, 6, 6)}.get(form, (2, 1, 6, 6))
    mask = torch.rand(shape, generator=generator) < 0.6
    mask = mask | torch.eye(6, dtype=torch.bool)
    given = mask
    if form.endswith("max]"):
        given = torch.zeros(2, 1, 6, SLOTS, dtype=torch.bool)
        given[..., :start] = True
        given[..., start : start + 6] = mask
        given[..., start + 6 :] = True  # slots that are not held: causality forbids them
    held = empty(kind)
    if start:
        held = prefill(model(kind), ids(seed=1)[:, :start], held)
    held = prefill(model(kind), ids(), held, mask=given)
    total = start + 6
    seen = torch.ones(total, total, dtype=torch.bool).tril().expand(2, heads, -1, -1).clone()
    seen[:, :, start:, start:] &= mask if mask.dim() != 3 else mask[:, None]
    form_taken = seen if kind.endswith("sdpa") else torch.where(seen, 0.0, torch.finfo(torch.float32).min)
    whole = torch.cat([ids(seed=1)[:, :start], ids()], 1)
    with torch.no_grad():
        reference = model(kind)(whole, attention_mask=form_taken, use_cache=False).logits[:, -1]
    torch.testing.assert_close(held.logits, reference, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", ["left", "right", "holes"])
@pytest.mark.parametrize("split", [(6,), (3, 3), (2, 2, 2), (1, 1, 1, 1, 1, 1)])
def test_rows_may_be_of_any_length(kind: str, side: str, split: tuple[int, ...]) -> None:
    present = {
        "left": [[0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1]],
        "right": [[1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]],
        "holes": [[1, 0, 1, 1, 0, 0], [0, 1, 1, 0, 1, 1]],
    }[side]
    tokens, mask = ids(), torch.tensor(present)
    tokens[mask == 0] = 0
    held = empty(kind)
    parts = list(split)
    for chunk, columns in zip(tokens.split(parts, 1), mask.split(parts, 1), strict=True):
        held = prefill(model(kind), chunk, held, attention_mask=columns)
    more = prefill(model(kind), ids(seed=4)[:, :2], held)
    for row in range(2):
        alone = tokens[row][mask[row] == 1][None]
        torch.testing.assert_close(held.logits[row], expected(kind, alone)[0], atol=1e-5, rtol=1e-5)
        alone = torch.cat([alone, ids(seed=4)[row : row + 1, :2]], 1)
        torch.testing.assert_close(more.logits[row], expected(kind, alone)[0], atol=1e-5, rtol=1e-5)
    assert held.slots[:, :6].tolist() == mask.bool().tolist()


def test_a_mask_of_all_slots_says_which_hold_tokens() -> None:
    static = StaticCache(config=model().config, max_cache_len=SLOTS)
    padded = torch.tensor([[0, 0, 7, 8], [5, 6, 7, 8]])
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    with torch.no_grad():
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        model()(padded, attention_mask=mask, position_ids=positions, **{cache_argument(model()): static})
    told = torch.nn.functional.pad(mask, (0, SLOTS - 4), value=1)
    held = prefill(model(), ids(), static, attention_mask=told)
    for row, begun in enumerate([[7, 8], [5, 6, 7, 8]]):
        alone = torch.cat([torch.tensor([begun]), ids()[row : row + 1]], 1)
        torch.testing.assert_close(held.logits[row], expected("demo-sdpa", alone)[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, 1e30])
@pytest.mark.parametrize("mode", ["causal", "prefix", "forced"])
def test_slots_beyond_the_index_are_never_read(kind: str, garbage: float, mode: Any) -> None:
    def run(poison: float | None) -> FixedCache:
        held = prefill(model(kind), ids(seed=1)[:, :3], empty(kind))
        if poison is not None:
            for layer in layers(held):
                layer.keys[:, :, 3:] = poison
                layer.values[:, :, 3:] = -poison
        return prefill(model(kind), ids(), held, mode=mode)

    clean, poisoned = run(None), run(garbage)
    assert torch.equal(clean.logits, poisoned.logits)
    assert_same(clean, poisoned)
    assert all(bool(t.isfinite().all()) for t in tensors(poisoned))


def test_a_pad_that_sees_nothing_leaves_no_nan() -> None:
    for kind in KINDS:
        mask = torch.tensor([[0, 0, 0, 0, 1, 1], [1, 1, 1, 1, 1, 1]])
        held = prefill(model(kind), ids(), empty(kind), attention_mask=mask, mask=torch.eye(6))
        assert held.logits.isfinite().all()
        assert all(bool(t.isfinite().all()) for t in tensors(held))


class Counted:
    """A processor that notes the lengths of the rows it is called with."""

    def __init__(self, calls: list[int]) -> None:
        self.calls = calls

    def init_state(self, context: lk.Context) -> tuple[Tensor]:
        return (torch.zeros(context.batch_size),)

    def advance(self, state: tuple[Tensor], tokens: Tensor) -> tuple[Tensor]:
        return state

    def process_logits(self, state: tuple[Tensor], logits: Tensor, context: lk.Context) -> tuple[tuple[Tensor], Tensor]:
        self.calls.append(int(context.lengths[0]))
        return state, logits


def test_processors_are_not_called_for_prompt_positions() -> None:
    calls: list[int] = []
    prompt = ids(rows=1, length=20)
    held = prefill(model(), prompt[:, :-1], empty(rows=1, slots=40), chunk_length=5)
    options: dict[str, Any] = {"do_sample": False, "max_new_tokens": 5, "attention_mask": torch.ones_like(prompt)}
    filled = {cache_argument(model()): held.cache}
    written = model().generate(prompt, logits_processor=[logits_processor(Counted(calls))], **filled, **options)
    assert calls == list(range(20, 20 + written.shape[1] - 20))
    assert torch.equal(written, model().generate(prompt, **options))
