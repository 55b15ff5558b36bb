"""States of requests that come, go, pause, fork and are rewound are those of a replay from the prompt."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import logitkit as lk
from logitkit import Context
from logitkit.tracking import Request, RequestTracker

VOCABULARY = lk.Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
PROCESSORS: list[Any] = [
    lk.Regex("(ab|b)*a?", VOCABULARY),
    lk.RepetitionPenalty(2.0, window=3),
    lk.chain(lk.RepetitionPenalty(1.5), lk.Regex("a*b*", VOCABULARY)),
    lk.Stateless(lambda logits, context: logits + context.lengths[:, None]),
]
TOKENS = st.lists(st.integers(0, 3), max_size=5)
REQUESTS = st.dictionaries(st.integers(0, 3), st.tuples(st.integers(0, 1), TOKENS), min_size=1)


def replayed(processor: Any, request: Request) -> tuple[torch.Tensor, int]:
    context = Context.of([request.prompt], VOCABULARY.size)
    state = processor.init_state(context)
    for token in request.output:
        state = processor.advance(state, torch.tensor([token]))
    length = len(request.prompt) + len(request.output)
    context = Context(
        prompt=context.prompt,
        prompt_lengths=context.prompt_lengths,
        lengths=torch.tensor([length]),
        vocabulary_size=VOCABULARY.size,
        device=context.device,
    )
    logits = torch.arange(1.0, 1 + VOCABULARY.size)[None]
    return processor.process_logits(state, logits, context)[1][0], length


@pytest.mark.parametrize("processor", PROCESSORS, ids=lambda p: type(p).__name__)
@given(steps=st.lists(REQUESTS, min_size=1, max_size=5))
def test_every_step_gives_what_a_replay_gives(processor: Any, steps: list[dict[int, tuple[int, list[int]]]]) -> None:
    states, prompts = RequestTracker(processor), ([0], [1, 2, 0])
    for step in steps:
        requests = [Request(key, prompts[which], output) for key, (which, output) in step.items()]
        state, context = states.resolve(requests, VOCABULARY.size, "cpu")
        logits = torch.arange(1.0, 1 + VOCABULARY.size).repeat(len(requests), 1)
        processed = processor.process_logits(state, logits, context)[1]
        expected = [replayed(processor, request) for request in requests]
        assert torch.equal(processed, torch.stack([logits for logits, _ in expected]))
        assert context.lengths.tolist() == [length for _, length in expected]
        assert context.prompt_lengths.tolist() == [len(request.prompt) for request in requests]
        for request, row in zip(requests, context.prompt.tolist(), strict=True):
            assert row[: len(request.prompt)] == request.prompt


def test_a_step_that_only_goes_on_advances_by_the_new_tokens() -> None:
    seen: list[torch.Tensor] = []

    class Counting(lk.Regex):
        def advance(self, state: Any, tokens: torch.Tensor) -> Any:
            seen.append(tokens)
            return super().advance(state, tokens)

    states = RequestTracker(Counting("a*", VOCABULARY))
    outputs: dict[str, list[int]] = {"x": [], "y": [0]}
    for _ in range(4):
        states.resolve([Request(key, [1], output) for key, output in outputs.items()], 4, "cpu")
        for output in outputs.values():
            output.append(0)  # the engine's own list grows
    assert [tokens.tolist() for tokens in seen] == [[-1, 0], [0, 0], [0, 0], [0, 0]]


def test_a_failed_step_changes_nothing() -> None:
    failing: list[bool] = []

    class Failing(lk.Regex):
        def advance(self, state: Any, tokens: torch.Tensor) -> Any:
            if failing:
                raise OSError
            return super().advance(state, tokens)

    processor = Failing("ab", VOCABULARY)
    states = RequestTracker(processor)
    states.resolve([Request(0, [1], [])], 4, "cpu")
    failing.append(True)
    with pytest.raises(OSError):  # noqa: PT011 - it has no message
        states.resolve([Request(0, [1], [0])], 4, "cpu")
    failing.clear()
    state, _ = states.resolve([Request(0, [1], [0, 1])], 4, "cpu")
    assert processor.process_logits(state, torch.zeros(1, 4), Context.of([[1]], 4))[1].isfinite().tolist() == [
        [False, False, False, True]
    ]


def test_logits_of_another_width_start_over() -> None:
    states = RequestTracker(PROCESSORS[0])
    request = Request(0, [1], [0])
    narrow, _ = states.resolve([request], 4, "cpu")
    wide, context = states.resolve([request], 6, "cpu")
    assert context.vocabulary_size == 6
    assert torch.equal(narrow.at.state, wide.at.state)


def test_random_numbers_are_the_requests_own() -> None:
    """Requests of one prompt differ, and one that was paused goes on as if it had not been, in whatever company."""
    xtc = lk.Xtc(0.5, 0.1, seed=1)

    def happens(states: RequestTracker[Any], key: str, length: int, *others: str) -> bool:
        requests = [Request(k, [1], [0] * length) for k in (*others, key)]
        state, context = states.resolve(requests, 4, "cpu")
        return bool(xtc.process_logits(state, torch.zeros(len(requests), 4), context)[1][-1].isinf().any())

    alone = {key: [happens(RequestTracker(xtc), key, n) for n in range(40)] for key in ("x", "y")}
    assert alone["x"] != alone["y"]
    states = RequestTracker(xtc)
    for n in range(40):
        others = ("y", "z")[: n % 3]
        key = "x" if n % 2 else "w"
        assert happens(states, key, n, *others) == happens(RequestTracker(xtc), key, n)
