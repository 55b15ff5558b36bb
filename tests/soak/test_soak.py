"""A soak fails where a text is wrong and where a process grows, and not else."""

from __future__ import annotations

import random
import time

import pytest

from tests.soak.attack import Waits
from tests.soak.load import soak


def calm(chance: random.Random) -> str:
    time.sleep(0.01)
    return "calm jobs"


def test_nothing_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert soak([calm], threads=2, minutes=0.04, seed=1, every=0.05) == 0
    said = capsys.readouterr().out
    assert "calm jobs" in said
    assert "bounded" in said


def test_memory_that_grows(capsys: pytest.CaptureFixture[str]) -> None:
    held: list[bytes] = []

    def hoard(chance: random.Random) -> str:
        time.sleep(0.01)
        if len(held) < 300:
            held.append(b"x" * 2**22)  # much for a process of any size
        return "jobs"

    assert soak([hoard], threads=1, minutes=0.04, seed=1, every=0.05) == 1
    assert "GROWS" in capsys.readouterr().out


def test_a_text_that_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    def wrong(chance: random.Random) -> str:
        assert chance.random() > 2, "not a date"
        return "jobs"

    assert soak([calm, wrong], threads=2, minutes=1, seed=1, every=0.05) == 1
    assert "WRONG" in capsys.readouterr().out


def test_waits_that_are_too_long() -> None:
    none = [0.1, 0.1, 0.2]
    assert Waits([0.9, 1.0, 3.1], [0.15, 0.15, 0.9], none).late() == []
    assert Waits([0.9, 1.2, 3.1], [0.15, 0.25, 0.9], none).late() == [
        "a new configuration, median: 1.10 s, allowed are 1.0",
        "a known configuration, median: 0.15 s, allowed are 0.1",
    ]
    assert Waits([0.1, 0.1, 3.3], [0.1], none).late() == ["a new configuration, worst: 3.10 s, allowed are 3.0"]
