"""Masks of XGrammar beside ours, every difference decided by `re`; the whole comparison is `benchmarks/peer_masks.py`."""

from __future__ import annotations

import re

import pytest

import logitkit as lk
from benchmarks.suite import Entry
from logitkit.compiler.language import pattern_dfa
from logitkit.vocabulary import Vocabulary

pytest.importorskip(
    "xgrammar",
    reason="needs XGrammar: pip install -c constraints.txt apache-tvm-ffi && pip install --no-deps -c constraints.txt xgrammar",
)
pytest.importorskip("outlines_core", reason="needs outlines-core: pip install -c constraints.txt outlines-core")
pytest.importorskip("llguidance", reason="needs LLGuidance: pip install -c constraints.txt llguidance")

from benchmarks.mask_comparison import ALLOWS, DENIES, Comparison, shortest_end
from benchmarks.peers import LIMITS, Logitkit, XGrammar


@pytest.fixture(scope="module")
def peer(sentencepiece_32k: Vocabulary) -> XGrammar:
    return XGrammar(sentencepiece_32k)


def compared(ours: Logitkit, peer: XGrammar, pattern: str, vocabulary: Vocabulary) -> Comparison:
    comparison = Comparison(ours, peer, Entry("", pattern, (), ()), vocabulary)
    comparison.run(40, lambda _: None)
    assert comparison.found.states == 40
    return comparison


@pytest.mark.parametrize("pattern", ["[0-9]{4}-[0-9]{2}", "yes|no", "[a-z]+(?:, [a-z]+)*", r'"[^"\\\n]*"'])
def test_masks_are_those_of_xgrammar(pattern: str, peer: XGrammar, sentencepiece_32k: Vocabulary) -> None:
    found = compared(Logitkit(sentencepiece_32k), peer, pattern, sentencepiece_32k).found
    assert (found.wrong, found.undecided, found.differing) == ([], [], 0)


@pytest.mark.parametrize(("pattern", "kind"), [(r"\d{3}", DENIES), (r"a.{2,9}", ALLOWS)])
def test_re_decides_for_us_where_they_differ(
    pattern: str, kind: str, peer: XGrammar, sentencepiece_32k: Vocabulary
) -> None:
    found = compared(Logitkit(sentencepiece_32k), peer, pattern, sentencepiece_32k).found
    assert (found.wrong, found.undecided) == ([], [])
    assert found.right[kind] > 0


@pytest.mark.parametrize(
    ("given", "instead"), [("[0-9]{2,4}", "[0-8]{2,4}"), ("[0-8]{2,4}", "[0-9]{2,4}"), ("a{2,6}", "a{1,6}")]
)
def test_an_automaton_of_another_language_is_found_out(
    given: str, instead: str, peer: XGrammar, sentencepiece_32k: Vocabulary
) -> None:
    class Mistaken(Logitkit):
        def compile(self, pattern: str) -> lk.Regex:
            return super().compile(instead)

    assert compared(Mistaken(sentencepiece_32k), peer, given, sentencepiece_32k).found.wrong


@pytest.mark.parametrize(("pattern", "text"), [("ab{3}c|d", b"ab"), (r"é+\.", b"\xc3"), ("x*", b"xx")])
def test_shortest_end(pattern: str, text: bytes) -> None:
    end = shortest_end(pattern_dfa(pattern, LIMITS), text)
    assert end is not None
    assert re.fullmatch(pattern, (text + end).decode())


def test_a_dead_text_has_no_end() -> None:
    assert shortest_end(pattern_dfa("ab", LIMITS), b"b") is None
