"""Caches are limited."""

from __future__ import annotations

from logitkit.compiler.bounded_cache import ENTRY_BYTES, BoundedCache


def test_what_has_grown_too_large_is_forgotten() -> None:
    remembered: BoundedCache[str, int] = BoundedCache(2 * ENTRY_BYTES + 10)
    assert remembered.keep("a", 1, 5) == 1
    assert remembered.keep("b", 2, 5) == 2
    assert remembered == {"a": 1, "b": 2}
    assert remembered.keep("c", 3, 0) == 3
    assert remembered == {"c": 3}
    assert remembered.nbytes == ENTRY_BYTES


def test_one_is_kept_whatever_it_takes() -> None:
    remembered: BoundedCache[str, int] = BoundedCache(1)
    for number, name in enumerate("ab"):
        assert remembered.keep(name, number, 1000) == number
        assert remembered == {name: number}
