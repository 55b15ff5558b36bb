"""A kind that breaks the protocol, as none of logitkit's does, ends the requests that ask for it; the server and others go on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit_adapters.vllm.v1 import V1Rows
from logitkit_adapters.vllm.v2 import V2Slots
from tests.adapters_vllm.slots import Runner
from tests.adapters_vllm.test_batch_update import update
from tests.adapters_vllm.test_slots import configurations
from tests.batches import COLUMNS
from tests.pipeline.test_broken_kinds import FAULTS, breaks
from tests.registry import EOS, ids, vocabulary

OUTPUTS = [[5], ids(b"1")]


def params(config: Any) -> Any:
    return SimpleNamespace(extra_args={"logitkit": config}, seed=None, temperature=0.0, max_tokens=20)


ASKED = [params({"frequency_penalty": 1.0}), params({"regex": "[0-9]{2}"})]


def check(found: torch.Tensor) -> None:
    assert (found[0] > -torch.inf).nonzero().flatten().tolist() == [EOS]
    regex = lk.Regex("[0-9]{2}", vocabulary())
    context = lk.Context.of([[3]], COLUMNS)
    state = regex.advance(regex.init_state(context), torch.tensor(OUTPUTS[1]))
    assert torch.equal(found[1], regex.process_logits(state, torch.zeros(1, COLUMNS), context)[1][0])


@pytest.mark.parametrize("method", FAULTS)
def test_in_the_rows_of_v1(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch, method)
    rows = V1Rows(configurations(), torch.device("cpu"), 64)
    outputs: list[list[int]] = [[], []]
    rows.update(update(2, added=[(i, ASKED[i], [3], outputs[i]) for i in range(2)]))
    rows.process(torch.zeros(2, COLUMNS))
    for output, said in zip(outputs, OUTPUTS, strict=True):
        output.extend(said)
    check(rows.process(torch.zeros(2, COLUMNS)))
    check(rows.process(torch.zeros(2, COLUMNS)))


@pytest.mark.parametrize("method", FAULTS)
def test_in_the_slots_of_v2(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch, method)
    runner = Runner()
    slots = V2Slots(configurations(), runner.states, 0)
    for slot in range(2):
        runner.enter(slot, [3], [])
        assert slots.add(slot, ASKED[slot])
    runner.write()
    slots.begin_step()
    slots.process(torch.zeros(2, COLUMNS), runner.context([(0, 0, 0, 3), (1, 0, 0, 3)]))
    for slot in range(2):
        runner.tokens.gpu[slot, 1:2] = torch.tensor(OUTPUTS[slot], dtype=torch.int32)
    slots.begin_step()
    check(slots.process(torch.zeros(2, COLUMNS), runner.context([(i, 0, 1, OUTPUTS[i][0]) for i in range(2)])))
