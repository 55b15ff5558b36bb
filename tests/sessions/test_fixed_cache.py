"""What a fixed-shape cache holds is a value: overflows, rollbacks, samples and errors leave it as it was."""

from __future__ import annotations

import pytest
import torch

from logitkit.errors import ConfigurationError
from logitkit_adapters.transformers import prefill
from tests.sessions.prefill_models import KINDS, SLOTS, assert_same, empty, expected, feed, ids, layers, model, tensors


def test_an_overflow_raises_and_changes_nothing() -> None:
    held = prefill(model(), torch.cat([ids(), ids(seed=1)[:, :3]], 1), empty())
    before = tensors(held)
    for cache_like in (held, held.cache):
        with pytest.raises(ConfigurationError, match="9 slots are held and 6 more are to come, but the cache has 12"):
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
