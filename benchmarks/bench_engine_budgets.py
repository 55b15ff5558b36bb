"""`ThinkingBudget` compared with vLLM's own, in turns: `python -m benchmarks.bench_engine_budgets`.

It needs an environment with vLLM (`.venv-vllm`). A request to vLLM with `thinking_token_budget` has a budget that vLLM's sampler
follows in Python: after each token, it looks for the markers in the tokens of the output, one request after the other. Then it
raises the forced token in the logits. Ours advances the state of all rows by one token, and masks their logits.

Both run on the CPU, with one thread and 131,072 columns. *Reasoning* has 2,000 tokens within the budget, *answer* has 2,000
tokens after the end of the reasoning, and in *forced* the budget is spent after 2,000 tokens. *Again* is ours a second time, so
its distance from 1 is chance. First, both read random texts token by token, and have to force the marker at the same steps.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import logitkit as lk
from benchmarks.side_by_side import medians
from benchmarks.tables import Table

COLUMNS = 131_072
CONTEXT = 2_000
MANY = 10**6
START, END, EOS = COLUMNS - 3, COLUMNS - 2, COLUMNS - 1
# The size of the vocabulary is all that matters of its ordinary tokens.
VOCABULARY = lk.Vocabulary(
    [*[b"a"] * (COLUMNS - 3), None, None, None], eos_ids=[EOS], special={"<think>": START, "</think>": END}
)


class OfVllm:
    """vLLM's budgets of a batch whose prompts end with the start of the reasoning.

    Args:
        budget: The number of tokens of reasoning.
        outputs: The tokens that each row has generated, which may grow.
    """

    def __init__(self, budget: int, outputs: list[list[int]]) -> None:
        from vllm.config.reasoning import ReasoningConfig
        from vllm.sampling_params import SamplingParams
        from vllm.v1.sample.logits_processor.interface import BatchUpdate
        from vllm.v1.sample.thinking_budget_state import ThinkingBudgetStateHolder

        config = ReasoningConfig()
        config._reasoning_start_token_ids, config._reasoning_end_token_ids = [START], [END]
        self._outputs = outputs
        self._holder = ThinkingBudgetStateHolder(config, len(outputs), 0, torch.device("cpu"), False)
        params = SamplingParams(thinking_token_budget=budget)
        added = [(row, params, [1, START], output) for row, output in enumerate(outputs)]
        self._holder.sync_batch(BatchUpdate(len(outputs), [], added, []))

    def step(self, logits: Tensor) -> Tensor:
        """Notice what the outputs have, and process logits, as vLLM's sampler does at each step."""
        self._holder.update_state(self._outputs, None)
        made: Tensor = self._holder.apply_to_logits(logits, False, None)
        return made

    def saved(self) -> dict[int, dict[str, Any]]:
        """Return what it knows of each row, to restore it."""
        return {row: {**state} for row, state in self._holder._state.items()}

    def restore(self, states: dict[int, dict[str, Any]]) -> None:
        """Go back to a state."""
        self._holder._state = {row: {**state} for row, state in states.items()}


def ours(budget: int, rows: int) -> tuple[lk.ThinkingBudget, Any, lk.Context]:
    """Return our budget, its state after the same prompts, and their context."""
    context = lk.Context.of([[1, START]] * rows, COLUMNS)
    processor = lk.ThinkingBudget(budget, "</think>", VOCABULARY, start="<think>")
    return processor, processor.init_state(context), context


def check_steps(budget: int, text: Sequence[int]) -> int:
    """Let both read a text, which is corrected where they force the marker; return at how many steps they do."""
    output: list[int] = []
    theirs = OfVllm(budget, [output])
    processor, state, context = ours(budget, 1)
    forced = 0
    for token in [*text, EOS]:
        scores = theirs.step(torch.zeros(1, COLUMNS))[0]
        mask = processor.process_logits(state, torch.zeros(1, COLUMNS), context)[1][0]
        found = mask.isfinite().nonzero()[:, 0].tolist() == [END]
        assert found == (int(scores.argmax()) == END and bool(scores[END] > 1)), (budget, output)
        forced += found
        output.append(END if found else token)
        state = processor.advance(state, torch.tensor(output[-1:]))
    return forced


def prepared(kind: str) -> tuple[int, list[int]]:
    """Return the budget of a case, and the tokens of its output."""
    generator = random.Random(0)
    text = [generator.randrange(1000, 100_000) for _ in range(CONTEXT)]
    if kind == "answer":
        return MANY, [*text[:10], END, *text]
    return (CONTEXT if kind == "forced" else MANY), text


def main() -> None:
    """Check that both force at the same steps, measure, and print the table."""
    torch.set_num_threads(1)
    generator = random.Random(0)
    forced = 0
    for _ in range(100):
        # The first marker ends the reasoning in some texts, and in others the budget does.
        text = [generator.choice((5, 6, 7, 8, 9, END)) for _ in range(generator.randrange(1, 12))]
        forced += check_steps(generator.randrange(1, 8), text)
    assert 10 < forced <= 100
    table = Table("A step, us (medians)", ("case, rows", "vLLM", "ours", "ours / vLLM", "ours again / ours"))
    for kind in ("reasoning", "forced", "answer"):
        for rows in (1, 32, 256):
            budget, text = prepared(kind)
            outputs = [[*text[:-1]] for _ in range(rows)]
            theirs = OfVllm(budget, outputs)
            # Its state before the last token. Within a section, it takes any number of new tokens at once.
            for length in (*range(1, 20), len(text) - 2, len(text) - 1):
                for output in outputs:
                    output[:] = text[:length]
                theirs.step(torch.zeros(rows, 1))
            saved = theirs.saved()
            for output in outputs:
                output.append(text[-1])
            processor, state, context = ours(budget, rows)
            state = processor.advance(state, torch.tensor([text[:-1]] * rows))
            token, logits = torch.full((rows,), text[-1]), torch.randn(rows, COLUMNS)
            of_vllm_logits = logits.clone()

            def of_ours() -> Tensor:
                return processor.process_logits(processor.advance(state, token), logits, context)[1]  # noqa: B023

            def of_vllm() -> Tensor:
                return theirs.step(of_vllm_logits)  # noqa: B023

            def before() -> None:
                theirs.restore(saved)  # noqa: B023

            before()
            assert bool((of_vllm()[:, END] > 1e6).all()) == (kind == "forced")
            assert bool((of_ours().isfinite().sum(1) == 1).all()) == (kind == "forced")
            sides = {"vllm": of_vllm, "ours": of_ours, "again": of_ours}
            # The time of this thread alone, because other programs run meanwhile.
            found = medians(sides, {1: 200, 32: 60, 256: 15}[rows], 3, 3, time.thread_time, before)
            vllm, first, again = (found[name] * 1e6 for name in ("vllm", "ours", "again"))
            table.add(f"{kind}, {rows}", vllm, first, first / vllm, again / first)
    print("\n".join(table.lines()))


if __name__ == "__main__":
    main()
