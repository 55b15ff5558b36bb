"""Digests only propose what may be equal: collisions that an attacker computes, and digests that always lie, change no mask."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import logitkit as lk
from logitkit.compiler import TokenAutomaton
from logitkit.compiler.bytes import in_utf8
from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.compiler.tokens import leaf_tokens, linked_classes, linked_leaf, token_concatenation
from logitkit.compiler.tokens.distinct_sets import digest_of_pairs
from logitkit.runtime.row_mask import RowMask
from logitkit.tracking import rows as tracking_rows
from tests.automata.collisions import NUMBERS, zero_sum
from tests.automata.linked import SMALL, compiled
from tests.automata.test_linked_classes import SCHEMAS, check
from tests.automata.test_token_concatenation import test_every_token_of_every_place as check_concatenations
from tests.vocabularies import tekken

MODULES = leaf_tokens, linked_leaf, linked_classes, token_concatenation
LETTERS = {1: "x", -1: "y", 0: "z"}
Ints = NDArray[Any]
Digested = list[tuple[str, Ints, Ints]]


def letters(signs: Ints) -> str:
    return "".join(map(LETTERS.__getitem__, signs.tolist()))


# States are numbered before letters are looked at, so this text has the numbers that the text of the attack will have.
PLACEHOLDER = letters(np.random.default_rng(1).integers(-1, 2, NUMBERS))


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test compute what tokens do in strings."""
    monkeypatch.setattr(leaf_tokens, "_known", WeakKeyDictionary())


@pytest.fixture
def digested(monkeypatch: pytest.MonkeyPatch) -> Digested:
    """The pairs whose digests the compiler asks for, with the name of the module that asks."""
    found: Digested = []

    def spy(module: str, first: Ints, second: Ints) -> NDArray[np.uint64]:
        found.append((module, first, second))
        return digest_of_pairs(first, second)

    for module in MODULES:
        name = module.__name__.rsplit(".", 1)[-1]
        monkeypatch.setattr(module, "digest_of_pairs", lambda first, second, name=name: spy(name, first, second))
    return found


def asked_by(module: str, digested: Digested) -> list[tuple[Ints, Ints]]:
    return [(first, second) for name, first, second in digested if name == module]


def bytes_and(*tokens: str) -> lk.Vocabulary:
    return lk.Vocabulary(
        [*(bytes([b]) for b in range(256)), *(t.encode() for t in tokens), None], eos_ids=[256 + len(tokens)]
    )


def legal_along(constraint: Any, text: str) -> list[set[str]]:
    """Return the tokens that are legal before each character of a text of ASCII."""
    vocabulary = constraint.vocabulary
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    state, found = constraint.init_state(context), []
    for byte in text.encode():
        masked = constraint.process_logits(state, torch.zeros(1, vocabulary.size), context)[1][0]
        legal = (masked == 0).nonzero().ravel().tolist()
        found.append({(vocabulary.tokens[i] or b"").decode("latin-1") for i in legal})
        state = constraint.advance(state, torch.tensor([byte]))
    return found


def states_along(constraint: Any, text: str) -> Ints:
    """Return the states after each beginning of a text."""
    state, found = constraint.init_state(lk.Context.of([[]], vocabulary_size=constraint.vocabulary.size)), []
    for byte in text.encode():
        state = constraint.advance(state, torch.tensor([byte]))
        found.append(int(state.at.state))
    return np.array(found)


def along_string(moves: tuple[Ints, Ints]) -> Ints:
    """Return the states of a string that begins with a text, one for each of its characters and one after them."""
    leads = dict(zip(*(part.tolist() for part in moves), strict=True))
    path = [FIRST_STATE]
    while len(path) <= NUMBERS:
        path.append(leads[path[-1]])
    return np.array(path)


def test_moves_inside_of_a_string(digested: Digested) -> None:
    def schema(text: str) -> Any:
        return {"type": "string", "pattern": f"^{text}"}

    vocabulary = bytes_and()
    lk.JsonSchema(schema(PLACEHOLDER), vocabulary)
    path = along_string(asked_by("leaf_tokens", digested)[0])
    text = letters(zero_sum(digest_of_pairs(path[:-1], path[1:])))
    assert legal_along(lk.JsonSchema(schema(text), vocabulary), f'"{text}') == [{c} for c in f'"{text}']


def test_states_in_which_a_string_may_end(digested: Digested) -> None:
    def schema(text: str) -> Any:
        beginnings = "|".join(text[:i] for i in range(1, len(text)))
        return {"type": "string", "pattern": f"^({beginnings}|{text}.*)$"}

    vocabulary = bytes_and(*(f'{letter}"' for letter in LETTERS.values()))
    lk.JsonSchema(schema(PLACEHOLDER), vocabulary)
    moves, ends = asked_by("leaf_tokens", digested)
    path = along_string(moves)[:-1]
    text = letters(zero_sum(digest_of_pairs(path, np.full(len(path), ends[1][0]))))
    expected = [{c, f'{c}"', '"'} for c in text]
    expected[0].remove('"')
    assert legal_along(lk.JsonSchema(schema(text), vocabulary), f'"{text}')[1:] == expected


def test_what_follows_the_same_string_in_many_places(digested: Digested) -> None:
    def names(text: str) -> list[str]:
        return [f"{letter}{i:03}" for i, letter in enumerate(f"x{text}")]

    def schema(text: str) -> Any:
        properties = {name: {"type": "string"} for name in names(text)}
        return {"type": "object", "properties": properties, "required": names(text), "additionalProperties": False}

    commas = {f'","{letter}' for letter in LETTERS.values()}
    vocabulary = bytes_and(*commas)
    lk.JsonSchema(schema(PLACEHOLDER), vocabulary)
    leads, place = asked_by("linked_leaf", digested)[0]
    # After each string but the last, one of the three tokens leads on.
    of_commas = leads[:, ((leads > 0).sum(axis=0) > 1) & ((leads > 0).sum(axis=0) < NUMBERS)]
    assert of_commas.shape == (NUMBERS + 1, 3)
    next_name = of_commas.max(axis=1)[:-1]
    text = letters(zero_sum(digest_of_pairs(next_name, place[:-1, 0]) - digest_of_pairs(0 * next_name, place[:-1, 0])))
    document = json.dumps(dict.fromkeys(names(text), ""), separators=(",", ":"))
    legal = legal_along(lk.JsonSchema(schema(text), vocabulary), document)
    in_strings = [i for i in range(len(document)) if document.startswith('","', i) and document[i - 2 : i] == ':"']
    assert len(in_strings) == NUMBERS
    assert [legal[i] & commas for i in in_strings] == [{f'","{letter}'} for letter in text]


def test_moves_outside_of_strings(digested: Digested) -> None:
    def schema(text: str) -> Any:
        optional = {"a": {"const": "b"}, "c": {"const": text}}
        return {"type": "object", "properties": optional, "additionalProperties": False, "required": ["c"]}

    vocabulary, begin = bytes_and(), '{"c":"'
    path = states_along(lk.JsonSchema(schema(PLACEHOLDER), vocabulary), begin + PLACEHOLDER)[len(begin) - 1 :]
    source, target = asked_by("linked_classes", digested)[0]
    assert {*zip(path[:-1].tolist(), path[1:].tolist(), strict=True)} <= {
        *zip(source.tolist(), target.tolist(), strict=True)
    }
    text = letters(zero_sum(digest_of_pairs(path[:-1], path[1:])))
    legal = legal_along(lk.JsonSchema(schema(text), vocabulary), begin + text)
    assert legal[len(begin) :] == [{c} for c in text]


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
    assert one.bank is other.bank
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
