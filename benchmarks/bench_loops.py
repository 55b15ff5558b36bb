"""`LoopStop` compared with vLLM's own detection of repetitions, in turns within one run: `python -m benchmarks.bench_loops`.

It needs an environment with vLLM (`.venv-vllm`). vLLM asks a function about each request after each token, in its scheduler, with
all tokens of the output so far. Ours advances the state of all rows by one token, and processes their logits. Both look for three
copies of up to 64 tokens, on the CPU, with one thread, after 2,000 tokens as in text. In *text*, nothing repeats. *Almost* has
copies of a block of 60 tokens whose first token always differs: vLLM compares from the end, so it takes the longest here.

Ours is also timed alone: the replay of a whole text, as when a generation is resumed.
"""

from __future__ import annotations

import statistics
import time

import torch
from torch import Tensor

import logitkit as lk
from benchmarks.side_by_side import medians
from benchmarks.tables import Table

COLUMNS = 131_072
CONTEXT = 2_000
PERIOD = 60


def texts(rows: int, kind: str) -> Tensor:
    """Return [rows, CONTEXT] token ids without a loop: few are frequent, as in text, or the last ones are almost a loop."""
    generator = torch.Generator().manual_seed(0)
    if kind == "text":
        weights = 1 / torch.arange(1, 3001, dtype=torch.float64)
        ranks = torch.multinomial(weights, rows * CONTEXT, replacement=True, generator=generator).reshape(rows, -1)
        # So that no loop ends a row on the way.
        return ranks * 37 + torch.arange(CONTEXT) % 7
    block = torch.randint(1000, 30_000, (rows, PERIOD), generator=generator)
    ids = block.repeat(1, CONTEXT // PERIOD + 1)
    ids[:, ::PERIOD] = torch.arange(ids.shape[1] // PERIOD) + 50_000
    return ids[:, :CONTEXT]


def main() -> None:
    """Measure, check that both say the same, and print the tables."""
    from vllm.sampling_params import RepetitionDetectionParams
    from vllm.v1.core.sched.utils import check_sequence_repetition

    torch.set_num_threads(1)
    theirs = RepetitionDetectionParams(max_pattern_size=64, min_count=3)
    # Its size is all that matters of the tokens.
    ours = lk.LoopStop(lk.Vocabulary([*[b"a"] * (COLUMNS - 1), None], eos_ids=[COLUMNS - 1]))
    step = Table("A step, us (medians)", ("text, rows", "vLLM", "ours", "ours / vLLM"))
    for kind in ("text", "almost"):
        for rows in (1, 32, 256):
            ids = texts(rows, kind)
            lists = ids.tolist()
            logits, context = torch.randn(rows, COLUMNS), lk.Context.of([[]] * rows, COLUMNS)
            before = ours.advance(ours.init_state(context), ids[:, :-1])
            token = ids[:, -1].contiguous()

            def of_ours() -> Tensor:
                return ours.process_logits(ours.advance(before, token), logits, context)[1]  # noqa: B023

            def of_vllm() -> list[bool]:
                return [check_sequence_repetition(one, theirs) for one in lists]  # noqa: B023

            assert of_vllm() == ours.fired(ours.advance(before, token)).tolist() == [False] * rows
            found = {name: s * 1e6 for name, s in medians({"vllm": of_vllm, "ours": of_ours}, rounds=200).items()}
            step.add(f"{kind}, {rows}", found["vllm"], found["ours"], found["ours"] / found["vllm"])
    replay = Table("A replay of one row, ms (median)", ("tokens", "ours"))
    start = ours.init_state(lk.Context.of([[]], COLUMNS))
    for length in (2_000, 32_000):
        ids = texts(1, "text").repeat(1, length // CONTEXT)
        times = []
        for _ in range(20):
            begin = time.perf_counter()
            ours.advance(start, ids)
            times.append(time.perf_counter() - begin)
        replay.add(f"{length:,}", statistics.median(times) * 1e3)
    for table in (step, replay):
        print("\n".join(table.lines()))


if __name__ == "__main__":
    main()
