"""Garbage collection is as it was after a compilation, however that ended."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import logitkit as lk
from logitkit.compiler.collection import gc_paused
from logitkit.errors import UnsupportedSchema

VOCABULARY = lk.Vocabulary([*[bytes([b]) for b in range(256)], None], eos_ids=[256])


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    assert gc.isenabled()
    yield
    gc.enable()


class Interrupting(dict[str, Any]):
    """A schema during the reading of which someone presses Ctrl-C."""

    def __iter__(self) -> Iterator[str]:
        assert not gc.isenabled()
        raise KeyboardInterrupt


def test_after_a_success() -> None:
    with gc_paused():
        assert not gc.isenabled()
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    lk.JsonSchema({"type": "integer", "minimum": 12_345}, VOCABULARY)
    assert gc.isenabled()


def test_after_a_refusal() -> None:
    for schema in ({"const": 1, "multipleOf": 0.123456789}, {"propertyNames": {"minLength": 10**9}}):
        with pytest.raises(UnsupportedSchema):
            lk.JsonSchema(schema, VOCABULARY)
        assert gc.isenabled()


def test_after_an_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        lk.JsonSchema(Interrupting(type="integer"), VOCABULARY)
    assert gc.isenabled()


def test_where_the_caller_had_it_off() -> None:
    gc.disable()
    lk.JsonSchema({"type": "integer", "minimum": 54_321}, VOCABULARY)
    assert not gc.isenabled()
    with pytest.raises(KeyboardInterrupt):
        lk.JsonSchema(Interrupting(type="integer"), VOCABULARY)
    assert not gc.isenabled()


def test_with_overlapping_compilations_in_threads() -> None:
    first, second, left = threading.Event(), threading.Event(), threading.Event()
    seen: list[bool] = []

    def begins_first() -> None:
        with gc_paused():
            first.set()
            assert second.wait(60)
        seen.append(gc.isenabled())
        left.set()

    def ends_last() -> None:
        assert first.wait(60)
        with gc_paused():
            second.set()
            assert left.wait(60)
            seen.append(gc.isenabled())
        seen.append(gc.isenabled())

    threads = [threading.Thread(target=begins_first), threading.Thread(target=ends_last)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [False, False, True]
