"""The processors of the comparison: all of the registry over the shipped model's vocabulary, and chains as people use them."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

import logitkit as lk
from tests.adapters.demo import model, tokenizer, vocabulary
from tests.examples import CI
from tests.registry import ONE_PASS

PROMPTS = 20
# CI compares all of them; a run by hand compares the first ones, which a constraint changes at once if it can.
FEWER = not CI
STEPS = 32 if FEWER else 64

# Random prompts to choose from: few are such that a loose language is left at once.
POOL = 1100

RECORD = (
    r'\{"name": "[A-Z][a-z]{1,9}( [A-Z][a-z]{1,9})?", "age": [1-9][0-9]?'
    r'(, "tags": \[("[a-z]{1,7}"(, "[a-z]{1,7}"){0,3})?\])?\}'
)


def _chains() -> dict[str, lk.Processor[Any]]:
    v = vocabulary()
    return {
        "record, told not to repeat itself": lk.chain(
            lk.RepetitionPenalty(1.3, window=32), lk.FrequencyPenalty(0.2), lk.Regex(RECORD, v)
        ),
        "list without words": lk.chain(
            lk.Regex(r"(- [^\n]{5,40}\n){3,9}", v), lk.BannedStrings(["the", "is ", "a"], v, ignore_case=True)
        ),
        "text, stopped": lk.chain(
            lk.NoRepeatNGram(3), lk.StopStrings([". ", "\n", " and"], v), lk.MinNewTokens(5, v.eos_ids)
        ),
        "thought, then date": lk.chain(
            lk.then(None, lk.Regex(r" \d{4}-\d\d-\d\d", v), "=>"), lk.ThinkingBudget(9, "=>", v)
        ),
        "thought with a message, then date": lk.chain(
            lk.then(None, lk.Regex(r" \d{4}-\d\d-\d\d", v), "=>"),
            lk.ThinkingBudget(6, ["=>", "->"], v, message="\nNow: ", grace=6, min_tokens=2, pause=[("(", ")")]),
        ),
        "healed, shaped": lk.chain(
            lk.LogitBias({5: 2.0, 300: -3.0}),
            lk.Dry(0.8, vocabulary=v),
            lk.ForcedPrefix("The ", v, then=lk.Regex(r"[a-zA-Z ,]{20,80}\.", v)),
            lk.Temperature(0.7),
            lk.TopK(40),
            lk.TopP(0.9),
            lk.MinP(0.02),
        ),
    }


@cache
def processors() -> dict[str, lk.Processor[Any]]:
    """Return all processors by name; those that are for one certain number of rows are left out."""
    of_rows = {row.name: row.make(vocabulary()) for row in ONE_PASS}
    return {n: p for n, p in (of_rows | _chains()).items() if getattr(p, "batch_size", None) is None}


@cache
def _pool() -> tuple[list[list[int]], torch.Tensor]:
    """Random prompts, and the model's own logits after each."""
    chance = torch.Generator().manual_seed(17)
    first_text_id = max(tokenizer().all_special_ids) + 1
    prompts, logits = [], []
    for length in range(3, 14):
        ids = torch.randint(first_text_id, len(tokenizer()), (POOL // 11, length), generator=chance)
        prompts += ids.tolist()
        with torch.no_grad():
            logits.append(model()(ids).logits[:, -1])
    order = torch.randperm(len(prompts), generator=chance).tolist()
    return [prompts[i] for i in order], torch.cat(logits)[order]


@cache
def prompts(name: str) -> tuple[list[list[int]], int]:
    """Return prompts, those first whose bare output would begin with a token that the processor masks, and how many these are."""
    pool, logits = _pool()
    processor = processors()[name]
    context = lk.Context.of(pool, logits.shape[1])
    masked = processor.process_logits(processor.init_state(context), logits.clone(), context)[1]
    leaves = masked.gather(1, logits.argmax(1, keepdim=True))[:, 0] == -torch.inf
    order = [*leaves.nonzero()[:, 0].tolist(), *(~leaves).nonzero()[:, 0].tolist()][:PROMPTS]
    return [pool[i] for i in order], int(leaves[order].sum())
