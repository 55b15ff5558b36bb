"""The outputs of one call of `generate_typed`: generated, read, and sampled again if they are not values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from logitkit_adapters.sessions.generated import GeneratedRow
from logitkit_adapters.sessions.session_call import SessionCall
from logitkit_adapters.sessions.typed_output import OutputReader, TypedOutput

__all__ = ["typed_outputs"]

# One more than the greatest seed.
SEEDS = 2**63


def typed_outputs(
    call: SessionCall, generate: Callable[[SessionCall], Sequence[GeneratedRow]], reader: OutputReader, retries: int
) -> list[TypedOutput[Any]]:
    """Return the outputs of a call; those that are not values have their error.

    Args:
        call: The call.
        generate: Returns the rows of a call.
        reader: Reads the rows.
        retries: How many times an output that is not a value is sampled again. Each time has another seed.
    """

    def written(call: SessionCall) -> list[TypedOutput[Any]]:
        return [reader.read(row, *pair) for row, pair in zip(generate(call), call.rows, strict=True)]

    outputs = written(call)
    seed = int(torch.randint(2**62, ())) if call.seed is None and retries else call.seed or 0
    for attempt in range(1, retries + 1):
        refused = [row for row, output in enumerate(outputs) if output.error is not None]
        if not refused:
            break
        pairs = [call.rows[row] for row in refused]
        prompts, counts = [prompt for prompt, _ in pairs], [count for _, count in pairs]
        again = replace(call, prompts=prompts, counts=counts, seed=(seed + attempt) % SEEDS, num_samples=1, num_beams=1)
        for row, output in zip(refused, written(again), strict=True):
            outputs[row] = output
    return outputs
