"""Random patterns against Python's `re`: which texts match, and which beginnings of texts can still become a match."""

from __future__ import annotations

import re
import signal
import warnings
from collections import Counter, deque
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import logitkit as lk
from logitkit.compiler.bytes.byte_dfa import DEAD, ByteDfa
from logitkit.compiler.language import pattern_dfa
from logitkit.errors import ConfigurationError, PatternSyntaxError, PatternTooLarge
from tests.campaigns.campaign import Campaign, drawn
from tests.patterns.strategies import ALPHABET, patterns, texts_for

LIMITS = lk.Limits(states=5_000, work=200_000)
BYTES = lk.Vocabulary([bytes([b]) for b in range(256)] + [None], eos_ids=[256])
EOS = 256

# Seconds of CPU time for a text. `re` tries all ways in which a pattern can match, and for some patterns that takes hours.
JUDGING_SECONDS = 2.0

# Continuations for a beginning that cannot become a match, in addition to the rest of each text of the case.
ENDINGS = ("", *ALPHABET, "aa", "ab", "a b", "00", "\n\n")

# The first two bytes of each half of a surrogate pair, with which no character begins.
HALVES = tuple(bytes([0xED, second]) for second in range(0xA0, 0xC0))


@dataclass(frozen=True)
class Case:
    """A pattern, and texts that match it or nearly do."""

    pattern: str
    texts: tuple[str, ...]


@st.composite
def cases(draw: DrawFn) -> Case:
    pattern = draw(patterns())
    texts = draw(st.lists(texts_for(pattern), min_size=4, max_size=12))
    return Case(pattern, tuple(text for text in texts if _is_encodable(text)))


class Judge:
    """A pattern of `re` that gives up on a text with TimeoutError.

    Args:
        pattern: The pattern.
    """

    def __init__(self, pattern: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            self._pattern = re.compile(pattern)

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        # `re` looks for signals while it searches. Tests have a timer of their own, which measures another time.
        before = signal.signal(signal.SIGVTALRM, _give_up)
        signal.setitimer(signal.ITIMER_VIRTUAL, JUDGING_SECONDS)
        try:
            return self._pattern.fullmatch(text) is not None
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)


def _give_up(*_: object) -> None:
    raise TimeoutError


def check(case: Case, tried: Counter[str]) -> None:
    try:
        _check(case, Judge(case.pattern), tried)
    except TimeoutError:
        tried["patterns left, as re takes too long"] += 1


def _check(case: Case, judge: Judge, tried: Counter[str]) -> None:
    try:
        regex = lk.Regex(case.pattern, BYTES, limits=LIMITS)
    except PatternTooLarge:
        tried["patterns refused as too large"] += 1
        return
    except PatternSyntaxError as error:
        # The only refusal on purpose of what `re` accepts and the strategy draws.
        if "atomic group" not in str(error):
            raise
        tried["patterns refused, as documented"] += 1
        return
    except ConfigurationError as error:
        if "matches no text" not in str(error):
            raise
        assert not any(map(judge.matches, case.texts)), "a pattern refused as empty has a match"
        tried["patterns without a match"] += 1
        return
    tried["patterns compared"] += 1
    # With these limits, characters may be called; this automaton says how a text can go on in any case.
    dfa = pattern_dfa(case.pattern, lk.Limits(states=1_000_000, work=100_000_000))
    for text in case.texts:
        _check_text(regex, dfa, judge, text, case.texts, tried)


def _check_text(
    regex: lk.Regex, dfa: ByteDfa, judge: Judge, text: str, others: tuple[str, ...], tried: Counter[str]
) -> None:
    spelled = text.encode()
    may_end, may_go_on = _masks_along(regex, spelled)
    matches = judge.matches(text)
    assert may_end[-1] == matches, f"{text!r} {'matches' if matches else 'does not match'} in re"
    tried["texts that match" if matches else "texts that do not match"] += 1
    at = 0
    for character in ["", *text]:
        at += len(character.encode())
        beginning = spelled[:at].decode()
        assert not any(dfa.run(spelled[:at] + half) != DEAD for half in HALVES), f"half of a pair after {beginning!r}"
        assert may_end[at] == judge.matches(beginning), f"may end after {beginning!r}"
        if may_go_on[at]:
            ending = _shortest_ending(dfa, dfa.run(spelled[:at]))
            assert judge.matches(beginning + ending), f"{beginning!r} can go on, but {ending!r} is not a match"
            tried["beginnings that can become a match, seen in re"] += 1
        else:
            for ending in (*ENDINGS, *(other[len(beginning) :] for other in others)):
                assert not judge.matches(beginning + ending), f"{beginning!r} cannot go on; {ending!r} matches in re"
            tried["beginnings that cannot, none of the endings matches in re"] += 1
            return


def _masks_along(regex: lk.Regex, text: bytes) -> tuple[list[bool], list[bool]]:
    """Return for each beginning of a text, from the empty one on, whether EOS is legal, and whether it is alive."""
    rows = len(text) + 1
    tokens = torch.tensor([[*text[:n], *[-1] * (rows - n)] for n in range(rows)])
    context = lk.Context.of([[]] * rows, BYTES.size)
    state = regex.advance(regex.init_state(context), tokens)
    masked = regex.process_logits(state, torch.ones(rows, BYTES.size), context)[1]
    # A dead row is left EOS at logit 0.
    return (masked[:, EOS] == 1).tolist(), (masked == 1).any(1).tolist()


def _shortest_ending(dfa: ByteDfa, state: int) -> str:
    todo, seen = deque([(state, b"")]), {state}
    while todo:
        now, text = todo.popleft()
        if dfa.accepting[now]:
            return text.decode()
        for byte in _one_byte_of_each_class(dfa.byte_class.tobytes()):
            target = int(dfa.step[now, dfa.byte_class[byte]])
            if target != DEAD and target not in seen:
                seen.add(target)
                todo.append((target, text + bytes([byte])))
    raise AssertionError(f"no text ends after state {state} of the automaton")


@cache
def _one_byte_of_each_class(byte_class: bytes) -> tuple[int, ...]:
    classes = np.frombuffer(byte_class, np.int64)
    return tuple(int(np.flatnonzero(classes == c)[0]) for c in np.unique(classes))


def _is_encodable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


CAMPAIGN = Campaign("patterns", "random patterns and texts near them, with Python's `re`", drawn(cases(), 60, check))
