"""Digests only propose what may be equal: collisions that an attacker computes, and digests that always lie, change no mask."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np
import pytest
import torch

import logitkit as lk
from logitkit.compiler.bytes import in_utf8
from logitkit.compiler.bytes.sorting import examples
from logitkit.compiler.tokens.effects.distinct_sets import digest_of_pairs
from logitkit.compiler.tokens.fragments import fragment_tokens
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.runtime.row_mask import RowMask
from logitkit.tracking import rows as tracking_rows
from tests.automata.collisions import NUMBERS
from tests.automata.digest_attacks import ATTACKS, MODULES, Letters
from tests.automata.linked import SMALL, compiled
from tests.automata.test_linked_classes import SCHEMAS, check
from tests.automata.test_token_concatenation import test_every_token_of_every_place as check_concatenations
from tests.vocabularies import tekken


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test compute what tokens do in strings."""
    monkeypatch.setattr(fragment_tokens, "_known", WeakKeyDictionary())


@pytest.mark.parametrize("name", ATTACKS)
def test_a_collision_changes_no_mask(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ATTACKS[name](Letters()).check() > NUMBERS
    attack = ATTACKS[name](Letters("qM~", "gh", "i", 3))
    # It does where digests are trusted.
    for module in MODULES:
        monkeypatch.setattr(module, "distinct_sets", lambda digest, kind, sets: examples(digest))
    with pytest.raises(AssertionError, match="are legal, not"):
        attack.check()


@pytest.fixture(params=["all equal", "one bit"])
def lying(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the digests of many sets be equal."""
    bits = np.uint64(request.param == "one bit")
    for module in MODULES:
        monkeypatch.setattr(module, "digest_of_pairs", lambda first, second: digest_of_pairs(first, second) & bits)


@pytest.mark.usefixtures("lying")
@pytest.mark.parametrize("make", [tekken, lambda: SMALL])
@pytest.mark.parametrize("name", SCHEMAS)
def test_lies_about_schemas(name: str, make: Callable[[], lk.Vocabulary]) -> None:
    check(compiled(SCHEMAS[name], share=False), make())


@pytest.mark.usefixtures("lying")
def test_lies_about_text_before_a_marker() -> None:
    check_concatenations()


def test_lies_about_bytes_inside_of_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns = r"[^é€\d]{1,3}", r"\w+(?:\W+\w+)*", r"[一-鿿]+|[а-я]*", r"(?i:straße|k)+"
    honest = [lk.Regex(pattern, SMALL).automaton for pattern in patterns]
    monkeypatch.setattr(in_utf8, "_weights", lambda size: np.zeros(size, np.uint64))
    limits = lk.Limits(states=12_345)  # another key than that of the automata that are known
    for automaton, pattern in zip(honest, patterns, strict=True):
        assert same_language(automaton, lk.Regex(pattern, SMALL, limits=limits).automaton)


def same_language(one: TokenAutomaton, other: TokenAutomaton) -> bool:
    """Whether two automata without stacks allow the same tokens, however their states are numbered."""
    met, todo = {one.start: other.start}, [one.start]
    tokens = range(len(one.class_of))
    while todo:
        state = todo.pop()
        mine, theirs = ([a.next(s, t) for t in tokens] for a, s in ((one, state), (other, met[state])))
        for target, like in zip(mine, theirs, strict=True):
            if target not in met:
                met[target] = like
                todo.append(target)
            if met[target] != like:
                return False
    return len({*met.values()}) == len(met)


def test_lies_about_automata_and_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TokenAutomaton, "sizes", property(lambda _: ()))
    one, other = (lk.Regex(pattern, SMALL) for pattern in ("a[bc]", "a[bd]"))
    assert one.registry is other.registry
    context = lk.Context.of([[]], vocabulary_size=SMALL.size)
    for constraint, last in ((one, "bc"), (other, "bd")):
        state = constraint.advance(constraint.init_state(context), torch.tensor([ord("a")]))
        masked = constraint.process_logits(state, torch.zeros(1, SMALL.size), context)[1][0]
        assert {*(masked == 0).nonzero().ravel().tolist()} == {*map(ord, last)}
    monkeypatch.setattr("builtins.hash", lambda _: 0)
    masks = [RowMask.of(c.automaton, c.automaton.start) for c in (lk.Regex("[bc]", SMALL), lk.Regex("[bd]", SMALL))]
    assert [np.flatnonzero(mask.legal()).tolist() for mask in masks] == [[98, 99], [98, 100]]


def test_lies_about_histories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking_rows, "hashes_of", lambda rows, keys: [0] * len(rows))
    history = tracking_rows.HistoryRows(tracking_rows.Shown(torch.tensor([[1, 2, 3], [1, 2, 4], [1, 5, 3]])))
    shown = tracking_rows.Shown(torch.tensor([[1, 5, 3, 7], [1, 2, 4, 7], [1, 2, 3, 7], [1, 2, 4, 8]]))
    assert history.parents(shown, 3, None, None).rows.tolist() == [2, 1, 0, 1]
