"""The cost of compiling: hostile patterns are refused in time, and large harmless ones compile."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import logitkit as lk
from logitkit.compiler.language import byte_dfa_of
from logitkit.errors import PatternTooLarge
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.patterns import parse
from logitkit.runtime.walk import Walk
from tests.automata.hostile_patterns import HOSTILE
from tests.examples import selected

ROOT = Path(__file__).parents[2]

# Two seconds on a quiet machine; a busy one slows even the time of the process itself.
MOST_SECONDS = 8.0
MOST_MEGABYTES = 500

RECORDS = "|".join(rf"rec{i}:\w+ (?:\d+|[A-Z]*);[^;\n]{{1,{20 + i % 30}}}" for i in range(200))

HONEST = {
    r"[\s\S]{1,2000}": ("a\nb", ""),
    r"(- [^\n]{1,80}\n){1,10}": ("- a\n- b\n", "- a"),
    r"\w{1,64}": ("слово", "a b"),
    r"\w{1,64}@\w{1,63}(\.\w{1,63}){1,3}": ("я@пример.рф", "a@b"),
    r".{0,200}": ("", "\n"),
    "(a|b)*a(a|b){10}": ("abbbbbbbbbb" * 2, "b" * 11),
    RECORDS: ("rec17:ab 12;text", "rec17:ab 12;"),
}


@pytest.fixture(scope="module")
def reports(request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    """The result of each hostile pattern of the tests that run, in a process of its own, since others take memory too."""
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "processors")))
    result = subprocess.run(
        [sys.executable, "-m", "tests.automata.hostile_patterns", *selected(request, "name")],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return {report["name"]: report for report in map(json.loads, result.stdout.splitlines())}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pattern_compiles_or_is_refused_in_time(name: str, reports: dict[str, dict[str, Any]]) -> None:
    assert len(HOSTILE[name]) <= 10_000
    report = reports[name]
    assert report["seconds"] < MOST_SECONDS
    assert report["megabytes"] < MOST_MEGABYTES
    assert re.search(
        r"^\d+ states$|more than \d+ s(?:tates|teps); .* limits=Limits\((?:states|work)=", report["outcome"]
    )


@pytest.mark.parametrize("name", ["exponential", "nested counts", "nested optional counts", "counts twenty deep"])
def test_what_grows_exponentially_is_refused(name: str) -> None:
    with pytest.raises(PatternTooLarge, match="more than 50000 states"):
        byte_dfa_of(parse(HOSTILE[name]), DEFAULT_LIMITS)


@pytest.mark.parametrize("pattern", HONEST, ids=lambda p: p[:30])
def test_a_large_honest_pattern_compiles(pattern: str, tekken: lk.Vocabulary) -> None:
    automaton = lk.Regex(pattern, tekken).automaton
    ids = {t: i for i, t in enumerate(tekken.tokens) if t and len(t) == 1}
    for text, expected in zip(HONEST[pattern], (True, False), strict=True):
        walk = Walk.start(automaton).after(*(ids[bytes([byte])] for byte in text.encode()))
        assert walk.may_end() == expected


def test_the_message_names_the_limit_and_how_to_raise_it() -> None:
    tree = parse("(a|b)*a(a|b){12}")
    with pytest.raises(PatternTooLarge) as states:
        byte_dfa_of(tree, Limits(states=1000))
    assert str(states.value) == (
        "the automaton has more than 1000 states; simplify the pattern, or pass limits=Limits(states=...) with a larger number"
    )
    with pytest.raises(PatternTooLarge) as work:
        byte_dfa_of(tree, Limits(work=1000))
    assert str(work.value) == (
        "compiling the pattern takes more than 1000 steps; simplify the pattern, or pass limits=Limits(work=...) with a "
        "larger number"
    )
    assert byte_dfa_of(tree, Limits(states=10_000)).accepts(b"a" * 13)


def test_the_work_limit_counts_token_classes_too(tekken: lk.Vocabulary) -> None:
    pattern = r"x[\s\S]{1,500}"
    work = 40_000
    byte_dfa_of(parse(pattern), Limits(work=work))
    with pytest.raises(PatternTooLarge, match=f"more than {work} steps"):
        lk.Regex(pattern, tekken, limits=Limits(work=work))


def test_a_limit_is_part_of_what_is_cached(tekken: lk.Vocabulary) -> None:
    assert lk.Regex("a{30}", tekken).automaton.states > 30
    with pytest.raises(PatternTooLarge):
        lk.Regex("a{30}", tekken, limits=Limits(states=20))
