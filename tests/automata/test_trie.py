"""The trie of a vocabulary, against the prefixes of its tokens."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.vocabulary import Vocabulary
from logitkit.vocabulary.trie import GROUP_OF_BYTE, GROUPS, Trie
from tests.examples import examples


def _prefixes(trie: Trie) -> list[bytes]:
    spelled = [b""]
    for node in range(1, len(trie)):
        spelled.append(spelled[trie.parent[node]] + bytes([trie.byte[node]]))
    return spelled


def _check(tokens: list[bytes | None]) -> None:
    trie = Trie.of(tokens)
    spelled = _prefixes(trie)
    wanted = {t[:i] for t in tokens if t for i in range(len(t) + 1)} | {b""}
    assert len(spelled) == len(wanted)
    assert set(spelled) == wanted
    assert {i: spelled[n] for i, n in zip(trie.tokens, trie.node_of_token, strict=True)} == {
        i: t for i, t in enumerate(tokens) if t
    }
    for node, prefix in enumerate(spelled):
        first, behind = trie.level(len(prefix))
        assert first <= node < behind
        children, _ = trie.children_of(np.array([node]))
        assert all(trie.parent[c] == node for c in children)
        assert {spelled[c] for c in children} == {w for w in wanted if len(w) == len(prefix) + 1 and w[:-1] == prefix}
    in_order = [tokens[i] or b"" for i in trie.tokens.tolist()]
    assert in_order == sorted(in_order)
    for node in range(0, len(trie), 1 + len(trie) // 40):
        begin, count, prefix = int(trie.first[node]), int(trie.below[node]), spelled[node]
        assert [i for i, t in enumerate(in_order) if t.startswith(prefix)] == list(range(begin, begin + count))
        assert in_order[begin : begin + int(trie.own[node])] == [t for t in in_order if t == prefix]
        bytes_below = {b for t in in_order[begin : begin + count] for b in t[len(prefix) :]}
        assert int(trie.groups[node]) == functools.reduce(int.__or__, GROUP_OF_BYTE[list(bytes_below)].tolist(), 0)
    assert np.flatnonzero(trie.single_bytes()).tolist() == sorted({t[0] for t in tokens if t and len(t) == 1})


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(
        st.one_of(st.none(), st.binary(min_size=1, max_size=4), st.sampled_from([b"a", b"ab", b"abc"])),
        max_size=12,
    )
)
def test_nodes_are_the_prefixes(tokens: list[bytes | None]) -> None:
    _check(tokens)


@pytest.mark.parametrize("name", ["tekken", "sentencepiece_32k"])
def test_real_vocabularies(name: str, request: pytest.FixtureRequest) -> None:
    vocabulary: Vocabulary = request.getfixturevalue(name)
    assert vocabulary.trie.groups[0] == sum(GROUP_OF_BYTE[list(GROUPS)].tolist())
    spelled = _prefixes(vocabulary.trie)
    assert len(set(spelled)) == len(spelled)
    assert set(spelled) == {t[:i] for t in vocabulary.tokens if t for i in range(len(t) + 1)}
    ends = dict(zip(vocabulary.trie.tokens.tolist(), vocabulary.trie.node_of_token.tolist(), strict=True))
    assert {i: spelled[n] for i, n in ends.items()} == {i: t for i, t in enumerate(vocabulary.tokens) if t}
