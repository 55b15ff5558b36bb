"""The GGUF file format, version 3: metadata by key, then float32 tensors."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["UInt32", "encode_gguf"]

_MAGIC, _VERSION, _ALIGNMENT = b"GGUF", 3, 32
_STRING, _ARRAY = 8, 9
_TENSOR_OF_FLOAT32 = 0


class UInt32(int):
    """A number stored as uint32; other integers are stored as int32."""


Scalar = bool | int | float | str

# The number and the layout of each type of fixed size.
_FIXED = {UInt32: (4, "<I"), int: (5, "<i"), float: (6, "<f"), bool: (7, "<?")}


def encode_gguf(metadata: Mapping[str, Scalar | Sequence[Scalar]], tensors: Mapping[str, NDArray[np.float32]]) -> bytes:
    r"""Return the content of a GGUF file.

    Args:
        metadata: By key: a boolean, an integer, a float (stored as float32), a text, or a non-empty list of these, all of the
            same type.
        tensors: By name, in C order. The file lists the sizes in reverse, the innermost first.

    Returns:
        The complete file.

    Example:
        >>> encode_gguf({"general.architecture": "llama"}, {"a": np.zeros((2, 3), np.float32)})[:5]
        b'GGUF\x03'

    Source: the specification of GGUF, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
    """
    head = [_MAGIC, struct.pack("<IQQ", _VERSION, len(tensors), len(metadata))]
    head += [_text(key) + _typed(value) for key, value in metadata.items()]
    data: list[bytes] = []
    offset = 0
    for name, tensor in tensors.items():
        sizes = tensor.shape[::-1]
        head.append(_text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, _TENSOR_OF_FLOAT32, offset))
        data.append(_padded(np.ascontiguousarray(tensor, "<f4").tobytes()))
        offset += len(data[-1])
    return _padded(b"".join(head)) + b"".join(data)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _typed(value: Scalar | Sequence[Scalar]) -> bytes:
    if isinstance(value, str) or not isinstance(value, Sequence):
        kind, encoded = _scalar(value)
        return struct.pack("<I", kind) + encoded
    kinds, items = zip(*map(_scalar, value), strict=True)
    assert len(set(kinds)) == 1
    return struct.pack("<IIQ", _ARRAY, kinds[0], len(items)) + b"".join(items)


def _scalar(value: Scalar) -> tuple[int, bytes]:
    if isinstance(value, str):
        return _STRING, _text(value)
    kind, layout = _FIXED[type(value)]
    return kind, struct.pack(layout, value)


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % _ALIGNMENT)
