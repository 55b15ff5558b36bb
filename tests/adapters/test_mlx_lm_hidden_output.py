"""mlx-lm hides output of an earlier generation that is in its cache: refused, where it would pass for the end of the prompt."""

from __future__ import annotations

import re
from typing import Any

import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters.mlx_lm import logits_processor, vocabulary
from logitkit_adapters.mlx_lm.caller import CALLER
from tests.adapters.demo_mlx_lm import batch, cached, model, noisy_model, plain, speculative, tokenizer

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


def test_output_in_a_cache_is_refused_by_a_hook_that_knows_the_prompt_from_before(regex: lk.Regex) -> None:
    # The hook sees the same tokens as when it saw only the prompt.
    hook, layers = logits_processor(regex, prompt=ids(PROMPT)), cached(ids(PROMPT)[:-1])
    first = plain(ids(PROMPT)[-1:], [hook], prompt_cache=layers, max_tokens=len(ids(OUTPUT)))
    assert first[-1] == ids(PROMPT)[-1]
    whole = ids(PROMPT) + first
    with pytest.raises(ConfigurationError, match=f"hides {len(whole) - 1} before them"):
        plain(whole[-1:], [hook], prompt_cache=cached(whole[:-1]))
    assert plain(whole, [hook]) == plain(whole, [logits_processor(regex, prompt=ids(PROMPT))])


def test_so_it_is_with_drafts(regex: lk.Regex) -> None:
    hook = logits_processor(regex, prompt=ids(PROMPT))
    whole = ids(PROMPT) + speculative(ids(PROMPT), [hook], model())[:-2]
    longer = [*whole, *ids(PROMPT)[-1:]]
    with pytest.raises(ConfigurationError, match=r"hides \d+ before them"):
        speculative(longer, [hook], model())


def test_how_many_tokens_are_hidden_is_never_said_to_be_more_than_are() -> None:
    found: list[tuple[int, int]] = []

    def watch(tokens: Any, logits: Any) -> Any:
        found.append((CALLER.hidden_tokens(len(tokens)), len(tokens)))
        return logits

    plain([5, 6, 7], [watch], max_tokens=4)
    assert {hidden for hidden, _ in found} == {0}
    found.clear()
    plain([8, 9], [watch], prompt_cache=cached([5, 6, 7]), max_tokens=4)
    assert {hidden for hidden, _ in found} == {3}
    found.clear()
    # They are told apart by how many tokens the first call of each shows.
    batch([[8, 9], [8], [5, 6, 7]], [[watch]] * 3, caches=[cached([5, 6, 7]), cached([]), cached([6])], max_tokens=1)
    assert {(3, 2), (0, 1), (1, 3)} <= {*found} <= {(3, 2), (3, 3), (0, 1), (0, 2), (1, 3), (1, 4)}
    for draft in (model(), noisy_model()):
        found.clear()
        speculative([5, 6, 7, 8], [watch], draft, num_draft_tokens=3, max_tokens=20)
        assert max(hidden for hidden, _ in found) <= 3
    assert CALLER.hidden_tokens(1) == 0
