"""Random conversations: what sessions write with their caches is what each engine's own `generate` writes without one."""

from __future__ import annotations

import atexit
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import transformers
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import logitkit as lk
from logitkit import SequenceState
from logitkit.errors import LogitkitError
from logitkit.sessions.sequence_parts import CacheDropped
from logitkit_adapters.sessions import Session, continuous
from tests.adapters.demo import vocabulary
from tests.campaigns.campaign import Campaign, drawn
from tests.campaigns.hooks import replayed
from tests.sessions import alone
from tests.sessions.continuation import PROMPTS, fresh_logits
from tests.sessions.engines import ENGINES, loaded

# Float32 logits of one text differ by rounding, which depends on what is cached: of two tokens nearer than this, either is right.
NEAR = 2e-3
MOST = 96
APPENDED = (" and", "\n", "é", " 12", ".", " The price")


@cache
def processors() -> dict[str, Any]:
    return {
        "none": None,
        "penalty": lk.RepetitionPenalty(1.3),
        # A continued state has penalties tell what was written before from its prompt, which an engine alone cannot.
        "n-grams": lk.chain(lk.NoRepeatNGram(2), lk.FrequencyPenalty(0.4, window=8, include_prompt=True)),
        "words": lk.chain(lk.RepetitionPenalty(1.2), lk.Regex("[a-m ]{3,40}", vocabulary()), lk.TopK(5)),
        "stops": lk.StopStrings([" a", "e", "1"], vocabulary()),
        "loops": lk.LoopStop(vocabulary(), count=2),
    }


@dataclass(frozen=True)
class Conversation:
    """Calls of one session.

    Args:
        engine: One of the three.
        processor: A name.
        kept: `max_cached_tokens`.
        calls: For each call: the earlier text to continue, how many of its tokens to keep, the text to add, how many tokens it
            asks for, and the seed of what is drawn, or None.
    """

    engine: str
    processor: str
    kept: int
    calls: tuple[tuple[int, int, tuple[int, ...], int, int | None], ...]


tokens = st.lists(st.integers(5, 1200), min_size=1, max_size=6).map(tuple)
kept = st.sampled_from((MOST, MOST, 20, 8, 3))
call = st.tuples(st.integers(0, 7), kept, tokens, st.integers(1, 6), st.none() | st.integers(0, 3))


@st.composite
def conversations(draw: DrawFn) -> Conversation:
    return Conversation(
        draw(st.sampled_from(ENGINES)),
        draw(st.sampled_from(sorted(processors()))),
        draw(st.sampled_from((4096, 4096, 40, 0))),
        tuple(draw(st.lists(call, min_size=1, max_size=8))),
    )


def check_conversation(case: Conversation, tried: Counter[str]) -> None:
    processor, told = processors()[case.processor], [[280, 661, 509]]
    with Session(*loaded(case.engine), processor, max_length=256, max_cached_tokens=case.kept) as session:
        for which, kept, added, count, seed in case.calls:
            prompt = [*told[which % len(told)][:kept], *added]
            (row,) = session.generate(prompt, max_new_tokens=count, seed=seed).rows
            how = processor
            if seed is not None:
                how = lk.chain(*([] if processor is None else [processor]), alone.drawn(seed))
            wanted = alone.alone(case.engine, prompt, count, how)
            if row.token_ids != wanted:
                check_tie(prompt, row.token_ids, wanted, processor, drawn_too=seed is not None)
                tried["calls of sessions that a near tie decided"] += 1
            tried[f"calls of {case.engine} sessions"] += 1
            tried["positions taken from the cache"] += row.reuse.length
            told.append([*prompt, *row.token_ids])


def check_tie(
    prompt: list[int], found: list[int], wanted: list[int], processor: Any, *, drawn_too: bool = False
) -> None:
    """Raise unless float32 cannot tell which of the first two tokens that differ is the better one."""
    at = next((i for i, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b), None)
    assert at is not None, f"after {prompt} the session writes {found}, and the engine alone {wanted}"
    assert not drawn_too, f"after {prompt}, drawn, the session writes {found}, and the engine alone {wanted}"
    logits = fresh_logits(loaded("transformers")[0], [*prompt, *wanted[:at]])
    made = logits if processor is None else replayed(processor, prompt, wanted[:at], logits)
    gap = abs(float(made[found[at]] - made[wanted[at]]))
    assert gap <= NEAR, f"after {prompt} the session writes {found}, and the engine alone {wanted}; {gap} apart"


@dataclass(frozen=True)
class Continuation:
    """The operations on the states of `continuous`, one after another.

    Args:
        engine: One of the three.
        steps: For each step: the operation, the index of its state, a number for it, and the processor of the generation.
    """

    engine: str
    steps: tuple[tuple[str, int, int, str], ...]


Step = Callable[[SequenceState, int, list[SequenceState]], SequenceState]
STEPS: dict[str, Step] = {
    "as it is": lambda s, n, others: s,
    "text up to": lambda s, n, others: s[:, : 3 + n],
    "text from": lambda s, n, others: s[:, n % 5 :],
    "tokens up to": lambda s, n, others: s.tokens[:, : -1 - n % 4],
    "append": lambda s, n, others: s + APPENDED[n % len(APPENDED)],
    "join": lambda s, n, others: s + others[n % len(others)],
    "rows": lambda s, n, others: s[[n % 2, 1, 0][: 1 + n % 3], :] if n % 2 else s[::-1, :],
}


@st.composite
def continuations(draw: DrawFn) -> Continuation:
    step = st.tuples(
        st.sampled_from(sorted(STEPS)), st.integers(0, 7), st.integers(0, 30), st.sampled_from(sorted(processors()))
    )
    return Continuation(draw(st.sampled_from(ENGINES)), tuple(draw(st.lists(step, min_size=1, max_size=5))))


def check_continuation(case: Continuation, tried: Counter[str]) -> None:
    states = [continuous(*loaded(case.engine))(PROMPTS[:2], max_new_tokens=3)]
    for name, which, number, processor in case.steps:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CacheDropped)
            try:
                state = STEPS[name](states[which % len(states)], number, states)
                found = continuous(*loaded(case.engine), processors()[processor])(state, max_new_tokens=2)
            except LogitkitError:
                tried["steps refused"] += 1
                continue
        for row, (before, after) in enumerate(zip(state.rows, found.rows, strict=True)):
            tokenizer = loaded("transformers")[1]
            # A row without a token begins with BOS.
            prompt = list(before) or [tokenizer.bos_token_id]
            new = list(after)[len(prompt) :]
            wanted = alone.alone(case.engine, prompt, 2, processors()[processor])
            eos = tokenizer.eos_token_id
            written = [token for token in wanted if token != eos]
            if new != written:
                check_tie(
                    prompt, [*new, *([eos] if bool(found.finished[row]) else [])], wanted, processors()[processor]
                )
                tried["rows of continuous states that a near tie decided"] += 1
            tried[f"rows of continuous {case.engine} states"] += 1
        if sum(map(len, found.rows)) < 200:
            states.append(found)


CONVERSED, CONTINUED = drawn(conversations(), 6, check_conversation), drawn(continuations(), 6, check_continuation)


# llama-cpp-python cannot free a model when the interpreter has begun to end.
atexit.register(loaded.cache_clear)
atexit.register(alone.second_llama.cache_clear)
transformers.utils.logging.disable_progress_bar()


def one_round(number: int, tried: Counter[str]) -> None:
    torch.manual_seed(number)
    CONVERSED(number, tried)
    CONTINUED(number, tried)


CAMPAIGN = Campaign(
    "sessions", "cached generations of three engines, with their own `generate` without a session", one_round
)
