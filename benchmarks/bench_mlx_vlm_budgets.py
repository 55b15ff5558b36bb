"""`ThinkingBudget` compared with mlx-vlm's own, in turns: `python -m benchmarks.bench_mlx_vlm_budgets`.

With `thinking_budget=N`, mlx-vlm counts the tokens of each row after the start marker, in Python. When there are more than N, it
replaces the next two tokens, whatever the model chose: a line break, and the end marker. It reads no logits. Ours advances the
state of all rows by one token, and masks their logits, so that beams, drafts and other constraints see the end.

Both run on the CPU, with one thread and 131,072 columns, after 2,000 tokens. In *reasoning*, the budget is not spent, and in
*forced*, the last token spends it. *Again* is ours a second time, so its distance from 1 is chance. First, both read random texts
token by token, and have to force the same tokens at the same steps.
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
BREAK, START, END, EOS = 10, COLUMNS - 3, COLUMNS - 2, COLUMNS - 1
NAMES = {"<think>": START, "</think>": END}
# One token is a line break. The size of the vocabulary is all that matters of the other ordinary tokens.
VOCABULARY = lk.Vocabulary(
    [*[b"a"] * BREAK, b"\n", *[b"a"] * (COLUMNS - BREAK - 4), None, None, None], eos_ids=[EOS], special=NAMES
)


class TokenizerOfMarkers:
    """The part of a tokenizer that mlx-vlm's budget asks: the ids of its three texts."""

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        """Return the ids of a text."""
        assert not add_special_tokens
        return [BREAK if text == "\n" else NAMES[text]]


def of_mlx_vlm(budget: int) -> Any:
    """Return mlx-vlm's budget of a row whose prompt ends with the start of the reasoning."""
    from mlx_vlm.utils import ThinkingBudgetCriteria

    return ThinkingBudgetCriteria(TokenizerOfMarkers(), budget, "</think>", "<think>", True, True)


def ours(budget: int, rows: int) -> tuple[lk.ThinkingBudget, Any, lk.Context]:
    """Return our budget, its state after the same prompts, and their context: mlx-vlm lets one token more pass."""
    context = lk.Context.of([[1, START]] * rows, COLUMNS)
    processor = lk.ThinkingBudget(budget + 1, "</think>", VOCABULARY, start="<think>", message="\n")
    return processor, processor.init_state(context), context


def check_steps(budget: int, text: Sequence[int]) -> int:
    """Let both read a text, which is corrected where they force a token; return how many they force."""
    theirs = of_mlx_vlm(budget)
    processor, state, context = ours(budget, 1)
    replaced, forced = None, 0
    for token in text:
        logits = processor.process_logits(state, torch.zeros(1, COLUMNS), context)[1][0]
        legal = logits.isfinite().nonzero()[:, 0].tolist()
        assert legal == [replaced] if replaced is not None else len(legal) == COLUMNS, (budget, text)
        forced += replaced is not None
        chosen = token if replaced is None else replaced
        theirs(chosen)
        replaced = theirs.pop_forced_token_id()
        state = processor.advance(state, torch.tensor([chosen]))
    return forced


def main() -> None:
    """Check that both force the same tokens, measure, and print the table."""
    torch.set_num_threads(1)
    generator = random.Random(0)
    forced = 0
    for _ in range(100):
        # The end marker ends the reasoning in some texts, and in others the budget does.
        text = [generator.choice((5, 6, 7, 8, 9, END)) for _ in range(generator.randrange(1, 12))]
        forced += check_steps(generator.randrange(0, 8), text)
    assert forced > 20
    table = Table("A step, us (medians)", ("case, rows", "mlx-vlm", "ours", "ours / mlx-vlm", "ours again / ours"))
    for kind in ("reasoning", "forced"):
        for rows in (1, 32):
            budget = MANY if kind == "reasoning" else CONTEXT - 1
            theirs = [of_mlx_vlm(budget) for _ in range(rows)]
            processor, state, context = ours(budget, rows)
            state = processor.advance(state, torch.full((rows, CONTEXT - 1), 5))
            token, logits = torch.full((rows,), 5), torch.randn(rows, COLUMNS)

            def of_ours() -> Tensor:
                return processor.process_logits(processor.advance(state, token), logits, context)[1]  # noqa: B023

            def of_theirs() -> list[int | None]:
                found = []
                for criteria in theirs:  # noqa: B023
                    criteria(5)
                    found.append(criteria.pop_forced_token_id())
                return found

            def before() -> None:
                for criteria in theirs:  # noqa: B023
                    criteria.reset_thinking_state()
                    criteria.thinking_token_count = CONTEXT - 1

            before()
            assert of_theirs() == [BREAK if kind == "forced" else None] * rows
            assert bool((of_ours().isfinite().sum(1) == 1).all()) == (kind == "forced")
            sides = {"theirs": of_theirs, "ours": of_ours, "again": of_ours}
            # The time of this thread alone, because other programs run meanwhile.
            found = medians(sides, 200 if rows == 1 else 60, 3, 3, time.thread_time, before)
            mlx_vlm, first, again = (found[name] * 1e6 for name in ("theirs", "ours", "again"))
            table.add(f"{kind}, {rows}", mlx_vlm, first, first / mlx_vlm, again / first)
    print("\n".join(table.lines()))


if __name__ == "__main__":
    main()
