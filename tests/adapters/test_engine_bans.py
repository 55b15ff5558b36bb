"""Bans of transformers' `generate` that leave none of the tokens that a constraint allows: the hook says so, with the remedy."""

from __future__ import annotations

import copy
import re
import warnings
from typing import Any

import pytest
import torch
import transformers

import logitkit as lk
from logitkit_adapters.transformers import Session, continuous_batching, generate_typed, logits_processor
from logitkit_adapters.transformers.engine_bans import EngineBansWarning
from tests.adapters.demo import model, tokenizer, vocabulary

V = vocabulary()
(EOS,) = V.eos_ids
PROMPT = torch.tensor([[280, 661, 509]])
PATTERN = "a[0-9]{3}"
DIGITS = [i for i, text in enumerate(V.tokens) if text and text.isdigit()]
OTHER = V.tokens.index(b"z")


def processors() -> dict[str, Any]:
    regex = lk.Regex(PATTERN, V)
    return {"alone": regex, "chain": lk.chain(lk.RepetitionPenalty(1.1), regex, lk.TopK(9))}


def generated(prompt: torch.Tensor, hook: Any, given: Any = None, **options: Any) -> list[str]:
    """Return the texts that `generate` writes."""
    ids = (given or model()).generate(prompt, logits_processor=[hook], **{"max_new_tokens": 8, **options})
    begin = 1 if getattr(given, "config", model().config).is_encoder_decoder else prompt.shape[1]
    return [tokenizer().decode(row[begin:], skip_special_tokens=True) for row in ids]


BANS: dict[str, dict[str, Any]] = {
    "forced_eos_token_id": {"forced_eos_token_id": EOS, "max_new_tokens": 3},
    "suppress_tokens": {"suppress_tokens": DIGITS},
    "begin_suppress_tokens": {"begin_suppress_tokens": [V.tokens.index(b"a")]},
    "bad_words_ids": {"bad_words_ids": [[digit] for digit in DIGITS]},
}


@pytest.mark.parametrize("name", ["alone", "chain"])
@pytest.mark.parametrize("ban", BANS)
@pytest.mark.parametrize("how", [{}, {"num_beams": 3}, {"do_sample": True}])
def test_a_row_that_generate_cuts_off_is_reported(name: str, ban: str, how: dict[str, Any]) -> None:
    hook = logits_processor(processors()[name])
    with pytest.warns(EngineBansWarning, match=rf"row \d ends at \d tokens.*{ban}.*as in generate") as caught:
        texts = generated(PROMPT, hook, **BANS[ban], **how)
    assert not any(re.fullmatch(PATTERN, text) for text in texts)
    # Once for each generation.
    assert len([one for one in caught if one.category is EngineBansWarning]) == 1
    hook.new_generation()
    with pytest.warns(EngineBansWarning):
        generated(PROMPT, hook, **BANS[ban], **how)


def test_the_row_that_is_cut_off_is_named() -> None:
    for processor in processors().values():
        hook, scores = logits_processor(processor), torch.zeros(3, V.size)
        scores[1, V.tokens.index(b"a")] = -torch.inf
        with pytest.warns(EngineBansWarning, match="row 1 ends at 3 tokens, prompt included"):
            found = hook(PROMPT.repeat(3, 1), scores)
        assert (found[1] > -torch.inf).nonzero().tolist() == [[EOS]]
        assert (found[0] > -torch.inf).nonzero().tolist() == [[V.tokens.index(b"a")]]


def banned_if_not_zero(logits: torch.Tensor, context: lk.Context) -> torch.Tensor:
    return logits.masked_fill(logits != 0, -torch.inf)


@pytest.mark.parametrize("name", ["alone", "chain"])
def test_other_rows_are_not_reported(name: str) -> None:
    hooks: dict[str, tuple[dict[str, Any], Any]] = {
        "no ban": ({}, processors()[name]),
        "EOS is banned after a complete text": ({"min_new_tokens": 7}, processors()[name]),
        "another token is banned": ({"suppress_tokens": [OTHER]}, processors()[name]),
        "the constraint always allows the end": ({"suppress_tokens": DIGITS}, lk.BannedStrings(["b"], V)),
        "the text is complete at the limit": ({"forced_eos_token_id": EOS, "max_new_tokens": 2}, lk.Regex("a", V)),
        "the processors ban it themselves": ({}, lk.chain(lk.BanTokens(DIGITS), processors()[name])),
        "a function bans it by its logits": ({}, lk.chain(lk.Regex(PATTERN, V), lk.Stateless(banned_if_not_zero))),
        "no constraint": ({"suppress_tokens": DIGITS}, lk.Temperature(2.0)),
    }
    for options, processor in hooks.values():
        with warnings.catch_warnings():
            warnings.simplefilter("error", EngineBansWarning)
            generated(PROMPT, logits_processor(processor), **options)


def configured(**settings: Any) -> Any:
    """Return the model with settings in its generation configuration."""
    found = copy.deepcopy(model())
    for name, value in settings.items():
        setattr(found.generation_config, name, value)
    return found


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"forced_bos_token_id": OTHER}, f"forced_bos_token_id={OTHER}"),
        ({"forced_eos_token_id": EOS}, "forced_eos_token_id"),
        ({"suppress_tokens": [OTHER]}, "suppress_tokens"),
        ({"begin_suppress_tokens": [OTHER]}, "begin_suppress_tokens"),
        ({"bad_words_ids": [[OTHER]]}, "bad_words_ids"),
        ({"no_repeat_ngram_size": 3}, "no_repeat_ngram_size"),
        (
            {"forced_bos_token_id": OTHER, "forced_eos_token_id": [EOS]},
            f"forced_bos_token_id={OTHER}, forced_eos_token_id",
        ),
    ],
)
def test_settings_of_a_known_model_are_named_before_the_first_token(settings: dict[str, Any], named: str) -> None:
    given = configured(**settings)
    for processor in (re.compile(PATTERN), *processors().values()):
        with pytest.warns(
            EngineBansWarning, match=f"`generate` applies {named} of model.generation_config before the hook"
        ):
            logits_processor(processor, tokenizer(), model=given)
    with pytest.warns(EngineBansWarning, match=named), continuous_batching(given, processors()["alone"]):
        pass


@pytest.mark.parametrize(
    ("settings", "processor"),
    [
        ({"forced_bos_token_id": V.tokens.index(b"a")}, lk.Regex(PATTERN, V)),
        ({"suppress_tokens": [EOS, 0]}, lk.Regex(PATTERN, V)),
        ({"suppress_tokens": []}, lk.Regex(PATTERN, V)),
        ({"forced_eos_token_id": EOS, "suppress_tokens": DIGITS}, lk.StopStrings(["."], V)),
        ({"forced_eos_token_id": EOS, "suppress_tokens": DIGITS}, lk.Temperature(0.5)),
    ],
)
def test_harmless_settings_are_not_named(settings: dict[str, Any], processor: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", EngineBansWarning)
        logits_processor(processor, tokenizer(), model=configured(**settings))


def test_sessions_apply_no_bans_of_generate() -> None:
    given = configured(
        forced_bos_token_id=OTHER, forced_eos_token_id=EOS, suppress_tokens=DIGITS, bad_words_ids=[[OTHER]]
    )
    found = generate_typed(given, tokenizer(), [1], re.compile(PATTERN), max_new_tokens=4)
    assert re.fullmatch(PATTERN, found.value)
    with Session(given, tokenizer(), lk.Regex(PATTERN, V)) as session:
        (row,) = session.generate([1], max_new_tokens=3).rows
        assert row.finished == "length"
        (row,) = session.generate([1], max_new_tokens=8).rows
        assert (row.finished, bool(re.fullmatch(PATTERN, row.text))) == ("closed", True)


def test_a_model_with_a_forced_first_token() -> None:
    """Translation models force the language of the output like this."""
    config = transformers.BartConfig(
        vocab_size=V.size, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=64, bos_token_id=1, eos_token_id=EOS, pad_token_id=0,
        decoder_start_token_id=1, forced_eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    given = transformers.BartForConditionalGeneration(config).eval()
    given.generation_config.forced_bos_token_id = OTHER
    with pytest.warns(EngineBansWarning, match=f"forced_bos_token_id={OTHER}.*belongs at the end of the prompt"):
        hook = logits_processor(lk.Regex(PATTERN, V), tokenizer(), model=given)
    with pytest.warns(EngineBansWarning, match="row 0 ends at 1 tokens"):
        assert generated(PROMPT, hook, given) == [""]
    hook = logits_processor(lk.Regex(PATTERN, V))
    begin = torch.tensor([[1, OTHER]])
    (text,) = generated(PROMPT, hook, given, decoder_input_ids=begin, forced_bos_token_id=None)
    assert re.fullmatch(PATTERN, text.removeprefix("z"))
