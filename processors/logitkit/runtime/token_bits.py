"""Sets of tokens as bits: 32 tokens in each int32, as the bitmasks of vLLM and XGrammar are.

Token 0 is the lowest bit of the first number. For example, tokens 0 and 33 of 40 are the two numbers 1 and 2, and token 31
alone is -2**31, because the highest bit is the sign. With 131,072 tokens, a row takes 16 KiB. The bits after the last token are
0, but 1 in bits for the kernels of others: see `for_kernels`.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = [
    "BITS",
    "change_bits",
    "for_kernels",
    "legal_tokens",
    "no_bits",
    "only",
    "packed",
    "sizes",
    "tokens_of",
    "unpacked",
    "width",
]

BITS = 32


def width(columns: int) -> int:
    """Return how many int32 the set of a row takes."""
    return -(-columns // BITS)


def packed(legal: Tensor) -> Tensor:
    """Return sets of tokens, [B, V] bool, as bits, [B, ceil(V / 32)] int32.

    Example:
        >>> packed(torch.tensor([[True, False, True]])).tolist()
        [[5]]
    """
    rows, columns = legal.shape
    if legal.is_cpu and sys.byteorder == "little" and not torch.compiler.is_compiling():
        made = np.zeros((rows, 4 * width(columns)), np.uint8)
        made[:, : -(-columns // 8)] = np.packbits(legal.numpy(), axis=1, bitorder="little")
        return torch.from_numpy(made.view(np.int32))
    bits = torch.nn.functional.pad(legal, (0, BITS * width(columns) - columns)).reshape(rows, width(columns), BITS)
    # The sum of the shifted bits is their union; the highest one is the sign.
    return (bits.to(torch.int32) << torch.arange(BITS, dtype=torch.int32, device=bits.device)).sum(2, dtype=torch.int32)


def for_kernels(bits: Tensor, columns: int) -> Tensor:
    """Set the bits after the last token, in place, and return the bits.

    XGrammar's kernel for the CPU bans one column too many where the first of them is 0: the first column of the next row.

    Args:
        bits: [B, ceil(V / 32)] int32.
        columns: The number of columns, V.

    Example:
        >>> for_kernels(torch.tensor([[1, 2]], dtype=torch.int32), 34).tolist()
        [[1, -2]]
    """
    if columns % BITS:
        bits[:, -1] |= -1 << columns % BITS
    return bits


def no_bits(columns: int) -> Tensor:
    """Return the empty set, [ceil(V / 32)] int32 on the CPU."""
    return torch.zeros(width(columns), dtype=torch.int32)


def change_bits(bits: Tensor, ids: NDArray[np.int64]) -> None:
    """Put tokens into a set on the CPU, or take them out of it, in place.

    Args:
        bits: [ceil(V / 32)] int32.
        ids: [N], each id once.

    Example:
        >>> bits = no_bits(40)
        >>> change_bits(bits, np.array([0, 33]))
        >>> change_bits(bits, np.array([0]))
        >>> bits.tolist()
        [0, 2]
    """
    np.bitwise_xor.at(bits.numpy().view(np.uint32), ids // BITS, np.uint32(1) << (ids % BITS).astype(np.uint32))


def only(token: int, columns: int) -> Tensor:
    """Return the set of a single token, [ceil(V / 32)] int32."""
    made = no_bits(columns)
    change_bits(made, np.array([token]))
    return made


def unpacked(sets: Tensor, columns: int) -> Tensor:
    """Return sets as `packed` returns them, [B, ceil(V / 32)] int32, as [B, V] bool.

    Example:
        >>> unpacked(torch.tensor([[5]], dtype=torch.int32), 3).tolist()
        [[True, False, True]]
    """
    if sets.is_cpu and sys.byteorder == "little" and not torch.compiler.is_compiling():
        bits = np.unpackbits(sets.contiguous().numpy().view(np.uint8), axis=1, bitorder="little", count=columns)
        return torch.from_numpy(bits.view(np.bool_))
    places = torch.arange(BITS, dtype=torch.int32, device=sets.device)
    return ((sets[:, :, None] >> places) & 1).flatten(1)[:, :columns].to(torch.bool)


def sizes(sets: Tensor) -> NDArray[np.int64]:
    """Return how many tokens sets on the CPU have, [...] for [..., ceil(V / 32)] int32.

    Example:
        >>> sizes(torch.tensor([[5], [-1]], dtype=torch.int32)).tolist()
        [2, 32]
    """
    found: NDArray[np.int64] = np.bitwise_count(sets.numpy().view(np.uint32)).sum(-1, dtype=np.int64)
    return found


def tokens_of(sets: Tensor) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the tokens of sets on the CPU, [B, ceil(V / 32)] int32, as the row and the id of each, [N] and [N], in rising order.

    Example:
        >>> [found.tolist() for found in tokens_of(torch.tensor([[5, 0], [0, 2]], dtype=torch.int32))]
        [[0, 0, 1], [0, 2, 33]]
    """
    numbers = np.ascontiguousarray(sets.numpy(), "<i4").view(np.uint8)
    # Only bytes with a token: sets of few tokens have few of them.
    places = np.flatnonzero(numbers != 0)
    bits = np.flatnonzero(np.unpackbits(numbers.reshape(-1)[places], bitorder="little"))
    rows, ids = np.divmod(8 * places[bits >> 3] + (bits & 7), 8 * numbers.shape[1])
    return rows, ids


def legal_tokens(logits: Tensor) -> Tensor:
    """Return which logits are above -inf, bool of the same shape."""
    if logits.is_cpu and logits.itemsize > 2 and not torch.compiler.is_compiling():
        return torch.from_numpy(logits.numpy() > -np.inf)  # an eighth of torch's time
    return logits > -torch.inf
