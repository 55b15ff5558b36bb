"""A checksum of the values of a tensor and their order.

It tells models apart whose caches must not be mixed up by mistake. It does not stop an attacker, who could find other values with
the same sums. But the file of a saved state is not signed: whoever may write it may name any model in it, so SHA-256, which takes
three times as long on a CPU, and longer where the values are on a GPU, would protect nobody.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

__all__ = ["checksum"]

# The number of 64-bit words in one sum.
CHUNK = 2**20


def checksum(values: Tensor) -> list[int]:
    """Return sums over all bytes of a tensor, each word multiplied by a number that depends on its position.

    Integer sums do not depend on the order of addition, so all threads and devices agree. Everything is computed on the
    tensor's device, in the time of reading it a few times.

    Args:
        values: A tensor of any shape, dtype and device.

    Example:
        >>> checksum(torch.tensor([1.0, 2.0])) == checksum(torch.tensor([2.0, 1.0]))
        False
    """
    data = values.detach().reshape(-1).contiguous().view(torch.uint8)
    whole = len(data) // 8 * 8
    words = data[:whole]
    # 64-bit words start at multiples of 8 bytes.
    words = (words if words.storage_offset() % 8 == 0 else words.clone()).view(torch.int64)
    factors = _factors(str(words.device))
    sums = [_mixed(part).mul_(factors[: len(part)]).sum() for part in torch.split(words, CHUNK) if len(part)]
    return [*(torch.stack(sums).tolist() if sums else ()), *data[whole:].tolist()]


def _mixed(words: Tensor) -> Tensor:
    # The high bits of a word affect only the highest bits of a product, where two positions may agree; so copy them to the low
    # bits.
    return (words >> 32).bitwise_xor_(words)


@lru_cache(maxsize=4)
def _factors(device: str) -> Tensor:
    """Return a factor for each position in a chunk, [CHUNK] int64: the SplitMix64 finaliser on multiples of an odd number."""
    number = torch.arange(1, CHUNK + 1, device=device) * -0x61C8864680B583EB
    number = (number ^ (number >> 30)) * -0x40A7B892E31B1A47
    number = (number ^ (number >> 27)) * -0x6B2FB644ECCEEE15
    return number ^ (number >> 31)
