"""The initial state of a generation: from a prompt, or from a state that another generator returned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.sessions.cache_port import SavedCache
from logitkit.sessions.sequence_parts import RowPiece, carried, put_together, weights_of
from logitkit.sessions.sequence_state import SequenceState
from logitkit.sessions.text_tokenizer import TextTokenizer, check_same_tokenizer
from logitkit_adapters.sessions.batch import BatchEngine
from logitkit_adapters.sessions.prompts import Prompt, read_prompts

__all__ = ["initial_state", "opened"]


def initial_state(
    engine: BatchEngine, prompt: Prompt | SequenceState, attention_mask: Tensor | None = None
) -> SequenceState:
    """Return the state to continue, packed, with at least one column to feed.

    Args:
        engine: The model.
        prompt: A state, or a prompt that `read_prompts` accepts.
        attention_mask: 1 for a token and 0 for padding, if the prompt consists of token ids.

    Raises:
        ConfigurationError: The prompt has another type, has no tokens, or is a state of another tokenizer.
    """
    if isinstance(prompt, SequenceState):
        if attention_mask is not None:
            raise ConfigurationError("attention_mask is given with a state, which has its own; leave it out")
        check_same_tokenizer(prompt.rows, prompt.tokenizer, engine.tokenizer)
        state = _with_bos(engine, opened(engine, prompt))
        # A row that contains only padding is finished, and stays unchanged.
        ended = state.finished.tolist()
        pieces = [
            RowPiece(row, len(ids), [] if ids or ended[row] else _first(engine)) for row, ids in enumerate(state.rows)
        ]
        return put_together(state, pieces, weights_of(state), to_feed=1)
    tokenizer = TextTokenizer(engine.tokenizer)

    def encoded(text: str) -> Sequence[int]:
        return tokenizer.encode(text, with_special_tokens=True) or _first(engine)

    rows = read_prompts(prompt, encoded, engine.tokenizer, attention_mask)
    empty = torch.zeros(len(rows), 0, dtype=torch.int64, device=engine.device)
    nothing = SequenceState(empty, torch.zeros(len(rows), 1, device=engine.device), empty, None, engine.tokenizer)
    return put_together(nothing, [RowPiece(row, 0, ids) for row, ids in enumerate(rows)], weights_of(nothing))


def opened(engine: BatchEngine, state: SequenceState) -> SequenceState:
    """Return a state on the engine's device, with its cache if that belongs to the engine's model."""
    saved = state.kv_cache
    if isinstance(saved, SavedCache):
        cache = engine.read(saved, state.rows) if saved.is_there() and saved.kind == engine.kind else None
        state = replace(state, kv_cache=cache, port=engine, cached=0 if cache is None else state.cached)
    elif saved is not None and not engine.owns(state):
        state = replace(state, kv_cache=None, cached=0)
    return state.to(engine.device)


def _with_bos(engine: BatchEngine, state: SequenceState) -> SequenceState:
    """Return a state whose rows from the middle of a text start with BOS, tokenized like a prompt with their text."""
    if not bool(state.lost_bos.any()):
        return state
    lost, tokenizer = state.lost_bos.tolist(), TextTokenizer(engine.tokenizer)
    pieces = []
    for row, ids in enumerate(state.rows):
        found = _as_prompt(engine, ids, tokenizer) if lost[row] else ()
        log_probs = carried(state, row, found)
        pieces.append(RowPiece(row, 0 if lost[row] else len(ids), found, log_probs=log_probs))
    longer = put_together(state, pieces, weights_of(state))
    # Generated tokens stay generated: their number is counted from the end.
    more = longer.attention_masks.sum(1) - state.attention_masks.sum(1)
    first = state.lost_bos.to(torch.int64)
    lengths, seams = (torch.maximum(values + more, first) for values in (state.prompt_lengths, state.seams))
    return replace(longer, prompt_lengths=lengths, seams=seams)


def _as_prompt(engine: BatchEngine, ids: Sequence[int], tokenizer: TextTokenizer) -> list[int]:
    """Return the tokens of a prompt with the same text; if that text differs, the given tokens after a BOS."""
    text = tokenizer.text(ids)
    fresh = tokenizer.encode(text, with_special_tokens=True)
    special, bos = tokenizer.special_ids, _first(engine)
    is_plain = not special.intersection(ids) if special else all(tokenizer.decode([i]) for i in {*ids})
    # Some tokenizers remove a space at the start of a prompt.
    is_read = tokenizer.text(fresh) in (text, text.removeprefix(" "))
    return fresh if is_plain and is_read and fresh[:1] == bos else [*bos, *ids]


def _first(engine: BatchEngine) -> list[int]:
    bos = TextTokenizer(engine.tokenizer).bos_id
    if bos is None:
        raise ConfigurationError("a prompt has no tokens, and the tokenizer no BOS to begin with; give some text")
    return [bos]
