"""Arguments that `prefill` refuses, and learned positions, which it accepts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, Qwen3Config

from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit_adapters.transformers import fixed_cache, prefill
from tests.sessions.prefill_models import SLOTS, empty, ids, model


def test_what_cannot_be_fed_is_refused() -> None:
    held = empty()
    cases: list[tuple[tuple[Any, Any], dict[str, Any], str]] = [
        ((ids(rows=3), held), {}, "input_ids has 3 rows, but the cache has 2"),
        ((ids()[0], held), {}, r"give ids \[B, T\]"),
        ((ids().float(), held), {}, r"give ids \[B, T\]"),
        ((ids(), 3), {}, "cache is of type int"),
        ((ids(), held), {"mode": "other"}, "mode is 'other'; allowed are 'causal', 'prefix' and 'forced'"),
        ((ids(), held), {"mode": "prefix", "prefix_lengths": 7}, "prefix_lengths is 7; allowed are 0 to 6"),
        ((ids(), held), {"prefix_lengths": 3}, "prefix_lengths is given, but mode is 'causal'"),
        ((ids(), held), {"mode": "prefix", "prefix_lengths": 1.5}, "give one integer"),
        ((ids(), held), {"mode": "prefix", "chunk_length": 3}, "a prefix must be fed at once"),
        ((ids(), held), {"chunk_length": 0}, "chunk_length is 0"),
        ((ids(), held), {"attention_mask": torch.ones(2, 5)}, r"attention_mask is \[2, 5\]; allowed are \[2, 6\]"),
        ((ids(), held), {"attention_mask": torch.full((2, 6), 2)}, "values other than 0 and 1"),
        ((ids(), held), {"mask": torch.ones(5, 6)}, r"mask is \[5, 6\]; allowed are \[6, 6\] and \[6, 12\]"),
        ((ids(), held), {"mask": torch.ones(3, 6, 6)}, r"mask is \[3, 6, 6\]"),
        ((ids(), held), {"mask": torch.zeros(6, 6) - 1e9}, "values other than 0 and 1"),
        (
            (ids(), held),
            {"mask": torch.ones(2, 7, 6, 6)},
            r"mask is \[2, 7, 6, 6\]; .*, the numbers of rows and of heads",
        ),
        ((ids(), held), {"mask": torch.ones(6, 6).tolist()}, r"mask is of type list; give a tensor \[6, 6\]"),
        ((ids(), held), {"attention_mask": [[1] * 6] * 2}, r"attention_mask is of type list; give a tensor \[2, 6\]"),
        ((ids(), held), {"mode": "prefix", "prefix_lengths": "two"}, "prefix_lengths is 'two'; give one integer"),
        ((ids(), held), {"mode": "prefix", "prefix_lengths": [[1], [2, 3]]}, "give one integer"),
        ((ids().tolist(), held), {}, r"input_ids is of type list; give a tensor \[B, T\]"),
        ((ids() - 5000, held), {}, "input_ids has ids from -.* allowed are 0 to 1279"),
        ((ids() + 5000, held), {}, "input_ids has ids from .* allowed are 0 to 1279"),
    ]
    for arguments, options, message in cases:
        with pytest.raises((ConfigurationError, BatchMismatch), match=message):
            prefill(model(), *arguments, **options)
    assert held.length == 0


def test_models_that_forget_are_refused() -> None:
    config = Qwen3Config(
        vocab_size=97,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        use_sliding_window=True,
        sliding_window=4,
        max_window_layers=1,
    )
    sliding = AutoModelForCausalLM.from_config(config)
    with pytest.raises(ConfigurationError, match="layers of StaticSlidingWindowLayer"):
        fixed_cache(sliding, 1, 12)


def test_learned_absolute_positions_work_too() -> None:
    torch.manual_seed(0)
    other = AutoModelForCausalLM.from_config(
        GPT2Config(vocab_size=97, n_positions=32, n_embd=16, n_layer=2, n_head=2)
    ).eval()
    held = fixed_cache(other, 2, SLOTS)
    mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6])
    for columns in (slice(0, 2), slice(2, 6)):
        held = prefill(other, ids()[:, columns], held, attention_mask=mask[:, columns])
    with torch.no_grad():
        alone = other(ids()[:1, 2:]).logits[0, -1]
    torch.testing.assert_close(held.logits[0], alone, atol=1e-5, rtol=1e-5)
