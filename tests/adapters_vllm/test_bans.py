"""Bans of tokens, by a configuration or by vLLM's own parameters, are part of the language that a constraint is compiled for."""

from __future__ import annotations

import gc
import itertools
import json
import pickle
import weakref
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
import torch

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters.admission.bans import NO_BANS, EngineBans
from logitkit_adapters.admission.configurations import Configurations
from logitkit_adapters.vllm.parameters import asked, engine_bans

TOKENS = [*(bytes([byte]) for byte in range(256)), b'"}', b"}}", b"ab", None, None]
AND_QUOTE, TWO, AB, EOS = 256, 257, 258, 259
BRACE = ord("}")
OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
TREE = {**OBJECT, "properties": {"a": {"enum": [1, "b"]}, "c": {"$ref": "#"}}}


@pytest.fixture(scope="module")
def configurations() -> Configurations:
    return Configurations(lk.Vocabulary(TOKENS, eos_ids=[EOS], special={"</s>": EOS, "<t>": EOS + 1}))


def params(config: Any, **own: Any) -> Any:
    return SimpleNamespace(extra_args={"logitkit": config}, max_tokens=30, **own)


def processor(configurations: Configurations, config: Any, **own: Any) -> Any:
    what = asked(params(config, **own))
    assert what is not None
    return configurations.processor(what)


def written(made: Any, banned: set[int], seed: int) -> bytes:
    """Write a random text with an engine that bans some tokens itself, before the processor runs."""
    generator = torch.Generator().manual_seed(seed)
    context = lk.Context.of([[]], vocabulary_size=len(TOKENS), max_length=30)
    state, text = made.init_state(context), b""
    for _ in range(31):
        logits = torch.randn(1, len(TOKENS), generator=generator)
        logits[0, [*banned]] = -torch.inf
        processed = made.process_logits(state, logits, context)[1]
        token = int(torch.multinomial(processed.softmax(1), 1, generator=generator))
        if token == EOS:
            break
        assert token not in banned
        text += TOKENS[token] or b""
        state = made.advance(state, torch.tensor([token]))
    return text


CLOSING = {"json_schema": {"schema": OBJECT, "closing": True}}
NESTED = {"json_schema": {"schema": TREE, "closing": True}}
ALL_BUT = [i for i in range(len(TOKENS)) if i not in (BRACE, AND_QUOTE, TWO)]


@pytest.mark.parametrize(
    "config", [CLOSING, NESTED, {"regex": "a[0-9]}"}, {"json_schema": OBJECT}, {"json_schema": TREE}]
)
@pytest.mark.parametrize(
    ("more", "own", "names"),
    [
        ({"ban_tokens": [BRACE, AND_QUOTE, TWO]}, {}, "ban_tokens"),
        ({"allow_tokens": ALL_BUT}, {}, "allow_tokens"),
        ({}, {"allowed_token_ids": ALL_BUT}, "allowed_token_ids"),
        ({}, {"bad_words_token_ids": [[BRACE], [AND_QUOTE], [TWO]]}, "bad_words"),
        ({"ban_tokens": [TWO]}, {"bad_words_token_ids": [[AND_QUOTE], [BRACE]]}, "ban_tokens and bad_words"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_bans_that_leave_no_text_are_refused_by_name(
    configurations: Configurations, config: Any, more: Any, own: Any, names: str
) -> None:
    with pytest.raises(
        ConfigurationError, match=f"spell no text that .* without the tokens that are forbidden by {names}$"
    ):
        processor(configurations, {**config, **more}, **own)


def test_bans_in_a_chain_count_too(configurations: Configurations) -> None:
    with pytest.raises(ConfigurationError, match="forbidden by ban_tokens"):
        processor(configurations, {"chain": [{"ban_tokens": [BRACE]}, {"chain": [{"regex": "a}"}]}]})


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("schema", [TREE, {"enum": [{"a": {"a": 1}}, {"a": "b"}]}])
def test_what_is_left_is_written_without_them(configurations: Configurations, schema: Any, seed: int) -> None:
    for banned in ({BRACE}, {BRACE, TWO, ord("1")}, {TWO, AND_QUOTE}):
        words = [[token] for token in banned]
        try:
            made = processor(
                configurations, {"json_schema": {"schema": schema, "closing": 20}}, bad_words_token_ids=words
            )
        except ConfigurationError:
            assert "enum" in schema
            assert banned == {BRACE, TWO, ord("1")}
            continue
        jsonschema.validate(json.loads(written(made, banned, seed)), schema)


def test_eos_may_be_left_out_of_allowed_tokens(configurations: Configurations) -> None:
    allowed = [ord("1"), ord("2")]
    made = processor(configurations, {"regex": "[0-9]{3}"}, allowed_token_ids=allowed)
    text = written(made, set(range(len(TOKENS))) - {*allowed, EOS}, 1)
    assert len(text) == 3
    assert set(text) <= set(allowed)


def test_sequences_are_avoided_where_they_are_not_the_only_way(configurations: Configurations) -> None:
    # "ab" may be written as one token or as two, of which the second is banned after the first.
    made = processor(configurations, {"regex": "c?ab"}, bad_words_token_ids=[[ord("a"), ord("b")]])
    assert {written(made, set(), seed) for seed in range(40)} <= {b"ab", b"cab"}
    context = lk.Context.of([[]], vocabulary_size=len(TOKENS))
    legal = made.process_logits(made.init_state(context), torch.zeros(1, len(TOKENS)), context)[1][0] > -torch.inf
    assert legal.nonzero()[:, 0].tolist() == [ord("c"), AB]
    words = [[ord("a"), ord("b")], [AB], [ord("c"), ord("a"), ord("b")]]
    with pytest.raises(ConfigurationError, match=r"no text is allowed by all .*, without .* forbidden by bad_words$"):
        processor(configurations, {"regex": "c?ab"}, bad_words_token_ids=words)


def test_the_sequences_are_those_that_vllm_bans() -> None:
    from vllm.v1.sample.ops.bad_words import apply_bad_words

    from logitkit.constraints.banned_sequences import BannedSequences

    words = [[97, 98], [97, 97, 99], [100], [98, 97, 97]]
    vocabulary = lk.Vocabulary(TOKENS, eos_ids=[EOS])
    banned = BannedSequences(tuple(map(tuple, words)), vocabulary)
    for length in range(5):
        for row in itertools.product((97, 98, 99), repeat=length):
            state = banned.init_state(lk.Context.of([[]], vocabulary_size=len(TOKENS)))
            state = banned.advance(state, torch.tensor([row], dtype=torch.int64).reshape(1, -1)) if row else state
            if bool(banned.is_dead(state)):
                continue
            logits = torch.zeros(1, len(TOKENS))
            apply_bad_words(logits, {0: words}, [[*row]])
            assert torch.equal(banned.allowed_tokens(state), logits > -torch.inf)


@pytest.mark.parametrize(
    ("config", "own"),
    [
        ({"ban_tokens": [*range(len(TOKENS))]}, {}),
        ({"allow_tokens": [5]}, {"allowed_token_ids": [6]}),
        ({"allow_tokens": [5], "ban_tokens": [5]}, {}),
        ({"top_k": 3, "allow_tokens": [5]}, {"bad_words_token_ids": [[5]]}),
    ],
)
def test_some_token_must_be_left(configurations: Configurations, config: Any, own: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"(together leave|^ban_tokens leaves) none of the 261 tokens"):
        processor(configurations, config, **own)


def test_a_constraint_needs_a_token_with_text(configurations: Configurations) -> None:
    with pytest.raises(ConfigurationError, match=r"^allowed_token_ids leaves no token with text"):
        processor(configurations, {"regex": "a*"}, allowed_token_ids=[EOS, EOS + 1])
    processor(configurations, {"top_k": 5}, allowed_token_ids=[EOS, EOS + 1])


def test_other_errors_do_not_name_bans(configurations: Configurations) -> None:
    with pytest.raises(ConfigurationError, match=r"allowed is an integer.*\d$"):
        processor(configurations, {"top_k": "5", "ban_tokens": [5]})
    with pytest.raises(ConfigurationError, match=r"config\['ban_tokens'\] is 'x'"):
        processor(configurations, {"ban_tokens": "x", "regex": "a"})


def test_requests_with_different_bans_are_different(configurations: Configurations) -> None:
    made = [
        processor(configurations, '{"regex": "[ab]"}', bad_words_token_ids=words)
        for words in (None, [[97]], [[97], [97]], [[98]], None)
    ]
    assert made[0] is made[4]
    assert made[1] is made[2]
    assert len({id(one) for one in made}) == 3
    assert [written(one, set(), 3) for one in made[1:4]] == [b"b", b"b", b"a"]


def test_what_is_compiled_for_some_tokens_stays_while_other_requests_come(configurations: Configurations) -> None:
    configurations.processors.limit = 0
    banned = {"bad_words_token_ids": [[ord("a")]]}
    left = weakref.ref(processor(configurations, {"regex": "[ab]"}, **banned).vocabulary)
    for text in ("x", "y", "z"):
        processor(configurations, {"regex": text})
    gc.collect()
    assert left() is processor(configurations, {"regex": "[ab]+"}, **banned).vocabulary


def test_bans_are_read_from_vllm_s_parameters(llm: Any) -> None:
    from vllm import SamplingParams

    config = llm.llm_engine.vllm_config
    given = SamplingParams(bad_words=["}", "New York"], allowed_token_ids=[9, 5, 9])
    found = engine_bans(given, config)
    assert given.bad_words_token_ids is None
    tokenizer = llm.get_tokenizer()
    given.update_from_tokenizer(tokenizer)
    assert found == engine_bans(given, None) == pickle.loads(pickle.dumps(found))
    assert found.allowed == (5, 9)
    assert {tokenizer.decode(list(word)).strip() for word in found.words} == {"}", "New York"}
    assert engine_bans(SamplingParams(), config) is NO_BANS
    assert engine_bans(SamplingParams(bad_words=["}"]), None) == EngineBans()
