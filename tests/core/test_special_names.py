"""Names of special tokens: what a text means, contains, or only looks like."""

from __future__ import annotations

import warnings

import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.patterns.case_folding import folded

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
    assert (NAMES.tokens_in("</think>"), NAMES.tokens_in("<tool>"), NAMES.tokens_in("a")) == ([4], [], [])
    assert (NAMES.tokens_in("</THINK>"), NAMES.tokens_in("</THINK>", folded)) == ([], [4])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("</think>", [(0, 8, (4,))]),
        ("\n</think>\n\n", [(1, 9, (4,))]),
        ("é</think></s>", [(2, 10, (4,)), (10, 14, (3,))]),
        (b"\xff</think>", [(1, 9, (4,))]),
        ("<<|im_end|>", [(1, 11, (VOCABULARY.special["<|im_end|>"],))]),
        # The first name counts, where two overlap.
        ("</think</think>", [(7, 15, (4,))]),
        # The text of this token says all of it already.
        ("a<tool>", []),
        ("</THINK> </thin", []),
    ],
)
def test_where_names_stand(text: str | bytes, names: list[tuple[int, int, tuple[int, ...]]]) -> None:
    assert list(NAMES.named(text).names) == names


def test_case_is_ignored_where_that_is_asked_for() -> None:
    assert NAMES.named("éß</THINK>").names == ()
    # Places count characters.
    assert NAMES.named("éß</THINK>", folded).names == ((2, 10, (4,)),)


def test_other_texts_are_allowed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in ("</think>", "<tool>", "a<tool>\n", "</thin", "think>", "</s", "<|", "<|a|> b", "</unknown>"):
            NAMES.check("marker", text)


def test_the_message_is_bounded() -> None:
    with pytest.raises(ConfigurationError) as caught:
        NAMES.check("marker", "x" * 10_000 + "</think>" * 9 + "y" * 10_000)
    assert "contains more than 8 names of special tokens" in str(caught.value)
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
