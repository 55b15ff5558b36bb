"""Generation: greedy, sampled or by beam search, with a processor at every step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from logitkit.errors import BrokenLogits
from logitkit.sessions.sequence_parts import RowPiece, Weights, put_together, weights_of
from logitkit.sessions.sequence_state import SequenceState
from logitkit_adapters.sessions.batch import BatchEngine, BatchRun
from logitkit_adapters.sessions.batch_of_sequences import SequenceBatches, SequenceRun
from logitkit_adapters.sessions.beam_search import BeamSearch
from logitkit_adapters.sessions.written_rows import Decoding, Steps, WrittenRows

__all__ = ["finished", "write"]


def finished(steps: Steps) -> SequenceState:
    """Return the state after the last step."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            state: SequenceState = end.value
            return state


def write(engine: BatchEngine, state: SequenceState, how: Decoding, steps: int, samples: int) -> Steps:
    """Generate up to `steps` more tokens per row; yield after each step, and return the state.

    Args:
        engine: The model.
        state: The state to continue; padding is on the left only, and the last column is not cached.
        how: The decoding options.
        steps: The maximum number of steps, at least 1.
        samples: The number of rows that each row of the state becomes.
    """
    if engine.row_by_row and not how.beams:
        assert isinstance(engine, SequenceBatches)
        return (yield from _row_by_row(engine, state, how, steps, samples))
    run = engine.run(state)
    logits = run.start()
    if samples > 1:
        rows = torch.arange(len(state), device=logits.device).repeat_interleave(samples)
        run.select(rows)
        logits, state = logits[rows], _repeated(state, samples)
    written = WrittenRows(how, state, logits.shape[1], steps)
    if how.beams:
        search = BeamSearch(written, run, state.num_samples, how.length_penalty)
        # Rows that were already complete have been moved after the others.
        logits = torch.nn.functional.pad(logits, (0, 0, 0, len(written.ids) - len(logits)))
        for _ in _grow(written, run, logits, steps, search.step):
            yield 0, written
        search.finish()
    else:
        for _ in _grow(written, run, logits, steps, written.choose):
            yield 0, written
    return replace(written.state(), kv_cache=run.cache(), cached=written.ids.shape[1] - 1, port=engine)


def _row_by_row(engine: SequenceBatches, state: SequenceState, how: Decoding, steps: int, samples: int) -> Steps:
    """Generate row after row, because the engine would have to swap caches at every token otherwise."""
    written: WrittenRows | None = None
    parts, caches = list[WrittenRows](), []
    for row, tokens in enumerate(state.rows):
        weights = Weights(*(w.reshape(-1)[row].reshape(1, 1) for w in weights_of(state)))
        run = engine.run(put_together(state, [RowPiece(row, len(tokens))], weights))
        assert isinstance(run, SequenceRun)
        logits = run.start()
        if written is None:
            written = WrittenRows(how, _repeated(state, samples), logits.shape[1], steps)
        run.select(torch.zeros(samples, dtype=torch.int64))
        for sample in range(samples):
            part, one = written.only(row * samples + sample), run.only(sample)
            # A copy, because a processor may overwrite its logits, and the next sample starts from the same.
            try:
                for _ in _grow(part, one, logits.clone(), steps, part.choose):
                    yield row * samples + sample, part
            except BrokenLogits as error:
                raise BrokenLogits(error.reason, row * samples + sample, error.step) from None
            parts.append(part)
            caches += one.cache()
    assert written is not None
    written.join(parts)
    return replace(written.state(), kv_cache=caches, cached=written.ids.shape[1] - 1, port=engine)


def _grow(
    rows: WrittenRows, run: BatchRun, logits: Tensor, steps: int, choose: Callable[[Tensor, bool], None]
) -> Iterator[None]:
    """Run the model until all rows have ended, and yield after each step.

    Args:
        rows: The rows.
        run: Their run.
        logits: The logits of the first step.
        steps: The maximum number of steps.
        choose: Is given the logits, and whether this is the last step.
    """
    for step in range(steps):
        if bool(rows.ended.all()):
            return
        if step:
            logits = run.step(rows.ids[:, -1], ~rows.ended)
        choose(logits, step == steps - 1)
        yield


def _repeated(state: SequenceState, samples: int) -> SequenceState:
    return replace(state, kv_cache=None, cached=0).fan_out(samples) if samples > 1 else state
