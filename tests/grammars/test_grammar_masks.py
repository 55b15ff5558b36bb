"""Random grammars have the masks that Earley's algorithm finds: a short run of the campaign, and a fault that it finds."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from logitkit.compiler.bytes.pushdown_dfa import PushdownDfa
from logitkit.compiler.grammars.dfa import pushdown_dfa
from logitkit.compiler.grammars.rules import Rules
from logitkit.limits import Limits
from tests.campaigns import grammars


def test_masks_are_those_of_the_recogniser() -> None:
    tried = Counter[str]()
    grammars.CAMPAIGN.round(7, tried)
    assert tried["grammars compared"] >= 10
    assert tried["masks"] > tried["grammars compared"]


def test_a_byte_that_is_lost_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(rules: Rules, limits: Limits) -> PushdownDfa:
        dfa = pushdown_dfa(rules, limits)
        step = dfa.step.copy()
        step[:, dfa.byte_class[ord("b")]] = 0
        return dataclasses.replace(dfa, step=step)

    monkeypatch.setattr(grammars, "pushdown_dfa", forgetful)
    case = grammars.Case('root ::= "a" root "c" | "b"', (0, 0))
    with pytest.raises(AssertionError, match=r"engine: b'b' is judged wrongly"):
        grammars.check(case, Counter())
