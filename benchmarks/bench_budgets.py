"""A step of `ThinkingBudget` with each of its options, in turns within one run: `python -m benchmarks.bench_budgets`.

A step advances the state of all rows by one token and processes their logits, on the CPU, with one thread and Tekken's
131,072 tokens. Within the budget, a row has no mask, unless there is a minimum of tokens. *Again* is the budget without options
once more, so its distance from 1 is chance. Compiling is timed too, as the best of several runs.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor

import logitkit as lk
from benchmarks.side_by_side import medians
from benchmarks.tables import Table
from logitkit.reasoning.section_texts import SectionTexts
from logitkit.reasoning.thinking_automaton import thinking_automaton
from tests.vocabularies import tekken

END, MESSAGE = "</think>", "\nI have to answer now.\n"
MANY = 10**6
OPTIONS: dict[str, dict[str, object]] = {
    "no option": {},
    "again": {},
    "two ends": {"end": [END, "<tool_call>"]},
    "message": {"message": MESSAGE},
    "grace": {"grace": 20},
    "minimum": {"min_tokens": MANY},
    "pause": {"pause": [("<tool_call>", "</tool_call>")]},
    "all": {"message": MESSAGE, "grace": 20, "min_tokens": MANY, "pause": [("<tool_call>", "</tool_call>")]},
}
# An ordinary token.
TOKEN = 1234


def budget(name: str, spent: bool = False) -> lk.ThinkingBudget:
    """Return the budget with an option, of many tokens or of none."""
    given = {"max_tokens": 0 if spent else MANY, "end": END, **OPTIONS[name]}
    if spent:
        given = {**given, "grace": 0, "min_tokens": 0}
    return lk.ThinkingBudget(vocabulary=tekken(), **given)  # type: ignore[arg-type]


def main() -> None:
    """Check that the masks are right, measure, and print the tables."""
    torch.set_num_threads(1)
    size = tekken().size
    for spent, title in ((False, "within the budget"), (True, "while the end is forced")):
        table = Table(f"A step {title}, us (medians)", ("rows", *OPTIONS))
        for rows in (1, 32):
            context, tokens = lk.Context.of([[]] * rows, size), torch.full((rows,), TOKEN)
            logits = torch.randn(rows, size)
            steps = {}
            for name in OPTIONS:
                processor = budget(name, spent)
                state = processor.init_state(context)
                free = int(processor.process_logits(state, logits.clone(), context)[1].isfinite().sum()) // rows
                assert (free < 20) if spent else (free > size - 20)

                def step(processor: lk.ThinkingBudget = processor, state: object = state) -> Tensor:
                    after = processor.advance(state, tokens)  # type: ignore[arg-type]  # noqa: B023
                    return processor.process_logits(after, logits, context)[1]  # noqa: B023

                steps[name] = step
            found = medians(steps, rounds=200 if rows == 1 else 50, calls=3)
            table.add(str(rows), *(found[name] * 1e6 for name in OPTIONS))
        print("\n".join(table.lines()))
    compiling = Table("Compiling, ms (best of 5)", ("texts", "time", "states"))
    for name in OPTIONS:
        if name == "again":
            continue
        texts: SectionTexts = budget(name)._texts
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            automaton = thinking_automaton(texts, tekken())
            times.append(time.perf_counter() - begin)
        compiling.add(name, min(times) * 1e3, automaton.states)
    print("\n".join(compiling.lines()))


if __name__ == "__main__":
    main()
