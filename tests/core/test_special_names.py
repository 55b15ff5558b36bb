"""Names of special tokens: what a text means, contains, or only looks like."""

from __future__ import annotations

import warnings

import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError

# Ids:                           0     1     2     3     4         5        6
VOCABULARY = lk.Vocabulary(
    [b"a", b"<", b">", None, None, b"<tool>", None],
    eos_ids=[3, 6],
    special={"</s>": 3, "</think>": 4, "<tool>": 5, "<|im_end|>": 6},
)
NAMES = VOCABULARY.special_names


def test_a_name_is_its_token() -> None:
    assert [NAMES.token(text) for text in ("</s>", b"</think>", "<tool>", "</S>", "think", " </s>")] == [
        *(3, 4, 5),
        *(None, None, None),
    ]
    # The bytes of <tool> say all of it already.
    assert (NAMES.letters("</think>"), NAMES.letters("<tool>"), NAMES.letters("a")) == ([4], [], [])
    assert (NAMES.letters("</THINK>"), NAMES.letters("</THINK>", ignore_case=True)) == ([], [4])


@pytest.mark.parametrize("text", ["\n</think>\n\n", "</think></think>", b"\xff</think>", "<<|im_end|>"])
def test_a_text_that_contains_a_name_is_refused(text: str | bytes) -> None:
    name = "<|im_end|>" if "im_end" in str(text) else "</think>"
    with pytest.raises(ConfigurationError) as caught:
        NAMES.check("marker", text)
    message = str(caught.value)
    assert message.startswith(f"marker is {text!r}, which contains the name of a special token and other text")
    assert message.endswith(f"give {name!r}, which means the token {VOCABULARY.special[name]}")


def test_case_is_ignored_where_that_is_asked_for() -> None:
    NAMES.check("strings[0]", "a</THINK>")
    with pytest.raises(ConfigurationError, match="give '</think>'"):
        NAMES.check("strings[0]", "a</THINK>", ignore_case=True)


def test_other_texts_are_allowed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in ("</think>", "<tool>", "a<tool>\n", "</thin", "think>", "</s", "<|", "<|a|> b", "</unknown>"):
            NAMES.check("marker", text)


def test_the_message_is_bounded() -> None:
    with pytest.raises(ConfigurationError) as caught:
        NAMES.check("marker", "x" * 10_000 + "</think>" + "y" * 10_000)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("text", ["<|im_start|>", b"<|im_start|>", "<｜Assistant｜>"])
def test_an_unknown_name_warns_once(text: str | bytes) -> None:
    vocabulary = lk.Vocabulary([b"a", None], eos_ids=1, special={"<|im_end|>": 1})
    with pytest.warns(lk.UnknownSpecialTokenWarning, match="looks like a special token, but the vocabulary has none"):
        lk.StopStrings([text], vocabulary)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lk.TextStream(vocabulary, [text])


def test_warnings_are_bounded() -> None:
    vocabulary = lk.Vocabulary([b"a", None], eos_ids=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(1000):
            vocabulary.special_names.check("stops[0]", f"<|{number}|>")
    assert 10 < len(caught) < 100
