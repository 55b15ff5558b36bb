"""A tokenizer as data."""

from __future__ import annotations

import copy
import pickle
from typing import Any, SupportsIndex

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import VocabularyError

TOKENS = [b"a", b"b", b"ab", None]


def test_ids_of_numpy_are_ids() -> None:
    vocabulary = lk.Vocabulary(TOKENS, eos_ids=np.array([3]), pad_id=np.int64(1))
    assert vocabulary == lk.Vocabulary(TOKENS, eos_ids=np.int32(3), pad_id=1)
    assert repr(vocabulary) == repr(lk.Vocabulary(TOKENS, eos_ids=[3], pad_id=1))


def test_what_it_holds() -> None:
    vocabulary = lk.Vocabulary(TOKENS, eos_ids=[3, 1], size=6, pad_id=5)
    assert vocabulary.tokens == (b"a", None, b"ab", None, None, None)
    assert vocabulary.eos_ids == (1, 3)
    assert (vocabulary.size, len(vocabulary), vocabulary.pad_id) == (6, 6, 5)
    assert vocabulary.decode([0, 1, 2, 5]) == b"aab"
    assert repr(vocabulary) == "Vocabulary(2 tokens with text of 6, eos_ids=[1, 3], pad_id=5)"


def test_one_eos_id_needs_no_list_and_repeats_count_once() -> None:
    assert lk.Vocabulary(TOKENS, eos_ids=3).eos_ids == (3,)
    assert lk.Vocabulary(TOKENS, eos_ids=(3, 3)).eos_ids == (3,)
    assert lk.Vocabulary(TOKENS, eos_ids=()).eos_ids == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tokens": ["a"], "eos_ids": 0}, r"token 0 is 'a' of type str; give its bytes, or None"),
        ({"tokens": [b"a", 7], "eos_ids": 0}, r"token 1 is 7 of type int"),
        ({"tokens": [b"a", b""], "eos_ids": 0}, r"token 1 is empty bytes; give None"),
        ({"tokens": TOKENS, "eos_ids": 4}, r"eos_ids has 4; allowed are token ids from 0 to 3"),
        ({"tokens": TOKENS, "eos_ids": [-1]}, r"eos_ids has -1; allowed are"),
        ({"tokens": TOKENS, "eos_ids": ["3"]}, r"eos_ids has '3'; allowed are"),
        ({"tokens": TOKENS, "eos_ids": [True]}, r"eos_ids has True; allowed are"),
        ({"tokens": TOKENS, "eos_ids": 3, "pad_id": 4}, r"pad_id has 4; allowed are token ids from 0 to 3"),
        ({"tokens": TOKENS, "eos_ids": 3, "size": 3}, r"size=3 is less than the 4 tokens given"),
        ({"tokens": [None, None], "eos_ids": 0}, r"no token has text"),
        ({"tokens": [b"a", None], "eos_ids": 0}, r"no token has text"),
        ({"tokens": [], "eos_ids": []}, r"no token has text"),
        (
            {"tokens": TOKENS, "eos_ids": 3, "special": ["</s>"]},
            r"special is of type list; give a mapping from the names",
        ),
        (
            {"tokens": TOKENS, "eos_ids": 3, "special": {"": 3}},
            r"special has the name ''; allowed are names of at least",
        ),
        ({"tokens": TOKENS, "eos_ids": 3, "special": {b"x": 3}}, r"special has the name b'x'; allowed are names"),
        (
            {"tokens": TOKENS, "eos_ids": 3, "special": {"\ud800": 3}},
            r"special has the name .*, which cannot be written",
        ),
        (
            {"tokens": TOKENS, "eos_ids": 3, "special": {"</s>": 4}},
            r"special\['</s>'\] has 4; allowed are token ids from 0",
        ),
        ({"tokens": TOKENS, "eos_ids": 3, "special": {"</s>": True}}, r"special\['</s>'\] has True; allowed are"),
        ({"tokens": TOKENS, "eos_ids": 3, "special": {"x": 3, "y": 3}}, r"special has the id 3 twice, as 'x' and 'y'"),
        ({"tokens": TOKENS, "eos_ids": 3, "special": {"x": 0}}, r"the name 'x' for id 0, whose text is b'a'"),
    ],
)
def test_an_invalid_vocabulary_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(VocabularyError, match=message):
        lk.Vocabulary(**arguments)


def test_special_tokens_are_known_by_name() -> None:
    given: dict[str, SupportsIndex] = {"</s>": np.int64(3), "<pad>": 5}
    vocabulary = lk.Vocabulary(TOKENS, eos_ids=[3], size=6, special=given)
    given["<s>"] = 4
    assert vocabulary.special == {"</s>": 3, "<pad>": 5}
    assert {type(i) for i in vocabulary.special.values()} == {int}
    assert vocabulary == lk.Vocabulary(TOKENS, eos_ids=[3], size=6, special={"<pad>": 5, "</s>": 3})
    with pytest.raises(TypeError, match="does not support item assignment"):
        vocabulary.special["<s>"] = 4  # type: ignore[index]


def test_equal_content_is_equal() -> None:
    one = lk.Vocabulary(TOKENS, eos_ids=[3])
    same = lk.Vocabulary((b"a", b"b", b"ab", b"</s>"), eos_ids=3, size=4)
    assert one == same
    assert hash(one) == hash(same)
    assert one.content_key == same.content_key
    assert len(one.content_key) == 64


@pytest.mark.parametrize(
    "other",
    [
        lk.Vocabulary([b"a", b"b", b"ba", None], eos_ids=[3]),
        lk.Vocabulary([b"a", b"ba", b"b", None], eos_ids=[3]),
        lk.Vocabulary([b"a", b"b", None, b"ab"], eos_ids=[2]),
        lk.Vocabulary(TOKENS, eos_ids=[]),
        lk.Vocabulary(TOKENS, eos_ids=[3], size=5),
        lk.Vocabulary(TOKENS, eos_ids=[3], pad_id=3),
        lk.Vocabulary(TOKENS, eos_ids=[3], special={"</s>": 3}),
        lk.Vocabulary(TOKENS, eos_ids=[3], special={"a": 0}),
    ],
)
def test_other_content_is_other(other: lk.Vocabulary) -> None:
    one = lk.Vocabulary(TOKENS, eos_ids=[3])
    assert one != other
    assert one.content_key != other.content_key


texts = st.lists(st.none() | st.binary(min_size=1, max_size=3), min_size=1, max_size=5).filter(any)


@given(texts, texts)
def test_the_content_key_tells_contents_apart(a: list[bytes | None], b: list[bytes | None]) -> None:
    one, other = (lk.Vocabulary([*tokens, None], eos_ids=len(tokens)) for tokens in (a, b))
    assert (one.content_key == other.content_key) == (a == b)


def test_copies_are_equal() -> None:
    vocabulary = lk.Vocabulary(TOKENS, eos_ids=[3], size=6, pad_id=5, special={"</s>": 3, "a": 0})
    assert vocabulary.trie is vocabulary.trie
    for other in (copy.copy(vocabulary), copy.deepcopy(vocabulary), pickle.loads(pickle.dumps(vocabulary))):
        assert other == vocabulary
        assert (other.tokens, other.eos_ids, other.pad_id) == (vocabulary.tokens, vocabulary.eos_ids, 5)
        assert other.special == {"</s>": 3, "a": 0}


def test_whether_any_text_can_be_spelt() -> None:
    every = [bytes([i]) for i in range(256)]
    assert lk.Vocabulary([*every, None], eos_ids=256).spells_every_byte
    assert not lk.Vocabulary([*every[:-1], None], eos_ids=255).spells_every_byte


def test_integers_of_numpy_and_torch_make_the_same_content() -> None:
    plain = lk.Vocabulary(TOKENS, eos_ids=3, size=6, pad_id=5)
    for kind in (np.int64, np.uint8, torch.tensor):
        other = lk.Vocabulary(TOKENS, eos_ids=kind(3), size=kind(6), pad_id=kind(5))
        assert other.content_key == plain.content_key
        assert {type(n) for n in (other.size, other.pad_id, *other.eos_ids)} == {int}
    assert lk.Vocabulary(TOKENS, eos_ids=torch.tensor([3]), size=6, pad_id=5) == plain


@pytest.mark.parametrize("given", [True, "6", 6.0, np.float32(6), np.True_, torch.tensor(True), torch.tensor(6.0), [6]])
def test_what_is_no_integer_is_refused(given: Any) -> None:
    with pytest.raises(VocabularyError, match=r"size is .*; give the number of logits columns, an integer from 4"):
        lk.Vocabulary(TOKENS, eos_ids=3, size=given)
    for ids in ({"eos_ids": [given]}, {"eos_ids": 3, "pad_id": given}):
        with pytest.raises(VocabularyError, match=r"_ids? has .*; allowed are token ids from 0 to 6"):
            lk.Vocabulary(TOKENS, **ids, size=7)


def test_the_content_key_tells_lengths_from_text() -> None:
    # Written after one another without a mark between them, the last length and the text of both are "12[('<s>', 0)]".
    one = lk.Vocabulary([None, b"2"], eos_ids=[0], special={"<s>": 0})
    other = lk.Vocabulary([None, b"[('<s>', 0)]"], eos_ids=[0])
    assert one.content_key != other.content_key
    assert one != other


@pytest.mark.parametrize("name", ["size", "tokens", "eos_ids", "pad_id", "special", "content_key", "new"])
def test_a_vocabulary_never_changes(name: str) -> None:
    vocabulary = lk.Vocabulary(TOKENS, eos_ids=3)
    before = vocabulary.content_key
    with pytest.raises(AttributeError, match=f"cannot set {name}: a Vocabulary is immutable"):
        setattr(vocabulary, name, 1)
    with pytest.raises(AttributeError, match=f"cannot delete {name}"):
        delattr(vocabulary, name)
    assert vocabulary.content_key == before == lk.Vocabulary(TOKENS, eos_ids=3).content_key
