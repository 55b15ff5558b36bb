"""The states of rows that lack a step: with them a step leaves a row bit for bit as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from logitkit.automata.automaton_state import AutomatonState
from logitkit.automata.bank import NEUTRAL
from logitkit.automata.byte_dfa import FIRST_STATE
from logitkit.automata.place import NO_LIMIT
from logitkit.automata.pushdown_state import PushdownState
from logitkit.constraints.constraint import AutomatonConstraint
from logitkit.constraints.pushdown_constraint import PushdownConstraint
from logitkit.context import Context
from logitkit.penalties.dry import Dry
from logitkit.penalties.frequency import FrequencyPenalty
from logitkit.penalties.no_repeat_ngram import NoRepeatNGram
from logitkit.penalties.presence import PresencePenalty
from logitkit.penalties.repetition import RepetitionPenalty
from logitkit.pipeline.ending import Ending
from logitkit.processor import Processor
from logitkit.reasoning.thinking_budget import ThinkingBudget
from logitkit.reasoning.thinking_state import ThinkingState
from logitkit.sampling.min_p import MinP
from logitkit.sampling.temperature import Temperature
from logitkit.sampling.top_k import TopK
from logitkit.sampling.top_n_sigma import TopNSigma
from logitkit.sampling.top_p import TopP
from logitkit.sampling.typical_p import TypicalP
from logitkit.sampling.xtc import Xtc
from logitkit.stopping.stop_state import NO_TOKEN, StopState
from logitkit.stopping.stop_strings import StopStrings
from logitkit.tokens.allow import AllowState, AllowTokens
from logitkit.tokens.ban import BanTokens
from logitkit.tokens.bias import LogitBias
from logitkit.tokens.forced import ForcedTokens
from logitkit.tokens.min_new import MinNewState, MinNewTokens

__all__ = ["neutral_state"]


def neutral_state(step: type, context: Context) -> Any:
    """Return the state of rows that lack a step.

    Args:
        step: One of `ORDER`.
        context: The rows.
    """
    return _NEUTRAL[step](context)


def _of(processor: Processor[Any]) -> Callable[[Context], Any]:
    return processor.init_state


def _full(context: Context, value: int) -> Tensor:
    return torch.full((context.batch_size,), value, dtype=torch.int64, device=context.device)


def _no_ids(context: Context) -> Tensor:
    return torch.empty((context.batch_size, 0), dtype=torch.int32, device=context.device)


def _nowhere(context: Context) -> AutomatonState:
    return AutomatonState(_full(context, NEUTRAL), _full(context, 0), _full(context, FIRST_STATE))


def _outside(context: Context) -> PushdownState:
    stack = torch.zeros((context.batch_size, 0), dtype=torch.int32, device=context.device)
    return PushdownState(_nowhere(context), stack, _full(context, NO_LIMIT))


# Histories of one token, which is as little as there is.
_NEUTRAL: dict[type, Callable[[Context], Any]] = {
    LogitBias: _of(LogitBias({})),
    RepetitionPenalty: _of(RepetitionPenalty(1.0, window=1, include_prompt=False)),
    FrequencyPenalty: _of(FrequencyPenalty(0.0, window=1)),
    PresencePenalty: _of(PresencePenalty(0.0, window=1)),
    Dry: _of(Dry(0.0, base=1.0, allowed_length=0, breakers=(), window=1, include_prompt=False)),
    AllowTokens: lambda context: AllowState(_no_ids(context)),
    BanTokens: _of(BanTokens(())),
    MinNewTokens: lambda context: MinNewState(_no_ids(context), _full(context, 0)),
    ForcedTokens: _of(ForcedTokens(())),
    NoRepeatNGram: _of(NoRepeatNGram(0, window=1, include_prompt=False)),
    AutomatonConstraint: _nowhere,
    PushdownConstraint: _outside,
    ThinkingBudget: lambda context: ThinkingState(
        _nowhere(context), _full(context, 0), _full(context, 0), _full(context, 1)
    ),
    StopStrings: lambda context: StopState(
        _nowhere(context), _full(context, FIRST_STATE), _full(context, NO_TOKEN), _full(context, 0), _full(context, 0)
    ),
    Ending: _of(Ending(())),
    Temperature: _of(Temperature(1.0)),
    TopK: _of(TopK(0)),
    TopNSigma: _of(TopNSigma(0)),
    TypicalP: _of(TypicalP(1.0)),
    TopP: _of(TopP(1.0)),
    MinP: _of(MinP(0.0)),
    Xtc: _of(Xtc(0.0)),
}
