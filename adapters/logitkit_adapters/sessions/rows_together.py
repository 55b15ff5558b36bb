"""The rows of a call that run together in batches, without the cache of a session."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch

from logitkit.composition.engine_vocabulary import vocabulary_ends
from logitkit.errors import BrokenLogits
from logitkit.sessions.reuse import Reuse
from logitkit.sessions.sequence_state import SequenceState
from logitkit.sessions.text_continuation import added_text
from logitkit.sessions.text_tokenizer import TextTokenizer
from logitkit_adapters.sessions.batch import BatchEngine
from logitkit_adapters.sessions.decoding import write
from logitkit_adapters.sessions.end_of_row import end_of_row
from logitkit_adapters.sessions.generated import GeneratedRow
from logitkit_adapters.sessions.initial_state import initial_state
from logitkit_adapters.sessions.sequence import SequenceEngine
from logitkit_adapters.sessions.session_call import SessionCall
from logitkit_adapters.sessions.text_before_stop import TextBeforeStop
from logitkit_adapters.sessions.written_rows import Decoding

__all__ = ["NOTHING", "generated_rows", "rows_together", "text_of"]

# The row of a prompt that contains only padding, which has ended.
NOTHING = GeneratedRow([], "", Reuse(0, 0, []), prompt_tokens=0, positions_fed=0, forward_passes=0)


def rows_together(engine: BatchEngine, call: SessionCall, batch_size: int) -> list[GeneratedRow]:
    """Return the rows of a call, each with the tokens that a session would write.

    Prompts of similar lengths share a batch, so that it has little padding. All rows of a prompt are in the same batch.

    Args:
        engine: The model.
        call: The call, with the same limit for all prompts.
        batch_size: The maximum number of rows of a batch. A prompt with more samples or beams has a batch of its own.

    Raises:
        BrokenLogits: The logits of a row are broken.
    """
    rows = max(call.num_beams, call.num_samples)
    found = [[NOTHING] * rows for _ in call.prompts]
    going = sorted((place for place, tokens in enumerate(call.prompts) if tokens), key=lambda p: len(call.prompts[p]))
    prompts = max(batch_size // rows, 1)
    with engine.lock:
        for begin in range(0, len(going), prompts):
            places = going[begin : begin + prompts]
            written = iter(
                _batch(engine, call, places, [place * rows + row for place in places for row in range(rows)])
            )
            for place in places:
                found[place] = [next(written) for _ in range(rows)]
    return [row for of_prompt in found for row in of_prompt]


def _batch(engine: BatchEngine, call: SessionCall, places: list[int], numbers: list[int]) -> list[GeneratedRow]:
    """Return the rows of some prompts, whose numbers are given."""
    prompts, limit, beams = [call.prompts[place] for place in places], min(call.counts), call.num_beams > 1
    how = Decoding(
        processor=call.processor,
        beams=beams,
        length_penalty=call.length_penalty,
        seed=call.seed,
        eos_ids=sorted(engine.eos_ids | vocabulary_ends(call.processor)),
        pad_id=TextTokenizer(engine.tokenizer).pad_id,
        carry_state=False,
        after_processor=True,
        stream_ids=None if beams else numbers,
    )
    steps = write(engine, initial_state(engine, prompts), how, limit, len(numbers) // len(places))
    emptied = torch.zeros(len(numbers), dtype=torch.bool)
    try:
        while True:
            emptied = next(steps)[1].emptied
    except StopIteration as end:
        return generated_rows(end.value, engine.engine, call, prompts, limit, None if beams else emptied.tolist())
    except BrokenLogits as error:
        row = None if error.row is None else numbers[error.row]
        raise BrokenLogits(error.reason, row, error.step) from None


def generated_rows(
    state: SequenceState,
    engine: SequenceEngine,
    call: SessionCall,
    prompts: Sequence[list[int]],
    limit: int,
    emptied: Sequence[bool] | None = None,
) -> list[GeneratedRow]:
    """Return the rows of a state as those of a call.

    Args:
        state: The state after generation, whose log-probabilities are those after the processor.
        engine: The model.
        call: The call.
        prompts: The tokens of the prompts of the state; none is empty.
        limit: The maximum number of new tokens.
        emptied: Whether each row ended because no token was left; None if that is unknown, as it is of beams.
    """
    ends, found = engine.eos_ids | vocabulary_ends(call.processor), []
    weights = state.weights.reshape(-1).tolist()
    for row, weight in enumerate(weights):
        prompt = prompts[row * len(prompts) // len(weights)]
        new = [*state.rows[row][len(prompt) :]]
        there = state.attention_masks[row] == 1
        log_probs = state.token_log_probs[row][there].tolist()[len(prompt) :]
        if state.finished[row]:
            new.append(int(state.token_ids[row, there.nonzero()[-1] + 1]))
            log_probs.append(weight - sum(log_probs))
        is_first = row % (len(weights) // len(prompts)) == 0
        found.append(
            GeneratedRow(
                token_ids=new,
                text=text_of(engine.tokenizer, call, prompt, new, ends),
                reuse=Reuse(0, 0, prompt),
                prompt_tokens=len(prompt),
                positions_fed=len(prompt) * is_first + max(len(new) - 1, 0),
                forward_passes=len(new),
                finished=end_of_row(
                    call.processor,
                    prompt,
                    new,
                    limit,
                    ends,
                    engine.vocabulary_size,
                    emptied=emptied is not None and emptied[row],
                ),
                log_probs=log_probs if call.log_probs else None,
                log_prob=weight if call.log_probs or call.num_beams > 1 else None,
            )
        )
    return found


def text_of(tokenizer: Any, call: SessionCall, prompt: list[int], new: list[int], ends: Collection[int]) -> str:
    """Return the text that new tokens add to a prompt, without a final EOS or stop; "" without a tokenizer."""
    if tokenizer is None:
        return ""
    text = added_text(prompt, new[:-1] if new and new[-1] in ends else new, TextTokenizer(tokenizer))
    return text if call.whole_text else TextBeforeStop(call.processor, prompt).before_stop(new, text)
