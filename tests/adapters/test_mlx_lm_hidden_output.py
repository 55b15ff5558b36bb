"""mlx-lm hides output of an earlier generation that is in its cache: refused, where it would pass for the end of the prompt."""

from __future__ import annotations

import re

import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters.mlx_lm import logits_processor, vocabulary
from tests.adapters.demo_mlx_lm import cached, model, plain, speculative, tokenizer

# The prompt and the output so far end alike.
PROMPT, OUTPUT = "I like red,", "red,"


def ids(text: str) -> list[int]:
    return tokenizer().encode(text, add_special_tokens=False)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def regex() -> lk.Regex:
    return lk.Regex("(red, ){3}blue", vocabulary(tokenizer()))


def test_all_tokens_go_on(regex: lk.Regex) -> None:
    hook = logits_processor(regex, prompt=ids(PROMPT))
    written = plain(ids(PROMPT) + ids(OUTPUT), [hook])
    text = vocabulary(tokenizer()).decode(ids(OUTPUT) + written).decode()
    assert re.fullmatch("(red, ){3}blue", text)


@pytest.mark.parametrize("behind", [1, 2])
def test_output_in_a_cache_is_refused(regex: lk.Regex, behind: int) -> None:
    whole = ids(PROMPT) + ids(OUTPUT)
    hook = logits_processor(regex, prompt=ids(PROMPT))
    with pytest.raises(ConfigurationError, match=r"hides|begin neither"):
        plain(whole[-behind:], [hook], prompt_cache=cached(whole[:-behind]))
    # It is as it was.
    assert plain(ids(PROMPT)[-2:], [hook], prompt_cache=cached(ids(PROMPT)[:-2])) == plain(
        ids(PROMPT), [logits_processor(regex)]
    )


def test_so_is_output_before_drafts(regex: lk.Regex) -> None:
    hook = logits_processor(regex, prompt=ids(PROMPT))
    with pytest.raises(ConfigurationError, match="hides"):
        speculative(ids(PROMPT) + ids(OUTPUT), [hook], model())
