"""Random numbers of a counter: the known hash, uniform, and independent from place to place."""

from __future__ import annotations

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from logitkit.sampling import uniform_rows, uniform_tensors

integers = st.integers(0, 2**63 - 1)
COUNT = 1 << 16


def numbers(seed: torch.Tensor | int, stream: torch.Tensor | int, position: torch.Tensor | int) -> torch.Tensor:
    parts = torch.broadcast_tensors(*(torch.as_tensor(part) for part in (seed, stream, position)))
    flat = [part.flatten().contiguous() for part in parts]
    found = uniform_tensors(flat[0], flat[1], flat[2])
    assert torch.equal(torch.from_numpy(uniform_rows(flat[0], flat[1], flat[2])), found)
    return found.reshape(parts[0].shape)


def reference(*parts: int) -> float:
    """Plain integers, after the paper."""
    mask = 2**64 - 1
    bits = 0
    for part in parts:
        bits = ((bits ^ part) + 0x9E3779B97F4A7C15) & mask
        bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 & mask
        bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB & mask
        bits ^= bits >> 31
    return (bits >> 11) / 2**53


@given(integers, integers, integers)
def test_numbers_are_those_of_plain_integers(seed: int, stream: int, position: int) -> None:
    assert numbers(seed, stream, position).item() == reference(seed, stream, position)


def test_the_hash_is_splitmix64() -> None:
    """The first output of the published generator, seeded with 0, is 0xE220A8397B1DCDAF."""
    first = reference(0)
    assert first == (0xE220A8397B1DCDAF >> 11) / 2**53


def test_numbers_are_uniform() -> None:
    for found in (
        numbers(0, 0, torch.arange(COUNT)),
        numbers(0, torch.arange(COUNT), 7),
        numbers(torch.arange(COUNT), 0, 7),
        numbers(2**63 - 1, 5, torch.arange(COUNT) * 1024),
    ):
        assert 0 <= found.min() < 1e-3
        assert 1 - 1e-3 < found.max() < 1
        # Chi-squared of 256 cells: mean 255, deviation 22.6.
        counts = torch.bincount((found * 256).long(), minlength=256).double()
        chi = ((counts - COUNT / 256) ** 2 / (COUNT / 256)).sum()
        assert 255 - 6 * 22.6 < chi < 255 + 6 * 22.6
        # The low bits too.
        counts = torch.bincount((found * 2**40).long() % 256, minlength=256).double()
        chi = ((counts - COUNT / 256) ** 2 / (COUNT / 256)).sum()
        assert 255 - 6 * 22.6 < chi < 255 + 6 * 22.6


def test_neighbours_are_independent() -> None:
    position, stream, seed = torch.arange(256), torch.arange(256)[:, None], 11
    grid = numbers(seed, stream, position)
    other = numbers(seed + 1, stream, position)
    for a, b in (
        (grid[:, 1:], grid[:, :-1]),
        (grid[1:], grid[:-1]),
        (grid[1:, :-1], grid[:-1, 1:]),
        (grid, grid.T),
        (grid, other),
        (grid[:, ::2], grid[:, 1::2]),
    ):
        pairs = torch.stack([a.flatten(), b.flatten()])
        if a.shape == grid.shape and b.shape == grid.T.shape and not torch.equal(b, other):
            pairs = pairs[:, (~torch.eye(256, dtype=torch.bool)).flatten()]
        assert abs(torch.corrcoef(pairs)[0, 1]) < 6 / math.sqrt(pairs.shape[1])
        cells = torch.bincount(((pairs[0] * 16).long() * 16 + (pairs[1] * 16).long()), minlength=256).double()
        chi = ((cells - cells.mean()) ** 2 / cells.mean()).sum()
        assert 255 - 6 * 32 < chi < 255 + 6 * 32


def test_no_two_places_share_a_number() -> None:
    grid = numbers(3, torch.arange(500)[:, None], torch.arange(500))
    assert len(grid.flatten().unique()) == grid.numel()
