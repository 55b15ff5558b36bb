"""A process of its own that continues from saved states: run by a test of all processors."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import logitkit as lk
from tests.batches import COLUMNS, Batch, logits_of, run, step
from tests.registry import ROWS, Row, vocabulary


def batch(row: Row, seed: int = 0, dtype: torch.dtype = torch.float32) -> Batch:
    """Return a batch that is the same in every process: the row's runs, padded and cut to five steps."""
    steps = 5
    lines = [[*run[:steps], *[-1] * (steps - len(run))] for run in row.runs]
    prompts = [[3 + seed, 4], [5], []] * 2
    tokens = torch.tensor(lines, dtype=torch.int64)
    return Batch(prompts[: len(lines)], tokens, logits_of(seed, (steps + 1, len(lines), COLUMNS), dtype))


def main(folder: Path) -> None:
    """Load the state of every row after two tokens, continue, and write the logits."""
    first = lk.Regex("[0-9]{3}", vocabulary())
    first.init_state(lk.Context.of([[]], COLUMNS))
    # Every automaton of the registry is in the registry, in another order than where the states were saved.
    for row in reversed(ROWS):
        row.processor.init_state(lk.Context.of([[]], COLUMNS))
    found = {}
    for number, row in enumerate(ROWS):
        whole = batch(row)
        context = whole.context()
        for t in range(2):
            context = step(context, whole.tokens[:, t])
        state = lk.load_state(folder / f"{number}.state", row.processor)
        late = Batch(whole.prompts, whole.tokens[:, 2:], whole.logits[2:])
        found[row.name] = torch.stack(run(row.processor, late, state, context).logits)
    torch.save(found, folder / "logits.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
