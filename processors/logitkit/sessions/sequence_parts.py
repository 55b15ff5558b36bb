"""Slices of a sequence state: some of its rows, and the first tokens or a middle part of each."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import torch

from logitkit.protocol.state import select
from logitkit.sessions.cache_port import SavedCache
from logitkit.sessions.keys import Keys, read_keys
from logitkit.sessions.packing import pack
from logitkit.sessions.sequence_rows import SequenceRows
from logitkit.sessions.text_cut import cut_text
from logitkit.sessions.text_tokenizer import TextTokenizer

__all__ = ["CacheDropped", "RowPiece", "TokenView", "Weights", "carried", "put_together", "sliced", "weights_of"]

S = TypeVar("S", bound=SequenceRows)


class CacheDropped(UserWarning):
    """A slice that does not begin at 0, or a batch, lost its cache: continuing feeds all its tokens to the model again."""


@dataclass(frozen=True, slots=True)
class RowPiece:
    """One row of a new state.

    Args:
        row: The index of the old row.
        kept: The number of first tokens that keep their positions.
        added: The tokens that follow them.
        lost_bos: Whether the piece keeps none of the first tokens, and comes from the middle of a text that began with BOS.
        log_probs: The log-probabilities of the last of the added tokens; the others have none.
    """

    row: int
    kept: int
    added: Sequence[int] = ()
    lost_bos: bool = False
    log_probs: Sequence[float] = ()


class Weights(NamedTuple):
    """The weights of a state; see `SequenceState`.

    Args:
        weights: [B, S].
        open_weights: [B, S].
    """

    weights: torch.Tensor
    open_weights: torch.Tensor


def weights_of(state: SequenceRows) -> Weights:
    """Return both kinds of weights of a state."""
    return Weights(state.weights, state.open_weights)


class TokenView(Generic[S]):
    """`state.tokens`: indexing by tokens instead of characters."""

    def __init__(self, state: S) -> None:
        self._state = state

    def __getitem__(self, key: object) -> S:
        return sliced(self._state, read_keys(key, self._state.batch_size, self._state.num_samples), by_tokens=True)

    def __len__(self) -> int:
        return len(self._state.token_ids)


def sliced(state: S, keys: Keys, by_tokens: bool) -> S:
    """Return the selected rows, and the selected part of each.

    Raises:
        SequenceIndexError: The part is an integer beyond the end of a row.
    """
    rows = [batch * state.num_samples + sample for batch in keys.batches for sample in keys.samples]
    units = state.rows if by_tokens else state.texts
    bounds = [keys.bounds(len(units[row]), "tokens" if by_tokens else "characters") for row in rows]
    piece = _by_tokens if by_tokens else partial(_by_text, is_open=keys.is_open)
    pieces = [piece(state, row, start, stop) for row, (start, stop) in zip(rows, bounds, strict=True)]
    late = next((start for start, _ in bounds if start > 0), None)
    if late is not None and state.kv_cache is not None:
        warnings.warn(
            f"the slice begins at {late}, not at 0, so its tokens move to other positions, for which the cache is not valid; "
            "the cache is dropped, and continuing feeds the slice to the model again",
            CacheDropped,
            stacklevel=3,
        )
        state = replace(state, kv_cache=None, cached=0)
    taken = torch.tensor(rows, device=state.weights.device)
    shape = (len(keys.batches), len(keys.samples))
    return put_together(state, pieces, Weights(*(w.reshape(-1)[taken].reshape(shape) for w in weights_of(state))))


def put_together(state: S, pieces: Sequence[RowPiece], weights: Weights, to_feed: int = 0) -> S:
    """Return a state with the pieces as rows, packed with padding on the left, and the part of the cache that still applies.

    Args:
        state: The state that the pieces come from.
        pieces: The new rows.
        weights: Their weights.
        to_feed: The minimum number of columns at the end that the cache must not cover.
    """
    device = state.token_ids.device
    numbers = [(p.row, p.kept, len(p.added)) for p in pieces]
    rows, kept, added = torch.tensor(numbers, dtype=torch.int64, device=device).reshape(-1, 3).unbind(1)
    packing = pack(state.attention_masks, state.cached, rows, kept, added, to_feed)
    width = packing.columns.shape[1]
    blank = torch.full((len(pieces), 1), TextTokenizer(state.tokenizer).pad_id, dtype=torch.int64, device=device)
    old = torch.cat([state.token_ids[rows], blank], 1)
    columns = torch.where(packing.columns < 0, old.shape[1] - 1, packing.columns)
    ids = old.gather(1, columns)
    log_probs = torch.nn.functional.pad(state.token_log_probs[rows], (0, 1), value=torch.nan).gather(1, columns)
    for row, piece in enumerate(pieces):
        if piece.added:
            ids[row, width - len(piece.added) :] = torch.tensor(list(piece.added), device=device)
        if piece.log_probs:
            log_probs[row, width - len(piece.log_probs) :] = log_probs.new_tensor(list(piece.log_probs))
    whole = (kept == state.attention_masks[rows].sum(1)) & (added == 0)
    cache = None
    if isinstance(state.kv_cache, SavedCache) and packing.cached:
        cache = state.kv_cache.repacked(packing)
    elif state.kv_cache is not None and state.port is not None and packing.cached:
        cache = state.port.repacked(state.kv_cache, packing)
    has_states = state.processor_state is not None and bool(whole.all())
    lengths = kept + added
    return replace(
        state,
        token_ids=ids,
        **weights._asdict(),
        token_log_probs=log_probs,
        attention_masks=packing.masks,
        kv_cache=cache,
        cached=packing.cached if cache is not None else 0,
        processor_state=select(state.processor_state, rows) if has_states else None,
        prompt_lengths=torch.where(kept > 0, torch.minimum(state.prompt_lengths[rows], kept), lengths),
        seams=torch.where(kept > 0, torch.minimum(state.seams[rows], kept), lengths),
        finished=state.finished[rows] & whole,
        lost_bos=torch.where(kept > 0, state.lost_bos[rows], torch.tensor([p.lost_bos for p in pieces], device=device)),
    )


def carried(state: SequenceRows, row: int, tokens: Sequence[int]) -> list[float]:
    """Return the log-probabilities of the tokens with which a row and other tokens end, as far as they are the same."""
    ids = state.rows[row]
    differs = (n for n in range(min(len(ids), len(tokens))) if ids[-1 - n] != tokens[-1 - n])
    count = next(differs, min(len(ids), len(tokens)))
    found: list[float] = state.token_log_probs[row][state.attention_masks[row] == 1].tolist()
    return found[len(found) - count :]


def _by_tokens(state: SequenceRows, row: int, start: int, stop: int) -> RowPiece:
    return RowPiece(row, stop) if start == 0 else RowPiece(row, 0, state.rows[row][start:stop])


def _by_text(state: SequenceRows, row: int, start: int, stop: int, is_open: bool) -> RowPiece:
    if start == 0 and is_open:
        return RowPiece(row, len(state.rows[row]))
    tokenizer, ids = TextTokenizer(state.tokenizer), state.rows[row]
    had_bos = start > 0 and tokenizer.bos_id in ids[:1]
    return RowPiece(row, *cut_text(ids, start, stop, tokenizer), lost_bos=had_bos or bool(state.lost_bos[row]))
