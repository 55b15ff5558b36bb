"""The contents of a fixed-shape cache are a value: overflows, rollbacks, samples and errors do not change them."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, StaticCache

from logitkit.errors import ConfigurationError
from logitkit_adapters.demo import model_dir
from logitkit_adapters.transformers import FixedCache, fixed_cache, prefill
from logitkit_adapters.transformers.cache_argument import cache_argument
from tests.sessions.prefill_models import KINDS, SLOTS, assert_same, empty, expected, feed, ids, layers, model, tensors


def test_an_overflow_raises_and_changes_nothing() -> None:
    held = prefill(model(), torch.cat([ids(), ids(seed=1)[:, :3]], 1), empty())
    before = tensors(held)
    for cache_like in (held, held.cache):
        with pytest.raises(ConfigurationError, match="9 slots are filled and 6 more are needed, but the cache has 12"):
            prefill(model(), ids(), cache_like)
    assert all(torch.equal(a, b) for a, b in zip(tensors(held), before, strict=True))
    assert held.length == int(held.cache.get_seq_length()) == 9
    full = prefill(model(), ids()[:, :3], held)
    assert full.length == SLOTS
    torch.testing.assert_close(
        full.logits,
        expected("demo-sdpa", torch.cat([ids(), ids(seed=1)[:, :3], ids()[:, :3]], 1)),
        atol=1e-5,
        rtol=1e-5,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_rolled_back_and_overwritten_equals_a_fresh_cache(kind: str) -> None:
    begun = prefill(model(kind), ids()[:, :2], empty(kind))
    later = prefill(model(kind), ids(seed=1), begun)
    fresh = feed(kind, torch.cat([ids()[:, :2], ids(seed=2)], 1), empty(kind), (8,))
    assert_same(prefill(model(kind), ids(seed=2), begun), fresh)  # the earlier value is the point to roll back to
    again = prefill(model(kind), ids(seed=2), prefill(model(kind), ids(seed=3), begun).rollback(2))
    assert_same(again, fresh)
    assert again.rollback(5).logits.isnan().all()
    assert int(again.cache.get_seq_length()) == 5
    with pytest.raises(ConfigurationError, match="of the 8 slots that this value holds, some have been overwritten"):
        prefill(model(kind), ids()[:, :1], later)
    with pytest.raises(ConfigurationError, match="overwritten"):
        later.rollback(5)
    with pytest.raises(ConfigurationError, match="length is 9; allowed are integers from 0 to 2"):
        begun.rollback(9)


@pytest.mark.parametrize("kind", KINDS)
def test_one_prefill_fans_out_to_samples(kind: str) -> None:
    mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6])
    held = prefill(model(kind), ids(), empty(kind), attention_mask=mask)
    before = tensors(held)
    wide = held.fan_out(3)
    assert torch.equal(wide.logits, held.logits[[0, 0, 0, 1, 1, 1]])
    more = ids(rows=6, length=3, seed=5)
    wide = prefill(model(kind), more, wide)
    for row in range(6):
        alone = torch.cat([ids()[row // 3][mask[row // 3] == 1], more[row]])[None]
        torch.testing.assert_close(wide.logits[row], expected(kind, alone)[0], atol=1e-5, rtol=1e-5)
    # The one that was fanned out is as it was, and goes on by itself.
    assert all(torch.equal(a, b) for a, b in zip(tensors(held), before, strict=True))
    assert int(held.cache.get_seq_length()) == 6
    on = prefill(model(kind), more[:2], held)
    alone = torch.cat([ids()[1], more[1]])[None]
    torch.testing.assert_close(on.logits[1], expected(kind, alone)[0], atol=1e-5, rtol=1e-5)


def test_an_exception_half_way_leaves_the_cache_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    held = prefill(model(), ids()[:, :3], empty())
    last = model().model.layers[-1]
    with monkeypatch.context() as patch:
        patch.setattr(last, "forward", lambda *args, **options: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            prefill(model(), ids(seed=1), held)
    assert [int(layer.cumulative_length) for layer in layers(held)] == [3] * 4
    assert_same(prefill(model(), ids()[:, 3:], held), prefill(model(), ids(), empty()))


@pytest.mark.parametrize("prefix", [4, [2, 4], None])
def test_a_rollback_into_the_prefix_of_a_prefix_lm_is_refused_and_changes_nothing(
    prefix: int | list[int] | None,
) -> None:
    lengths = torch.tensor(prefix) if isinstance(prefix, list) else prefix
    end = 8 if prefix is None else 6
    held = prefill(model(), ids(seed=1)[:, :2], empty())
    held = prefill(model(), ids(), held, mode="prefix", prefix_lengths=lengths)
    before = tensors(held)
    for inside in range(3, end):
        said = f"a rollback to {inside} slots would cut the prefix in slots 2 to {end - 1}, .* to 2 or {end} slots"
        with pytest.raises(ConfigurationError, match=said):
            held.rollback(inside)
        with pytest.raises(ConfigurationError, match="would cut the prefix"):
            held.fan_out(2).rollback(inside)
    assert all(torch.equal(a, b) for a, b in zip(tensors(held), before, strict=True))
    assert held.length == int(held.cache.get_seq_length()) == 8
    # Elsewhere it is allowed, and what comes then is right: in the place of the prefix as well.
    for length in (8, end, 7 if end < 8 else 8):
        assert held.rollback(length).length == length
    again = prefill(model(), ids(seed=2), held.rollback(2))
    assert_same(again, feed("demo-sdpa", torch.cat([ids(seed=1)[:, :2], ids(seed=2)], 1), empty(), (8,)))
    assert again.rollback(4).length == 4


def test_a_prefix_of_one_token_or_none_may_be_cut_anywhere() -> None:
    for length in (0, 1):
        held = prefill(model(), ids(), empty(), mode="prefix", prefix_lengths=length)
        assert [held.rollback(n).length for n in (5, 3, 1, 0)] == [5, 3, 1, 0]


def generated(held: FixedCache, count: int) -> None:
    """Let `generate` continue from what a cache holds."""
    prompt = ids()[:, : int(held.cache.get_seq_length()) + 1]
    model().generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=count,
        do_sample=False,
        **{cache_argument(model()): held.cache},
    )


def test_what_generate_has_overwritten_after_a_rollback_is_noticed() -> None:
    begun = prefill(model(), ids()[:, :3], empty())
    later = prefill(model(), ids()[:, 3:], begun)
    begun.rollback(3)
    generated(begun, 2)
    for use in (lambda: prefill(model(), ids()[:, :1], later), lambda: later.rollback(4), lambda: later.fan_out(2)):
        with pytest.raises(
            ConfigurationError, match="of the 6 slots that this value holds, some have been overwritten"
        ):
            use()
    # The value that was rolled back to is true, and so is what is made of it.
    again = prefill(model(), ids()[:, 3:], begun)
    assert_same(again, prefill(model(), ids(), empty()))
    assert_same(again.rollback(6), again)


def test_tokens_that_generate_writes_after_a_value_do_not_change_it() -> None:
    held = prefill(model(), ids()[:, :3], empty())
    generated(held, 4)
    assert int(held.cache.get_seq_length()) > held.length
    assert_same(prefill(model(), ids()[:, 3:], held), prefill(model(), ids(), empty()))


def test_a_cache_that_was_emptied_by_others_is_noticed() -> None:
    held = prefill(model(), ids(), empty())
    held.cache.reset()
    with pytest.raises(ConfigurationError, match="of the 6 slots that this value holds, some have been overwritten"):
        prefill(model(), ids()[:, :1], held)


def test_values_that_were_made_of_the_cache_itself_know_of_one_another() -> None:
    static = StaticCache(config=model().config, max_cache_len=SLOTS)
    begun = prefill(model(), ids()[:, :3], static)
    later = prefill(model(), ids()[:, 3:], static)
    assert later.length == 6
    other = prefill(model(), ids(seed=1)[:, :5], begun)
    with pytest.raises(ConfigurationError, match="overwritten"):
        prefill(model(), ids()[:, :1], later)
    assert_same(other, prefill(model(), torch.cat([ids()[:, :3], ids(seed=1)[:, :5]], 1), empty()))
    with torch.no_grad():
        model()(ids()[:, :2], **{cache_argument(model()): static})
    assert prefill(model(), ids()[:, :1], static).length == 11


def test_caches_are_let_go() -> None:
    held = prefill(model(), ids(), empty()).fan_out(2)
    cache = weakref.ref(held.cache)
    del held
    gc.collect()
    assert cache() is None


@pytest.mark.parametrize("inside", ["made", "filled", "fanned out", "used"])
def test_a_cache_is_the_same_under_inference_mode_and_outside(inside: str) -> None:
    def only(step: str) -> torch.inference_mode:
        return torch.inference_mode(step == inside)

    with only("made"):
        held = empty()
    with only("filled"):
        held = prefill(model(), ids()[:, :3], prefill(model(), ids()[:, :5], held).rollback(2).rollback(0))
    with only("fanned out"):
        held = held.fan_out(2)
    with only("used"):
        held = prefill(model(), ids().repeat_interleave(2, 0)[:, 3:], held)
    assert_same(held, prefill(model(), ids(), empty()).fan_out(2))
    assert_same(
        prefill(model(), ids(rows=4), held), prefill(model(), ids(rows=4), prefill(model(), ids(), empty()).fan_out(2))
    )


def test_a_cache_that_was_allocated_under_inference_mode_says_where_it_can_be_used() -> None:
    static = StaticCache(config=model().config, max_cache_len=SLOTS)
    with torch.inference_mode():
        model()(ids()[:, :2], **{cache_argument(model()): static})
        held = prefill(model(), ids()[:, 2:], static)
        assert_same(held, prefill(model(), ids(), empty()))
    for use in (
        lambda: prefill(model(), ids(), static),
        lambda: prefill(model(), ids(), held),
        lambda: held.rollback(2),
    ):
        with pytest.raises(ConfigurationError, match=r"allocated under torch\.inference_mode"):
            use()
    with torch.inference_mode():
        assert prefill(model(), ids()[:, :1], held).length == 7
        unused = StaticCache(config=model().config, max_cache_len=SLOTS)
    with pytest.raises(ConfigurationError, match=r"allocated under torch\.inference_mode"):
        prefill(model(), ids(), unused)
    with torch.inference_mode():
        assert_same(prefill(model(), ids(), unused), prefill(model(), ids(), empty()))


@pytest.mark.parametrize("mode", ["causal", "prefix", "forced"])
def test_no_tokens_change_nothing(mode: Any) -> None:
    held = prefill(model(), ids()[:, :3], empty())
    later = prefill(model(), ids()[:, 3:], held)
    for nothing in (ids()[:, :0], torch.tensor([[], []])):
        assert prefill(model(), nothing, later, mode=mode) is later
        assert prefill(model(), nothing, held, mode=mode) is held
        assert int(held.cache.get_seq_length()) == 3
    assert_same(prefill(model(), ids()[:, :1], later), prefill(model(), ids()[:, :1], prefill(model(), ids(), empty())))
    assert prefill(model(), ids()[:, :0], StaticCache(config=model().config, max_cache_len=SLOTS)).length == 0


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_other_dtypes(attention: str, dtype: torch.dtype) -> None:
    other = AutoModelForCausalLM.from_pretrained(model_dir(), attn_implementation=attention, dtype=dtype).eval()
    held = fixed_cache(other, 2, SLOTS)
    for chunk in ids().split(4, dim=1):
        held = prefill(other, chunk, held)
    with torch.no_grad():
        whole = other(ids(), use_cache=False).logits[:, -1]
    assert held.logits.dtype == dtype
    # transformers' eager attention computes its softmax in float32, whatever the dtype of the model.
    near = 0.1 if dtype == torch.bfloat16 else 1e-4 if attention == "eager" else 1e-12
    torch.testing.assert_close(held.logits, whole, atol=near, rtol=near)
