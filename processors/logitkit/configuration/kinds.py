"""All kinds of processors that a configuration may name, in the canonical order."""

from __future__ import annotations

from collections.abc import Sequence

from logitkit.configuration.forms import Boolean, Either, Form, Integer, ListOf, Null, Number, Text, TokenId
from logitkit.configuration.kind import Kind
from logitkit.configuration.maps import ByToken, Moves, State
from logitkit.constraints.choice import Choice
from logitkit.constraints.dfa import Dfa
from logitkit.constraints.regex import Regex
from logitkit.penalties.frequency import FrequencyPenalty
from logitkit.penalties.presence import PresencePenalty
from logitkit.penalties.ranges import LONGEST_WINDOW
from logitkit.penalties.repetition import LEAST, MOST, RepetitionPenalty
from logitkit.tokens.allow import AllowTokens
from logitkit.tokens.ban import BanTokens
from logitkit.tokens.bias import LogitBias
from logitkit.tokens.forced import ForcedTokens
from logitkit.tokens.min_new import MinNewTokens
from logitkit.vocabulary import Vocabulary

# The key of processors in an order of their own.
CHAIN = "chain"

_COUNTED: dict[str, Form] = {"window": Either((Integer(1, LONGEST_WINDOW), Null())), "include_prompt": Boolean()}


def _min_new_tokens(n: int, vocabulary: Vocabulary, eos_ids: Sequence[int] | None = None) -> MinNewTokens:
    """Take the vocabulary's EOS ids where none are given."""
    return MinNewTokens(n, vocabulary.eos_ids if eos_ids is None else eos_ids)


_BIASES = (Kind("logit_bias", LogitBias, LogitBias, {"bias": ByToken(Number(-1e4, 1e4))}, "bias", bare=True),)

_PENALTIES = (
    Kind(
        "repetition_penalty",
        RepetitionPenalty,
        RepetitionPenalty,
        {"penalty": Number(LEAST, MOST), **_COUNTED},
        "penalty",
    ),
    Kind(
        "frequency_penalty", FrequencyPenalty, FrequencyPenalty, {"penalty": Number(-100, 100), **_COUNTED}, "penalty"
    ),
    Kind("presence_penalty", PresencePenalty, PresencePenalty, {"penalty": Number(-100, 100), **_COUNTED}, "penalty"),
)

_CONSTRAINTS = (
    Kind("allow_tokens", AllowTokens, AllowTokens, {"ids": ListOf(TokenId())}, "ids"),
    Kind("ban_tokens", BanTokens, BanTokens, {"ids": ListOf(TokenId(), 0)}, "ids"),
    Kind(
        "min_new_tokens",
        _min_new_tokens,
        MinNewTokens,
        {"n": Integer(0, 2**31 - 1), "eos_ids": ListOf(TokenId())},
        "n",
    ),
    Kind(
        "forced_tokens",
        ForcedTokens,
        ForcedTokens,
        {"ids": ListOf(Either((TokenId(), ListOf(TokenId(), 0))), 0)},
        "ids",
    ),
    Kind("regex", Regex, Regex, {"pattern": Text(0, raw=False)}, "pattern"),
    Kind("choice", Choice, Choice, {"options": ListOf(Text(0))}, "options"),
    Kind("dfa", Dfa, Dfa, {"transitions": Moves(), "start": State(), "accepting": ListOf(State(), 0)}),
)

_KINDS = (*_BIASES, *_PENALTIES, *_CONSTRAINTS)

KINDS = {kind.name: kind for kind in _KINDS}

KIND_OF = {kind.made: kind for kind in _KINDS}
