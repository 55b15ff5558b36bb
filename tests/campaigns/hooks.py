"""Random schedules of calls: whatever rows an engine shows next, hooks give what a replay from the prompt gives, bit for bit."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from hypothesis import seed
from hypothesis import strategies as st
from hypothesis.stateful import initialize, run_state_machine_as_test
from hypothesis.strategies import DrawFn
from torch import Tensor

import logitkit as lk
from logitkit.tracking import Request, RequestTracker, Room, Tracker
from tests.campaigns.campaign import Campaign, drawn, settings_of
from tests.core.test_history_random import PAD, Engine, Run, leading_pads
from tests.pipeline import test_batch as company

EOS, COLUMNS = 3, 1400
# The few ids that engines of the state machine write, then ids that it shows once only; each of these is a letter too.
VOCABULARY = lk.Vocabulary([b"a", b"b", b"ab", None, *[b"c"] * (COLUMNS - 4)], eos_ids=[EOS])
BRACKETS = lk.Vocabulary([b"[", b"]", b",", None, *[None] * (COLUMNS - 4)], eos_ids=[EOS])
LOGITS = torch.randn(64, COLUMNS, generator=torch.Generator().manual_seed(0)) * 4


@cache
def processors() -> dict[str, lk.Processor[Any]]:
    v = VOCABULARY
    return {
        "regex": lk.Regex("(a|bc*|ab)*c?", v),
        "schema": lk.JsonSchema({"type": "array", "items": {"$ref": "#"}}, BRACKETS),
        "banned": lk.BannedStrings(["aab", "bb", "cc"], v),
        "stops": lk.StopStrings(["abab", "bca"], v, include_prompt=True),
        "then": lk.then(None, lk.Regex("[abc]{1,9}", v), "ab"),
        "budget": lk.ThinkingBudget(5, "ba", v),
        "gentle budget": lk.ThinkingBudget(
            3, ["ba", "cc"], v, message="ac", grace=3, grace_at=["c"], min_tokens=2, pause=[("bb", "ca")]
        ),
        "loops": lk.LoopStop(v, count=2, min_period=2, then="ba"),
        "penalties": lk.chain(lk.RepetitionPenalty(1.3), lk.FrequencyPenalty(0.5, window=4), lk.Dry(0.8, vocabulary=v)),
        "n-grams": lk.NoRepeatNGram(3),
        "least": lk.chain(lk.MinNewTokens(4, [EOS]), lk.Regex("[ab]*", v)),
        "forced": lk.chain(lk.ForcedTokens([0, 1, 0]), lk.BannedStrings(["bb"], v)),
        "context": lk.Stateless(
            lambda logits, context: logits * (1 + context.lengths - context.prompt_lengths)[:, None]
        ),
    }


def replayed(processor: lk.Processor[Any], prompt: Sequence[int], output: Sequence[int], logits: Tensor) -> Tensor:
    """Return what a processor makes of the logits [V] of a row, replayed token by token."""
    context = lk.Context.of([list(prompt)], len(logits))
    state = processor.init_state(context)
    for token in output:
        state = processor.advance(state, torch.tensor([token]))
    context = context.at(context.lengths + len(output))
    return processor.process_logits(state, logits[None].clone(), context)[1][0]


PROMPTS = st.lists(st.lists(st.integers(0, 2), max_size=4), min_size=1, max_size=4)


class HookEngine(Engine):
    """The engines of `tests/core/test_history_random.py`, in front of the hook of transformers."""

    tried: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.hook: Any = None

    def begin_hook(self, name: str) -> None:
        from logitkit_adapters.transformers import logits_processor

        self.processor = processors()[name]
        self.hook = logits_processor(self.processor, pad_id=PAD)
        # More rows than a generation has are alive at once; the hook would forget the oldest.
        self.hook.tracker = Tracker(self.processor, skip=leading_pads, capacity=10_000)

    @initialize(name=st.sampled_from(sorted(processors())), prompts=PROMPTS)
    def first(self, name: str, prompts: list[list[int]]) -> None:
        self.begin_hook(name)
        self.begin(prompts)

    def show(self, run: Run) -> None:
        super().show(run)
        self.calls += 1
        logits = LOGITS[[(self.calls + row) % 64 for row in range(len(run))]]
        ids = self.given(torch.tensor([row.ids for row in run]).reshape(len(run), -1))
        made = self.hook(ids, logits)
        for row, given_logits, found in zip(run, logits, made, strict=True):
            wanted = replayed(self.processor, row.prompt, row.output, given_logits)
            assert torch.equal(found, wanted), f"call {self.calls} differs from a replay of {row}"
        self.tried["calls of the transformers hook, with beams, drops, rewinds, drafts"] += 1
        self.tried["rows compared with a replay"] += len(run)

    def new_generation(self) -> None:
        self.hook.new_generation()
        super().new_generation()


@dataclass(frozen=True)
class Schedule:
    """Calls for one sequence.

    Args:
        engine: Whose hook is called.
        processor: Its name.
        prompt: Token ids.
        moves: The events: tokens that are committed, tokens taken back, and a draft that is shown and forgotten.
    """

    engine: str
    processor: str
    prompt: tuple[int, ...]
    moves: tuple[tuple[tuple[int, ...], int, tuple[int, ...]], ...]


@st.composite
def schedules(draw: DrawFn) -> Schedule:
    few = st.lists(st.integers(0, 4), max_size=4).map(tuple)
    move = st.tuples(few, st.sampled_from([0, 0, 0, 1, 3]), st.just(()) | few)
    return Schedule(
        draw(st.sampled_from(sorted(HOOKS))),
        draw(st.sampled_from(sorted(processors()))),
        draw(st.lists(st.integers(0, 4), min_size=1, max_size=5).map(tuple)),
        draw(st.lists(move, min_size=1, max_size=8).map(tuple)),
    )


def transformers_hook(processor: lk.Processor[Any]) -> Callable[[list[int], Tensor], Tensor]:
    from logitkit_adapters.transformers import logits_processor

    hook = logits_processor(processor)
    return lambda ids, logits: hook(torch.tensor([ids]), logits[None].clone())[0]


def mlx_hook(processor: lk.Processor[Any]) -> Callable[[list[int], Tensor], Tensor]:
    import mlx.core as mx

    from logitkit_adapters.mlx_lm import logits_processor

    hook = logits_processor(processor)
    return lambda ids, logits: torch.from_numpy(np.array(hook(mx.array(ids), mx.array(logits.numpy())[None])))[0]


def llama_hook(processor: lk.Processor[Any]) -> Callable[[list[int], Tensor], Tensor]:
    from logitkit_adapters.llama_cpp import LlamaCppLogitsProcessor, logits_processor

    call: object = logits_processor(processor)[0]
    assert isinstance(call, LlamaCppLogitsProcessor)
    generation = call.for_generation(Room(4096, None), [EOS])
    return lambda ids, logits: torch.from_numpy(generation(np.array(ids, np.intc), logits.clone().numpy()))


HOOKS = {"transformers": transformers_hook, "mlx-lm": mlx_hook, "llama.cpp": llama_hook}


def check_schedule(case: Schedule, tried: Counter[str]) -> None:
    processor, output, calls = processors()[case.processor], list[int](), 0
    hook = HOOKS[case.engine](processor)

    def show(*more: int) -> None:
        nonlocal calls
        calls += 1
        logits = LOGITS[calls % 64]
        found = hook([*case.prompt, *output, *more], logits)
        assert torch.equal(found, replayed(processor, case.prompt, [*output, *more], logits)), f"call {calls} differs"
        tried[f"calls of the {case.engine} hook for one sequence"] += 1

    show()
    for committed, back, draft in case.moves:
        for token in committed:
            output.append(token)
            show()
        for n in range(len(draft)):
            show(*draft[: n + 1])
        del output[max(len(output) - back, 0) :]
        show()


Step = dict[int, tuple[int, ...]]
STEP = st.dictionaries(st.integers(0, 4), st.lists(st.integers(0, 4), max_size=6).map(tuple), min_size=1)
REQUESTS = st.tuples(st.sampled_from(sorted(processors())), st.lists(STEP, min_size=1, max_size=8))


def check_requests(case: tuple[str, list[Step]], tried: Counter[str]) -> None:
    """Requests that come, go, are preempted, resumed and rewound, as an engine with a scheduler has them."""
    name, steps = case
    processor = processors()[name]
    states = RequestTracker(processor)
    for at, step in enumerate(steps):
        requests = [Request(key, [key, 1, 0], output) for key, output in step.items()]
        state, context = states.resolve(requests, COLUMNS, "cpu")
        logits = LOGITS[[(at + row) % 64 for row in range(len(requests))]]
        made = processor.process_logits(state, logits.clone(), context)[1]
        for request, given_logits, found in zip(requests, logits, made, strict=True):
            wanted = replayed(processor, request.prompt, request.output, given_logits)
            assert torch.equal(found, wanted), f"step {at} differs from a replay of {request}"
        tried["steps of a scheduler with preemption"] += 1
        tried["rows compared with a replay"] += len(requests)


def check_company(case: tuple[Any, torch.dtype, int, int], tried: Counter[str]) -> None:
    """Requests of different configurations that enter, leave and change places in one batch."""
    asked, dtype, logits_seed, order = case
    company.check(asked, dtype, logits_seed, random.Random(order))
    tried["batches of several configurations, with rows that enter, leave and move"] += 1


COMPANY = st.tuples(
    st.lists(company.requests(), min_size=1, max_size=6),
    st.sampled_from(company.DTYPES),
    st.integers(0, 2**32),
    st.integers(0, 2**32),
)
SINGLE, REQUESTED, BATCHED = (
    drawn(schedules(), 30, check_schedule),
    drawn(REQUESTS, 30, check_requests),
    drawn(COMPANY, 10, check_company),
)


def one_round(number: int, tried: Counter[str]) -> None:
    for part in (REQUESTED, SINGLE, BATCHED):
        part(number, tried)
    HookEngine.tried = Counter()
    run_state_machine_as_test(seed(number)(HookEngine), settings=settings_of(10))
    tried.update(HookEngine.tried)


CAMPAIGN = Campaign("hooks", "schedules of calls to hooks, with a replay from the prompt", one_round)
