"""Patterns made to hurt: each compiles, or is refused by name, within time and memory that a server can spare."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# What each does in a fresh process, so that its memory can be told from that of others.
PROBE = """
import json, resource, sys, time
import logitkit as lk
vocabulary = lk.Vocabulary([bytes([b]) for b in range(256)] + [bytes([a, b]) for a in range(256) for b in range(97, 123)]
                           + [None], eos_ids=[256 + 256 * 26])
vocabulary.trie
lk.Regex("a", vocabulary)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.process_time()
try:
    lk.Regex(json.loads(sys.argv[1]), vocabulary)
    verdict = "compiled"
except lk.errors.PatternTooLarge as error:
    verdict = str(error)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([verdict, time.process_time() - start, (after - before) / 1024]))
"""

HOSTILE = {
    "exponential": r"(a|b)*a(a|b){20}",
    "nested counts": "((a{1,100}){1,100}){1,100}",
    "nested empty counts": "(((a?){50}){50}){20}",
    "overlapping products": r"(?=.*a.{12}b)(?=.*c.{13}d)(?=.*e.{14}f).*",
    "26 lookaheads": "".join(f"(?=.*{chr(97 + i)})" for i in range(26)) + ".*",
    "deep lookbehind": r".*(?<=a.{14})b.*",
    "negated lookbehind": r"(?:.*(?<!a.{10}))+b",
    "atomic options": "(?>" + "".join(f"{chr(97 + i)}?" for i in range(20)) + ")z",
    "counted Unicode words": r"\w{1,1000}",
    "ambiguous counts": "(.{1,200},){1,50}",
    "many sets": "".join(f"[{chr(0x100 + i)}-{chr(0x2000 + 3 * i)}]" for i in range(1500)),
    "many overlapping options": "|".join(f"[{chr(0x100 + i)}-{chr(0x2000 + 3 * i)}]x" for i in range(1200)),
    "optional run": "a?" * 2000 + "a" * 1000,
    "coprime loops": "|".join(f"(?:a{{{p}}})*" for p in (1009, 1013)),
    "product of loops": "(?:" + "|".join(f"(?:a{{{p}}})*" for p in (2, 3, 5, 7, 11, 13, 17, 19)) + ")",
    "stars of stars": "(a*)*" * 1500,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_patterns_are_compiled_or_refused_in_bounds(name: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(HOSTILE[name])], capture_output=True, text=True, check=True, timeout=120
    )
    verdict, seconds, megabytes = json.loads(run.stdout)
    assert verdict == "compiled" or "pass limits=Limits(" in verdict
    # Two seconds on a quiet machine; a busy one slows even the time of the process itself.
    assert seconds < 8
    assert megabytes < 500
