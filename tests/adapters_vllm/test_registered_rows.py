"""Registered processors in the rows of both model runners, without an engine."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters.admission.asked import Asked
from logitkit_adapters.admission.configurations import Configurations
from logitkit_adapters.vllm.configurations import check_configuration
from logitkit_adapters.vllm.v1 import V1Rows
from logitkit_adapters.vllm.v2 import V2Slots
from tests.adapters_vllm.slots import Runner
from tests.adapters_vllm.test_batch_update import update
from tests.batches import COLUMNS
from tests.own import EveryNth, OwnTopA
from tests.registry import EOS, vocabulary

CONFIGS = [
    {"every_nth": {"n": 2, "token": 7}},
    {"every_nth": {"n": 3, "token": 8}},
    {"every_nth": {"n": 2, "token": 7}, "own_top_a": 0.9},
]


@pytest.fixture(autouse=True)
def registered() -> None:
    lk.register("every_nth", EveryNth)
    lk.register("own_top_a", OwnTopA)


def params(config: Any) -> Any:
    return SimpleNamespace(extra_args={"logitkit": config}, seed=None, temperature=0.0, max_tokens=20)


def wanted(config: Any, prompt: list[int], said: list[int], logits: torch.Tensor) -> torch.Tensor:
    processor = lk.from_config(config, vocabulary())
    context = lk.Context.of([prompt], COLUMNS)
    state = processor.init_state(context)
    if said:
        state = processor.advance(state, torch.tensor([said]))
    return processor.process_logits(state, logits[None].clone(), context.at(context.lengths + len(said)))[1][0]


def test_drafts_have_the_state_of_their_own_text() -> None:
    """The second request has no draft, the first two: its rows are three."""
    runner = Runner()
    slots = V2Slots(Configurations(vocabulary()), runner.states, 3)
    prompts = {5: [3, 4], 2: [9], 6: [1, 2, 3]}
    for (slot, prompt), config in zip(prompts.items(), CONFIGS, strict=True):
        runner.enter(slot, prompt, [])
        assert slots.add(slot, params(config))
    runner.write()
    slots.begin_step()
    drafts = {5: [10, 11], 2: [], 6: [12]}
    rows, texts = [], []
    for slot, said in drafts.items():
        prompt = prompts[slot]
        fed = [prompt[-1], *said]
        for place, token in enumerate(fed):
            rows.append((slot, place, len(prompt) - 1 + place, token))
            texts.append((slot, said[:place]))
    logits = torch.randn(len(rows), COLUMNS, generator=torch.Generator().manual_seed(1))
    found = slots.process(logits.clone(), runner.context(rows))
    configs = dict(zip(prompts, CONFIGS, strict=True))
    for row, (slot, said) in enumerate(texts):
        assert torch.equal(found[row], wanted(configs[slot], prompts[slot], said, logits[row])), (slot, said)
    # A step in which the first request waits, as vLLM has them.
    some = [i for i, row in enumerate(rows) if row[0] != 5]
    found = slots.process(logits[some].clone(), runner.context([rows[i] for i in some]))
    for place, i in enumerate(some):
        slot, said = texts[i]
        assert torch.equal(found[place], wanted(configs[slot], prompts[slot], said, logits[i])), (slot, said)


def test_a_prompt_of_embeddings_ends_the_request() -> None:
    """Its tokens are not known, and an empty prompt would be a lie."""
    rows = V1Rows(Configurations(vocabulary()), torch.device("cpu"), 64)
    given: list[Any] = [params(CONFIGS[0]), params({"top_k": 5})]
    rows.update(update(2, added=[(i, given[i], None, []) for i in range(2)]))
    found = rows.process(torch.randn(2, COLUMNS))
    assert (found[0] > -torch.inf).nonzero().flatten().tolist() == [EOS]
    assert (found[1] > -torch.inf).sum() == 5


def asked(config: Any) -> Asked:
    text = json.dumps(config)
    return Asked(text, text, None)


def test_a_device_that_is_not_supported_is_refused() -> None:
    lk.register("on_cuda", OwnTopA, devices=["cuda"])
    with pytest.raises(ConfigurationError, match="'on_cuda' runs on cuda, but this engine runs on cpu; leave it out"):
        Configurations(vocabulary(), device="cpu").check(asked({"on_cuda": 0.5}))
    Configurations(vocabulary(), device="cuda").check(asked({"on_cuda": 0.5}))
    # And is not tried there.
    lk.register("broken", lambda: lk.Stateless(lambda logits, context: logits[:1]), role=lk.Role.BIAS, devices=["cuda"])
    Configurations(vocabulary(), device="cpu").check_registered()


def test_a_constraint_is_refused_beside_a_grammar_of_vllm() -> None:
    configurations = Configurations(vocabulary())
    check_configuration(configurations, asked({"own_top_a": 0.5}), beside_grammar=True)
    with pytest.raises(ConfigurationError, match="Give one of them"):
        check_configuration(configurations, asked(CONFIGS[0]), beside_grammar=True)
