"""Saved sequence states: a folder with tensors, the processor's state, and the cache in the engine's own format."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from logitkit.errors import LogitkitError, StateFileError
from logitkit.protocol.processor import Processor
from logitkit.protocol.state import rows_of
from logitkit.saving.state_file import kind_of, load_state, save_state
from logitkit.sessions.cache_port import SavedCache
from logitkit.sessions.sequence_rows import SequenceRows

__all__ = ["read", "write"]

S = TypeVar("S", bound=SequenceRows)

FILE, PROCESSOR_FILE, CACHE_FOLDER = "sequence.safetensors", "processor.safetensors", "cache"
VERSION = 1
FIELDS = {
    "token_ids": torch.int64,
    "weights": None,
    "open_weights": None,
    "attention_masks": torch.int64,
    "prompt_lengths": torch.int64,
    "seams": torch.int64,
    "finished": torch.bool,
    "lost_bos": torch.bool,
    "token_log_probs": None,
}
# Missing in files of earlier releases.
MAY_LACK = frozenset({"lost_bos", "token_log_probs"})


def write(state: SequenceRows, folder: str | os.PathLike[str]) -> None:
    """Write a state. The file that marks the folder as complete is written last, so a partial state is never read."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    (place / FILE).unlink(missing_ok=True)
    (place / PROCESSOR_FILE).unlink(missing_ok=True)
    notes = {"format": "logitkit sequence", "version": VERSION, "cached": 0, "cache": None, "processor": None}
    if state.processor_state is not None and state.processor is not None:
        save_state(place / PROCESSOR_FILE, state.processor_state, state.processor)
        notes["processor"] = kind_of(state.processor)
    kind = _write_cache(state, place / CACHE_FOLDER)
    if kind is not None:
        notes |= {"cached": state.cached, "cache": kind}
    tensors = {name: getattr(state, name).detach().to("cpu", copy=True).contiguous() for name in FIELDS}
    temporary = place / f".{FILE}.tmp"
    temporary.write_bytes(save(tensors, {"logitkit": json.dumps(notes)}))
    temporary.replace(place / FILE)


def _write_cache(state: SequenceRows, folder: Path) -> str | None:
    """Write the cache of a state, or copy it from its saved folder; return the kind of the cache that was written."""
    kept = state.kv_cache
    if isinstance(kept, SavedCache):
        # Only the engine could write a part of it, and it has not loaded the cache yet.
        if not kept.is_there() or kept.packing is not None:
            return None
        if Path(kept.folder).resolve() != folder.resolve():
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(kept.folder, folder)
        kind = kept.kind
    elif kept is None or state.port is None:
        return None
    else:
        folder.mkdir(exist_ok=True)
        if not state.port.save(kept, folder):
            return None
        kind = state.port.kind
    SavedCache.key_file(folder).write_text(_key(state))
    return kind


def _key(state: SequenceRows) -> str:
    """Return a key that identifies the cached columns."""
    digest = hashlib.sha256()
    for tensor in (state.token_ids, state.attention_masks):
        columns = tensor[:, : state.cached].to("cpu", torch.int64).contiguous()
        digest.update(repr(tuple(columns.shape)).encode() + columns.numpy().tobytes())
    return digest.hexdigest()


def read(kind: type[S], folder: str | os.PathLike[str], tokenizer: Any, processor: Processor[Any] | None) -> S:
    """Read a state of the given class, on the CPU.

    Raises:
        StateFileError: The folder contains no saved state, or one of another processor.
        OSError: It cannot be read.
    """
    place = Path(folder)
    try:
        tensors, notes = _contents(place / FILE)
        cached = notes["cached"] if notes["cache"] is not None else 0
        state = kind(**tensors, tokenizer=tokenizer, cached=int(cached))
        if notes["cache"] is not None:
            cache = SavedCache(
                str(place / CACHE_FOLDER), str(notes["cache"]), _key(state), len(state.token_ids), state.cached
            )
            state = replace(state, kv_cache=cache)
    except (KeyError, TypeError, ValueError, SafetensorError) as error:
        if isinstance(error, LogitkitError) and not isinstance(error, StateFileError):
            raise StateFileError(f"cannot load a sequence from {place}: {error}") from None
        raise StateFileError(f"cannot load a sequence from {place}: SequenceState.save did not write it") from error
    if processor is None:
        return state
    if notes["processor"] is None:
        return replace(state, processor=processor)
    after = load_state(place / PROCESSOR_FILE, processor)
    if rows_of(after) not in (None, len(state.token_ids)):
        raise StateFileError(
            f"cannot load a sequence from {place}: it has {len(state.token_ids)} rows, its processor's state {rows_of(after)}"
        )
    return replace(state, processor=processor, processor_state=after)


def _contents(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    with safe_open(path, framework="pt") as file:
        names = FIELDS.keys() - (MAY_LACK - {*file.keys()})
        tensors = {name: file.get_tensor(name) for name in names}
        notes = json.loads((file.metadata() or {})["logitkit"])
    if notes["version"] != VERSION:
        raise StateFileError(f"it is of version {notes['version']}, and this logitkit reads version {VERSION}")
    for name, values in tensors.items():
        wanted = FIELDS[name]
        if wanted is not None and values.dtype != wanted:
            raise StateFileError(f"its {name} has the dtype {values.dtype}")
    problem = _problem(tensors, notes["cached"])
    if problem:
        raise StateFileError(problem)
    return tensors, notes


def _problem(tensors: dict[str, Tensor], cached: int) -> str | None:
    """Describe an impossible value in a state read from a file, or return None."""
    mask = tensors["attention_masks"]
    lengths = mask.sum(1)
    flags = [values.view(torch.uint8) for values in tensors.values() if values.dtype == torch.bool]
    if any(bool(((values != 0) & (values != 1)).any()) for values in (mask, *flags)):
        return "a mask has values other than 0 and 1"
    if bool((tensors["token_ids"] < 0).any()):
        return "a token id is below 0"
    if not 0 <= cached <= mask.shape[1]:
        return f"{cached} of {mask.shape[1]} columns are cached"
    if tensors["open_weights"].shape != tensors["weights"].shape:
        return "its two weights have different shapes"
    if any(bool(((tensors[name] < 0) | (tensors[name] > lengths)).any()) for name in ("prompt_lengths", "seams")):
        return "a part of a row is longer than the row"
    return None
