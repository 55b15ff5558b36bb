"""All kinds of processors that a configuration may name, in the canonical order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from logitkit.configuration.forms import Boolean, Either, Form, Integer, ListOf, Null, Number, Text, TokenId
from logitkit.configuration.kind import Kind
from logitkit.configuration.maps import ByToken, Moves, State
from logitkit.configuration.nested import Nested
from logitkit.configuration.schemas import SchemaForm, Word
from logitkit.constraints.banned_strings import BannedStrings
from logitkit.constraints.choice import Choice
from logitkit.constraints.dfa import Dfa
from logitkit.constraints.forced_prefix import ForcedPrefix
from logitkit.constraints.json_schema import MOST_DEPTH, JsonSchema
from logitkit.constraints.regex import Regex
from logitkit.constraints.then import Then, then
from logitkit.constraints.then_nested import ThenNested
from logitkit.json_schema.layout import Whitespace
from logitkit.penalties.dry import Dry
from logitkit.penalties.frequency import FrequencyPenalty
from logitkit.penalties.no_repeat_ngram import NoRepeatNGram
from logitkit.penalties.presence import PresencePenalty
from logitkit.penalties.repetition import LEAST, MOST, RepetitionPenalty
from logitkit.penalties.window import LONGEST_WINDOW
from logitkit.reasoning.thinking_budget import ThinkingBudget
from logitkit.sampling.min_p import MinP
from logitkit.sampling.temperature import Temperature
from logitkit.sampling.top_k import TopK
from logitkit.sampling.top_n_sigma import TopNSigma
from logitkit.sampling.top_p import TopP
from logitkit.sampling.typical_p import TypicalP
from logitkit.sampling.xtc import Xtc
from logitkit.stopping.stop_strings import StopStrings
from logitkit.tokens.allow import AllowTokens
from logitkit.tokens.ban import BanTokens
from logitkit.tokens.bias import LogitBias
from logitkit.tokens.forced import ForcedTokens
from logitkit.tokens.min_new import MinNewTokens
from logitkit.vocabulary import Vocabulary

# The key of processors in an order of their own.
CHAIN = "chain"

_COUNTED: dict[str, Form] = {"window": Either((Integer(1, LONGEST_WINDOW), Null())), "include_prompt": Boolean()}


_INSIDE = Either((Nested(), Null()))

_MARKER = Either((TokenId(), Text()))


def _min_new_tokens(n: int, vocabulary: Vocabulary, eos_ids: Sequence[int] | None = None) -> MinNewTokens:
    """Take the vocabulary's EOS ids where none are given."""
    return MinNewTokens(n, vocabulary.eos_ids if eos_ids is None else eos_ids)


def _dry(
    multiplier: float,
    vocabulary: Vocabulary,
    base: float = 1.75,
    allowed_length: int = 2,
    breakers: Sequence[str | int] = ("\n", ":", '"', "*"),
    window: int | None = None,
    include_prompt: bool = True,
) -> Dry:
    """Give it the vocabulary, which it needs only where a breaker is text."""
    return Dry(multiplier, base, allowed_length, breakers, window, include_prompt, vocabulary)


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
    Kind(
        "dry",
        _dry,
        Dry,
        {
            "multiplier": Number(0, 100),
            "base": Number(1, 1000),
            "allowed_length": Integer(0, 4096),
            "breakers": ListOf(Either((TokenId(), Text(raw=False))), 0),
            **_COUNTED,
        },
        "multiplier",
        unwritten=("encode",),
    ),
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
        {"ids": ListOf(TokenId(), 0)},
        "ids",
    ),
    Kind("no_repeat_ngram", NoRepeatNGram, NoRepeatNGram, {"n": Integer(0, 256), **_COUNTED}, "n"),
    Kind("regex", Regex, Regex, {"pattern": Text(0, raw=False)}, "pattern"),
    Kind("choice", Choice, Choice, {"options": ListOf(Text(0))}, "options"),
    Kind("dfa", Dfa, Dfa, {"transitions": Moves(), "start": State(), "accepting": ListOf(State(), 0)}),
    Kind(
        "banned_strings", BannedStrings, BannedStrings, {"strings": ListOf(Text()), "ignore_case": Boolean()}, "strings"
    ),
    Kind("forced_prefix", ForcedPrefix, ForcedPrefix, {"text": Text(0), "then": _INSIDE}, "text"),
    # What may nest stands behind all that cannot: the two are steps of their own where requests share a batch.
    Kind("then", then, Then, {"first": _INSIDE, "second": _INSIDE, "marker": _MARKER}),
    Kind(
        "json_schema",
        JsonSchema,
        JsonSchema,
        {
            "schema": SchemaForm(),
            "whitespace": Word(get_args(Whitespace)),
            "lax": Boolean(),
            "closing": Either((Boolean(), Integer(1, 2**31 - 1))),
            "max_depth": Integer(1, MOST_DEPTH),
        },
        "schema",
        wrapped=True,
    ),
)

_STOPS = (
    Kind(
        "thinking_budget",
        ThinkingBudget,
        ThinkingBudget,
        {"max_tokens": Integer(0, 2**31 - 1), "end": _MARKER, "start": Either((_MARKER, Null()))},
    ),
    Kind(
        "stop_strings",
        StopStrings,
        StopStrings,
        {"stops": ListOf(_MARKER), "include_prompt": Boolean()},
        "stops",
    ),
)

_TEMPERATURES = (Kind("temperature", Temperature, Temperature, {"temperature": Number(0, 1e4)}, "temperature"),)

_KEEP: dict[str, Form] = {"min_tokens_to_keep": Integer(1, 2**31 - 1)}

_TRUNCATIONS = (
    Kind("top_k", TopK, TopK, {"k": Integer(0, 2**31 - 1), **_KEEP}, "k"),
    Kind("top_n_sigma", TopNSigma, TopNSigma, {"n": Number(-1e4, 1e4)}, "n"),
    Kind("typical_p", TypicalP, TypicalP, {"p": Number(1e-6, 1), **_KEEP}, "p"),
    Kind("top_p", TopP, TopP, {"p": Number(0, 1), **_KEEP}, "p"),
    Kind("min_p", MinP, MinP, {"p": Number(0, 1), **_KEEP}, "p"),
    Kind(
        "xtc",
        Xtc,
        Xtc,
        {"probability": Number(0, 1), "threshold": Number(0, 1), "seed": Integer(0, 2**63 - 1)},
        "probability",
    ),
)

_KINDS = (*_BIASES, *_PENALTIES, *_CONSTRAINTS, *_STOPS, *_TEMPERATURES, *_TRUNCATIONS)

KINDS = {kind.name: kind for kind in _KINDS}

# What nests without bound behind a marker is another class, which `then` makes too.
KIND_OF = {**{kind.made: kind for kind in _KINDS}, ThenNested: KINDS["then"]}
