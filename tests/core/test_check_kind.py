"""The check of a registered kind when a server starts: its examples keep the laws, and may share a call only if they can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from torch import Tensor

import logitkit as lk
from logitkit.configuration import KINDS, RegisteredKind
from logitkit.conformance import check_kind
from logitkit.errors import ConfigurationError, ProcessorError
from tests.own import EveryNth, OwnTopA
from tests.pipeline.test_registered import FromState
from tests.registry import vocabulary


def check() -> None:
    kind = KINDS["mine"]
    assert isinstance(kind, RegisteredKind)
    check_kind(kind, vocabulary(), cases=6)


def test_sound_kinds_pass() -> None:
    for factory in (OwnTopA, EveryNth, FromState):
        lk.register("mine", factory)
        check()
        del KINDS["mine"]


@pytest.mark.parametrize("factory", [OwnTopA, EveryNth])
def test_parameters_that_are_not_in_the_state_are_found(factory: Any) -> None:
    """`process_logits` reads `self.a`, so one of them would run the rows of others with its own."""
    lk.register("mine", factory, parameters_in_state=True)
    with pytest.raises(
        ProcessorError, match=r"'mine' cannot be served: .* breaks the law \"all parameters are in the state\""
    ):
        check()


def test_one_example_proves_nothing() -> None:
    lk.register("mine", FromState, examples=[{"by": 1}, {"by": 1}])
    with pytest.raises(ConfigurationError, match=r"'mine' cannot be served: .* two different examples; give two"):
        check()


def test_an_example_that_is_refused_is_named() -> None:
    lk.register("mine", OwnTopA, examples=[{"a": 2}])
    with pytest.raises(ConfigurationError, match=r"'mine' cannot be served: config\['mine'\]\['a'\] is 2"):
        check()


@dataclass(frozen=True)
class LooksAtOthers(OwnTopA):
    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        return state, logits - logits.amax()


def test_a_broken_law_is_named() -> None:
    lk.register("mine", LooksAtOthers)
    with pytest.raises(ProcessorError, match='LooksAtOthers breaks the law "'):
        check()
