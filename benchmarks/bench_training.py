"""Replay for training, forward and backward, compared with a plain `log_softmax` and `gather` of the same logits.

Rows are sampled from random logits on Tekken's vocabulary of 131,072 tokens, with the processors of each case, before anything is
timed. Both sides then compute the log-probabilities of the same tokens and the gradient of their sum, in turns, on the CPU with
one thread. `plain again` is the plain side a second time: its ratio shows the noise. The results of the replay are checked first.
A row whose JSON is complete ends. The rest of it is padding, which the replay skips. `tokens` is the part that is not padding.

With 8 rows of 512 tokens, the plain side needs 8.6 GB: the logits, their gradient, the log-probabilities of all tokens, and the
gradient of these. Run `python -m benchmarks.bench_training --steps 512` where that fits. Time per token does not depend on steps.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

import logitkit as lk
from tests.vocabularies import tekken

ROWS = 8

SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "count": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["name", "count", "tags"],
        "additionalProperties": False,
    },
}


def cases(vocabulary: lk.Vocabulary) -> dict[str, tuple[lk.Chain, bool]]:
    """Return chains by name, and whether kept sets are given for what depends on logits."""
    json = lk.JsonSchema(SCHEMA, vocabulary)
    penalty, warm, top = lk.RepetitionPenalty(1.1), lk.Temperature(0.7), lk.TopP(0.95)
    return {
        "temperature": (lk.chain(warm), False),
        "pattern": (lk.chain(lk.Regex(r"[a-z ,.]*", vocabulary)), False),
        "JSON Schema": (lk.chain(json), False),
        "penalty, text without an end, temperature": (lk.chain(penalty, lk.Regex('[^"]*', vocabulary), warm), False),
        "penalty, JSON Schema, temperature": (lk.chain(penalty, json, warm), False),
        "penalty, JSON Schema, temperature, top-p from kept sets": (lk.chain(penalty, json, warm, top), True),
        "penalty, JSON Schema, temperature, top-p computed": (lk.chain(penalty, json, warm, top), False),
    }


def sampled(chain: lk.Chain, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sample tokens from logits, [B, T, V]; return them, their log-probabilities, and the kept sets."""
    rows, steps, columns = logits.shape
    context = lk.Context.of([[]] * rows, columns)
    state, generator = chain.init_state(context), torch.Generator().manual_seed(0)
    outputs, found, kept = torch.full((rows, steps), -1), torch.zeros(rows, steps), []
    over = torch.zeros(rows, dtype=torch.bool)
    ends = torch.tensor(chain.known_eos_ids or (-1,))
    for step in range(steps):
        given = logits[:, step]
        _, made = chain.process_logits(state, given.clone(), context)
        kept.append(lk.training.kept(given, made))
        # EOS is left out as long as something else is legal, so that rows have all their steps.
        chance = made.softmax(1)
        chance[:, ends.clamp(min=0)] *= 1e-6
        tokens = torch.where(over, -1, chance.multinomial(1, generator=generator)[:, 0])
        outputs[:, step] = tokens
        found[:, step] = torch.where(over, 0.0, made.log_softmax(1).gather(1, tokens.clamp(min=0)[:, None])[:, 0])
        over |= (tokens[:, None] == ends).any(1)
        state = chain.advance(state, tokens)
        context = context.at(context.lengths + (tokens >= 0))
    return outputs, found, torch.stack(kept, 1)


def measured(sides: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each side in each round; sides take turns, in another order each time."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    names = [*sides]
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            # The time of this thread alone, because other programs run meanwhile.
            begin = time.thread_time()
            sides[name]()
            took = time.thread_time() - begin
            if turn:  # the first round warms up
                times[name].append(took)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=128, help="tokens of each of 8 rows (default: 128)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    options = parser.parse_args()
    torch.set_num_threads(1)
    vocabulary = tekken()
    columns = len(vocabulary.tokens)
    logits = (
        torch.randn(ROWS, options.steps, columns, generator=torch.Generator().manual_seed(1)) * 4
    ).requires_grad_()
    print(
        f"{ROWS} rows of {options.steps} tokens, {columns:,} columns, float32; median of {options.rounds} rounds, seconds"
    )
    print(f"{'case':<58} {'tokens':>6} {'plain':>7} {'replay':>7} {'ratio':>6} {'plain again':>12} {'forward':>8}")
    for name, (chain, from_kept) in cases(vocabulary).items():
        if options.case not in name:
            continue
        outputs, expected, kept = sampled(chain, logits.detach())
        sets = kept if from_kept else None

        def replay(
            given: Tensor, chain: lk.Chain = chain, outputs: Tensor = outputs, sets: Tensor | None = sets
        ) -> Tensor:
            found: lk.training.Replayed = lk.training.replay(chain, [[]] * ROWS, outputs, given, kept=sets)
            return found.log_probs

        torch.testing.assert_close(replay(logits.detach()), expected, atol=1e-4, rtol=1e-4)
        tokens = outputs.clamp(min=0)[..., None]

        def plain(tokens: Tensor = tokens) -> None:
            logits.grad = None
            logits.log_softmax(-1).gather(-1, tokens)[..., 0].sum().backward()

        def replayed(replay: Callable[[Tensor], Tensor] = replay) -> None:
            logits.grad = None
            replay(logits).sum().backward()

        def forward(replay: Callable[[Tensor], Tensor] = replay) -> None:
            replay(logits.detach())

        found = measured({"plain": plain, "replay": replayed, "again": plain, "forward": forward}, options.rounds)
        median = {side: statistics.median(times) for side, times in found.items()}
        ratios = [
            statistics.median(a / b for a, b in zip(found[s], found["plain"], strict=True)) for s in ("replay", "again")
        ]
        print(
            f"{name:<58} {float((outputs >= 0).double().mean()):>6.0%} "
            f"{median['plain']:>7.2f} {median['replay']:>7.2f} {ratios[0]:>6.2f} {ratios[1]:>12.2f} "
            f"{median['forward']:>8.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
