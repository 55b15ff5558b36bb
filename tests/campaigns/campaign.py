"""Run a campaign: rounds of random cases until the time is over or a case fails, which is then shrunk."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption

# One round draws all its cases from one seed, calls the judge, and raises on a difference.
Round = Callable[[int, Counter[str]], None]


@dataclass(frozen=True)
class Campaign:
    """A comparison with an independent judge.

    Args:
        name: As given to `scripts/fuzz`.
        compares: The subject and the judge, in one line.
        round: Runs a few seconds of cases.
    """

    name: str
    compares: str
    round: Round


@dataclass(frozen=True)
class Result:
    """The result of a campaign.

    Args:
        campaign: Which.
        seed: The seed of its first round; each further round takes the next number.
        seconds: How long it ran.
        tried: The numbers of comparisons.
        failed_seed: The seed of the round that found a difference, or None.
        difference: The error of the last round, with the shrunk case in its notes, or None.
    """

    campaign: Campaign
    seed: int
    seconds: float
    tried: Counter[str] = field(repr=False)
    failed_seed: int | None = None
    difference: Exception | None = None


def run(campaign: Campaign, minutes: float, first_seed: int) -> Result:
    """Run rounds until the minutes are over, at least one, or until the first difference."""
    begin, tried, now = time.monotonic(), Counter[str](), first_seed
    while True:
        try:
            campaign.round(now, tried)
        except Exception as difference:  # noqa: BLE001 - whatever is raised is a finding
            return Result(campaign, first_seed, time.monotonic() - begin, tried, now, difference)
        now += 1
        tried["rounds"] += 1
        if time.monotonic() - begin >= 60 * minutes:
            return Result(campaign, first_seed, time.monotonic() - begin, tried)


def settings_of(cases: int) -> settings:
    """Return the settings of a round: no database and no deadline, and what fails is shrunk."""
    return settings(
        max_examples=cases,
        stateful_step_count=25,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


def drawn(cases: st.SearchStrategy[Any], count: int, check: Callable[[Any, Counter[str]], None]) -> Round:
    """Return the round that checks some cases of a strategy; the counts of shrinking are left out.

    Args:
        cases: Draws a case.
        count: Cases of a round.
        check: Raises on a difference, and counts what it compared.
    """

    def one_round(number: int, tried: Counter[str]) -> None:
        failed = False

        @seed(number)
        @settings_of(count)
        @given(cases)
        def compare(case: Any) -> None:
            nonlocal failed
            found = Counter[str]()
            try:
                check(case, found)
            except UnsatisfiedAssumption:
                raise
            except Exception as difference:
                if not failed:
                    print(
                        f"  {type(difference).__name__} in the round of seed {number}; making the case smaller",
                        flush=True,
                    )
                failed = True
                raise
            if not failed:
                tried.update(found)

        compare()

    return one_round
