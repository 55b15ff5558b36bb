"""Saving a state to a file, and loading it in the same or another process."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from logitkit.composition.chain import Chain, members
from logitkit.errors import BatchMismatch, ConfigurationError, StateFileError
from logitkit.protocol.calls import init_checked
from logitkit.protocol.context import Context
from logitkit.protocol.portable import Portable, Renewed
from logitkit.protocol.processor import Processor, batch_size_of, is_processor, name_of
from logitkit.protocol.state import names_of, problem_of, rebuild, rows_of, to, walk
from logitkit.saving.state_format import Contents, decode, encode

__all__ = ["load_state", "save_state"]

T = TypeVar("T")

# Only the structure of a state with this vocabulary size is used. It is larger than any model's, so that every id fits.
COLUMNS = 2**20

ROOT = "state"


def save_state(path: str | os.PathLike[str], state: Any, processor: Processor[Any]) -> None:
    """Write a state to a file that `load_state` reads, in this process or another.

    The file appears complete or not at all. It is a safetensors file. It identifies automata by their content, not by their
    slots in this process.

    Args:
        path: The file to write; an existing one is replaced.
        state: A state of `processor`, on any device.
        processor: The processor that created the state; for the state of a chain, the chain.

    Raises:
        ConfigurationError: `processor` is not a processor, or `state` and `processor` are swapped.
        StateFileError: The state has another structure than those of this processor. That its automaton belongs to the processor
            is checked when it is loaded.
        StaleAutomaton: The state outlived the processor that its automaton belongs to.
        OSError: The file cannot be written.

    Example:
        >>> import tempfile
        >>> import logitkit as lk
        >>> penalty = lk.RepetitionPenalty(1.2)
        >>> state = penalty.init_state(lk.Context.of([[1, 2]], vocabulary_size=4))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     lk.save_state(f"{folder}/state.safetensors", state, penalty)
        ...     lk.load_state(f"{folder}/state.safetensors", penalty).occurred.ids[:, :2].tolist()
        [[1, 2]]
    """
    if is_processor(state) and not is_processor(processor):
        raise ConfigurationError(
            f"state is the processor {name_of(state)}, and processor is of type {type(processor).__name__}; the order is "
            "save_state(path, state, processor)"
        )
    kind, given = kind_of(processor), describe(state)
    problem = difference(given, describe(template(processor)))
    if problem:
        raise StateFileError(f"the state is not one of {kind}: {problem}; give the processor that made it")
    rows = _row_count(state)
    notes: dict[str, Any] = {}
    tensors: dict[str, Tensor] = {}
    _take_apart(state, processor, ROOT, tensors, notes)
    _write(Path(path), encode(Contents(kind=kind, structure=given, rows=rows, notes=notes, tensors=tensors)))


def load_state(path: str | os.PathLike[str], processor: Processor[Any], device: torch.device | str = "cpu") -> Any:
    """Read a state written by `save_state`.

    Args:
        path: The file.
        processor: A processor equal to the one that the state was saved with. Numbers among its parameters are not compared; a
            state that holds them, as one of a penalty does, goes on with its own. Every automaton of the state must belong to
            this processor or to another one that is in use on `device` and stays alive; at least one must belong to this one,
            unless no row is constrained.
        device: The device of the returned state.

    Returns:
        The state; it continues like the state that was saved.

    Raises:
        StateFileError: The file is truncated, corrupt, not a saved state, of a newer version, or belongs to a processor of
            another kind, or with other automata.
        OSError: The file cannot be read.

    Example:
        See `save_state`.
    """
    like = template(processor)
    where = torch.device(device)
    try:
        return to(_bound(decode(Path(path).read_bytes()), like, processor, where), where)
    except StateFileError as error:
        raise StateFileError(f"cannot load a state from {os.fspath(path)}: {error}") from error.__cause__


def kind_of(processor: Processor[Any]) -> str:
    """Return the kind of a processor: the names of its class and of all processors in it, in order."""
    if isinstance(processor, Chain):
        return f"chain({', '.join(kind_of(p) for p in processor.processors)})"
    return name_of(processor)


def template(processor: Processor[Any]) -> Any:
    """Return a state of the processor, used only for its structure."""
    if not is_processor(processor):
        given = (
            f"the class {processor.__name__}" if isinstance(processor, type) else f"of type {type(processor).__name__}"
        )
        raise ConfigurationError(f"processor is {given}; give the processor that the state belongs to")
    rows = batch_size_of(processor)
    return init_checked(processor, Context.of([[]] * (1 if rows is None else rows), vocabulary_size=COLUMNS))


def describe(state: Any) -> dict[str, str]:
    """Describe every part of a state by path: a class with its fields, or a dtype and number of dimensions."""
    return {path: _described(part) for path, part in walk(state)}


def _described(part: Any) -> str:
    if isinstance(part, Tensor):
        return f"{str(part.dtype).removeprefix('torch.')} of {part.dim()} dimensions"
    if isinstance(part, tuple):
        return f"{type(part).__name__}({', '.join(names_of(part))})"
    return type(part).__name__


def difference(found: dict[str, str], wanted: dict[str, str]) -> str | None:
    """Return the first difference between two descriptions, or None."""
    for path in (*wanted, *found):
        if found.get(path) != wanted.get(path):
            return f"{path} is {found.get(path, 'missing')}, but should be {wanted.get(path, 'absent')}"
    return None


def _parts(state: tuple[Any, ...], processor: Processor[Any], path: str) -> Iterator[tuple[Any, Processor[Any], str]]:
    # The state of a chain is the plain tuple of its processors' states; any other state belongs to one processor.
    of_chain = isinstance(processor, Chain) and not hasattr(state, "_fields")
    owners = members(processor) if of_chain else [processor] * len(state)
    return zip(state, owners, (f"{path}.{name}" for name in names_of(state)), strict=True)


def _take_apart(
    state: Any, processor: Processor[Any], path: str, tensors: dict[str, Tensor], notes: dict[str, Any]
) -> None:
    if isinstance(state, Tensor):
        # A copy, because fields of a state may share memory.
        tensors[path] = state.detach().to("cpu", copy=True).contiguous()
        return
    if isinstance(state, Portable):
        state, notes[path] = state.to_portable(processor)
    for part, owner, name in _parts(state, processor, path):
        _take_apart(part, owner, name, tensors, notes)


def _bound(contents: Contents, like: Any, processor: Processor[Any], device: torch.device) -> Any:
    """Return the state in a file, on the CPU, if it belongs to this processor."""
    kind, wanted = kind_of(processor), describe(like)
    if contents.kind != kind:
        raise StateFileError(f"it holds a state of {contents.kind}, not of {kind}; give the processor that wrote it")
    contents = _renewed(contents, like)
    tensors = {path: _described(tensor) for path, tensor in contents.tensors.items()}
    leaves = {path: text for path, text in wanted.items() if not text.endswith(")")}
    problem = difference(contents.structure, wanted) or difference(tensors, leaves)
    if problem:
        raise StateFileError(f"its state is not one of this {kind}: {problem}")
    rows = _row_count(tuple(contents.tensors.values()))
    if rows != contents.rows:
        raise StateFileError(f"its tensors have {rows} rows, but it says that there are {contents.rows}")
    return _put_together(like, processor, ROOT, contents, device)


def _renewed(contents: Contents, like: Any) -> Contents:
    """Return the contents of a file with the present structure, if an earlier version wrote it."""
    for path, part in walk(like, ROOT):
        if not isinstance(part, Renewed) or contents.structure.get(path) in (None, _described(part)):
            continue
        _row_count(tuple(contents.tensors.values()))
        inside = f"{path}."
        older = {name.removeprefix(inside): t for name, t in contents.tensors.items() if name.startswith(inside)}
        now = list(walk(part.renewed(older), path))
        structure, tensors = _without(contents.structure, inside), _without(contents.tensors, inside)
        structure |= {name: _described(value) for name, value in now}
        tensors |= {name: value for name, value in now if isinstance(value, Tensor)}
        contents = replace(contents, structure=structure, tensors=tensors)
    return contents


def _without(by_path: dict[str, T], inside: str) -> dict[str, T]:
    """Return what is not in a part of a state, given the beginning of the paths there."""
    return {name: value for name, value in by_path.items() if not f"{name}.".startswith(inside)}


def _put_together(like: Any, processor: Processor[Any], path: str, contents: Contents, device: torch.device) -> Any:
    # On the CPU: corrupt values must not reach another device. `device` is where the state will be used.
    if isinstance(like, Tensor):
        return contents.tensors[path]
    parts = [_put_together(part, owner, name, contents, device) for part, owner, name in _parts(like, processor, path)]
    state = rebuild(like, parts)
    problem = problem_of(state)
    if problem:
        raise StateFileError(f"{path} is corrupt: {problem}")
    if isinstance(state, Portable):
        if path not in contents.notes:
            raise StateFileError(f"its notes on {path} are missing")
        state = state.from_portable(contents.notes[path], processor, device)
    return state


def _row_count(state: Any) -> int | None:
    try:
        return rows_of(state)
    except BatchMismatch as error:
        raise StateFileError(str(error)) from None


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
