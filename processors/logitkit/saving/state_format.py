"""The file format of a saved state: safetensors, with a description and a digest in the metadata."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from logitkit.errors import StateFileError

__all__ = ["Contents", "decode", "encode"]

FORMAT = "logitkit.state"
VERSION = 1


@dataclass(frozen=True)
class Contents:
    """The contents of a file.

    Args:
        kind: The kind of the processor, including the members of a chain.
        structure: A description of every part of the state, by path.
        rows: The number of rows of the state; None if it has no tensors.
        notes: The notes of each portable part of the state, by path.
        tensors: The tensors on the CPU, by path.
    """

    kind: str
    structure: dict[str, str]
    rows: int | None
    notes: dict[str, Any]
    tensors: dict[str, Tensor]


# The fields in the description, with their types; the tensors are stored beside it.
DESCRIBED: dict[str, Any] = {"kind": str, "structure": dict, "rows": int | None, "notes": dict}


def encode(contents: Contents) -> bytes:
    """Return the bytes of a file."""
    description = json.dumps({name: getattr(contents, name) for name in DESCRIBED})
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "description": description,
        "digest": digest(description, contents.tensors),
    }
    return safetensors.torch.save(contents.tensors, metadata)


def decode(data: bytes) -> Contents:
    """Read the bytes of a file.

    Raises:
        StateFileError: The bytes are not a complete saved state.
    """
    metadata = _metadata(data)
    if metadata.get("format") != FORMAT:
        raise StateFileError("it is a safetensors file, but not one that save_state wrote")
    _check_version(metadata.get("version"))
    try:
        tensors = safetensors.torch.load(data)
    except (SafetensorError, ValueError, KeyError, RuntimeError, TypeError) as error:
        raise StateFileError(f"it is truncated or corrupt ({error})") from error
    description = metadata.get("description", "")
    if digest(description, tensors) != metadata.get("digest"):
        raise StateFileError("it is corrupt: its contents do not have the digest that they were saved with")
    return _contents(description, tensors)


def digest(description: str, tensors: dict[str, Tensor]) -> str:
    """Return the SHA-256 of a description and of tensors, as 64 hexadecimal digits."""
    total = hashlib.sha256(description.encode())
    for path in sorted(tensors):
        tensor = tensors[path]
        total.update(f"\n{path} {tensor.dtype} {list(tensor.shape)}\n".encode())
        # As bytes, because numpy has no bfloat16. It is copied even if torch says that it is contiguous: a tensor of one number
        # may have any strides then, and those cannot be viewed as bytes.
        plain = tensor.clone(memory_format=torch.contiguous_format).reshape(-1)
        total.update(plain.view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def _metadata(data: bytes) -> dict[str, str]:
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise StateFileError("it is not a safetensors file, or truncated")
    try:
        header = json.loads(data[8 : 8 + size])
    except (ValueError, RecursionError):
        raise StateFileError("it is not a safetensors file, or corrupt") from None
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise StateFileError("it is not a file that save_state wrote")
    return metadata


def _contents(description: str, tensors: dict[str, Tensor]) -> Contents:
    # A file with a valid digest can still have been made by hand.
    try:
        found = json.loads(description)
    except (ValueError, RecursionError) as error:
        raise StateFileError(f"its description cannot be read ({error})") from None
    if not isinstance(found, dict) or found.keys() != DESCRIBED.keys():
        raise StateFileError(f"its description must have {', '.join(DESCRIBED)}")
    for name, allowed in DESCRIBED.items():
        if not isinstance(found[name], allowed):
            raise StateFileError(f"its description has {found[name]!r} as {name}")
    return Contents(**found, tensors=tensors)


def _check_version(version: str | None) -> None:
    if version is None or not re.fullmatch("[1-9][0-9]*", version):
        raise StateFileError(f"its format version is {version!r}, which no logitkit wrote")
    if version != str(VERSION):
        raise StateFileError(
            f"its format version is {version} and this logitkit reads up to {VERSION}: update logitkit"
        )
