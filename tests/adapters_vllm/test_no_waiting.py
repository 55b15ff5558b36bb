"""On a device, the plugin's part of a step of V2 asks for no value. It is torch's `meta` here, whose tensors have none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import logitkit as lk
from logitkit.batching import ORDER, steps_of
from logitkit_adapters.admission.configurations import Configurations
from logitkit_adapters.vllm.v2 import V2Slots
from tests.adapters_vllm.slots import Runner
from tests.batches import COLUMNS
from tests.registry import TOKENS, vocabulary

DEVICE = "meta"


class Waiting(Exception):
    """A tensor would have to come from the device, or go there while the host waits."""


class NoWaiting(TorchDispatchMode):
    """Refuses what moves tensors between host and device; values and shapes that depend on them are not there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [*args, *(kwargs or {}).values()]
        result = func(*args, **(kwargs or {}))
        places = {t.device.type for t in _tensors([*given, result]) if t.dim() or t.device.type != "cpu"}
        if len(places) > 1:
            raise Waiting(f"{func} has tensors on {sorted(places)}")
        return result


class NoUploading(TorchFunctionMode):
    """Refuses tensors that are made of what the host has: each is a copy to the device, and the host waits for it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.tensor, torch.as_tensor, torch.asarray, torch.from_numpy):
            raise Waiting(f"{func.__name__} makes a tensor of {args}")
        return func(*args, **(kwargs or {}))


def _tensors(found: Any) -> Iterator[Tensor]:
    if isinstance(found, Tensor):
        yield found
    elif isinstance(found, list | tuple):
        for one in found:
            yield from _tensors(one)


CONFIGURATIONS: tuple[dict[str, Any], ...] = (
    {"json_schema": {"type": "array", "items": {"$ref": "#"}}, "top_k": 5},
    {"regex": "[0-9a-z]*", "repetition_penalty": 1.3, "logit_bias": {"5": 2.0}, "temperature": 0.7, "top_k": 9},
    {"choice": ["a", "ab"], "frequency_penalty": 0.3, "presence_penalty": 0.2, "top_p": 0.9, "no_repeat_ngram": 2},
    {"dry": 0.9, "thinking_budget": {"max_tokens": 3, "end": "-0"}, "min_p": 0.1, "typical_p": 0.9},
    {
        "stop_strings": ["ab", "1"],
        "loop_stop": {"then": "-0"},
        "ban_tokens": [7],
        "allow_tokens": [3, 4, 5],
        "xtc": 0.5,
        "top_n_sigma": 1.0,
        "top_a": 0.2,
    },
    {
        "banned_strings": ["cat"],
        "min_new_tokens": 3,
        "forced_eos": 9,
        "forced_tokens": [5, 6],
        "repetition_penalty": {"penalty": 2, "window": 4},
    },
    {
        "dynamic_temperature": {"low": 0.5, "high": 1.5},
        "epsilon_cutoff": 0.01,
        "eta_cutoff": 0.01,
        "p_less": {},
        "quadratic_smoothing": 0.3,
        "tail_free": 0.9,
        "top_h": 0.4,
    },
    {
        "cite_from_prompt": {"bonus": 1.0, "eos_ids": [1]},
        "encoder_no_repeat_ngram": 2,
        "encoder_repetition_penalty": 1.2,
        "length_control": {"boost": 0.5, "eos_ids": [1]},
        "length_decay": {"start": 2, "factor": 1.2, "eos_ids": [1]},
        "min_length": {"n": 4, "eos_ids": [1]},
        "sequence_bias": [[[3, 4], 2.0], [[5], -1.0]],
        "suppress_at_begin": [3],
    },
    {"kgw_watermark": {"key": 5}},
    {"synthid_watermark": {"keys": [5, 6]}},
    {"gumbel_watermark": {"key": 5}},
    # Palindromes are not deterministic, so that a row has several configurations.
    {"grammar": 'root ::= "a" root "a" | "b" root "b" | ""'},
)

# One more than there are requests.
SLOTS = len(CONFIGURATIONS) + 1


@pytest.fixture
def own() -> lk.Vocabulary:
    # Not the one that all tests share, whose tables on the device would outlive this one's.
    return lk.Vocabulary([*TOKENS, b"~~"], eos_ids=vocabulary().eos_ids, size=COLUMNS, pad_id=vocabulary().pad_id)


def step(own: lk.Vocabulary, drafts: int, fault: Callable[[Tensor], object] | None = None) -> Tensor:
    """Take a step of many requests, in which the plugin does something of itself that it may not."""
    runner = Runner(DEVICE, slots=SLOTS)
    slots = V2Slots(Configurations(own), runner.states, drafts)
    for slot in range(SLOTS - 1):
        runner.enter(slot, [4, 5, 6], [7] * (slot % 3))
        config = CONFIGURATIONS[slot % len(CONFIGURATIONS)]
        assert slots.add(slot, SimpleNamespace(extra_args={"logitkit": config}, seed=None, max_tokens=20))
    runner.write()
    slots.begin_step()
    rows = [(slot, place, 2 + slot % 3 + place, 5) for slot in range(SLOTS) for place in range(drafts + 1)]
    context = runner.context(rows)
    logits = torch.zeros(len(rows), COLUMNS, device=DEVICE)
    with NoWaiting(), NoUploading():
        for _ in range(2):
            found = slots.process(logits, context)
        if fault is not None:
            fault(found)
    return found


@pytest.mark.parametrize("drafts", [0, 3])
def test_a_step_asks_for_no_value(own: lk.Vocabulary, drafts: int) -> None:
    assert step(own, drafts).device.type == DEVICE


def test_every_step_is_taken() -> None:
    taken = {kind for config in CONFIGURATIONS for kind in steps_of(lk.from_config(config, vocabulary()))}
    # Rows that remember items wait for the host, as their pages say, and requests have no second pass.
    assert taken == {kind for kind in ORDER if not getattr(kind, "remembers", False) and kind is not lk.Guidance}


FAULTS: dict[str, Callable[[Tensor], object]] = {
    "item": lambda logits: logits[0, 0].item(),
    "tolist": lambda logits: logits.tolist(),
    "truth": lambda logits: bool((logits > 0).any()),
    "cpu": lambda logits: logits.cpu(),
    "numpy": lambda logits: logits.numpy(),
    "nonzero": lambda logits: logits.nonzero(),
    "mask": lambda logits: logits[logits > 0],
    "unique": lambda logits: logits.unique(),
    "repeats": lambda logits: logits.repeat_interleave(logits[:, 0].long(), 0),
    "upload": lambda logits: torch.tensor([1, 2], device=logits.device),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_waits_is_noticed(own: lk.Vocabulary, fault: str) -> None:
    with pytest.raises((Waiting, RuntimeError, TypeError)):
        step(own, 0, FAULTS[fault])
