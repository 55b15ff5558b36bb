"""A marker before a schema: nothing is compiled again, and every mask is what the two parts say one after the other."""

from __future__ import annotations

import json
import random
from unittest import mock

import pytest
import torch

import logitkit as lk
from logitkit.compiler.tokens.markers import before_marker
from logitkit.errors import ConfigurationError
from tests.automata import linked
from tests.automata.nested_grammars import JSON, Nested
from tests.automata.test_pushdown import advanced, legal_of, may_go_on
from tests.batches import tensor_path
from tests.vocabularies import tekken

# Tokens that end the marker `</>` and say more, besides a token for each byte.
PIECES = (
    *(token for token in linked.SMALL.tokens if token),
    b"</",
    b"/>",
    b">[",
    b'></>{"',
    b'/>"a',
    b"</>[[1",
    b">]",
    b"</></>",
    b">{}",
    b'>"x',
    b"h</",
)
MARKER, OTHER, EOS = len(PIECES), len(PIECES) + 1, len(PIECES) + 2
SMALL = lk.Vocabulary([*PIECES, None, None, None], eos_ids=[EOS], special={"</>": MARKER})
ENDING = [token for token, piece in enumerate(PIECES) if b">" in piece or b"</" in piece]
MEMBERS = {"name": {"type": "string", "maxLength": 5000}, "more": {}}
OPEN = {"type": "object", "properties": MEMBERS, "required": ["name"]}
CLOSED = {**OPEN, "properties": {"name": MEMBERS["name"]}, "additionalProperties": False}


@pytest.mark.parametrize("pattern", [None, "(hm?)*<?", "[^]{,]*"])
@pytest.mark.parametrize("depth", [1, 2])
def test_every_token_is_legal_where_its_bytes_are(pattern: str | None, depth: int) -> None:
    """The automaton over the bytes of both parts is the judge."""
    first = None if pattern is None else lk.Regex(pattern, SMALL)
    constraint = lk.then(first, Nested(JSON, SMALL, max_depth=depth), "</>")
    dfa, rng = constraint.nested_dfa(), random.Random(depth)
    for _ in range(30):
        state, said = constraint.init_state(lk.Context.of([[]], SMALL.size)), b""
        for _ in range(10):
            legal = legal_of(constraint, state, SMALL.size)  # type: ignore[arg-type]
            assert legal[: len(PIECES)].tolist() == [may_go_on(dfa, said + piece, depth) for piece in PIECES], said
            assert legal[EOS] == dfa.accepts(said, depth)
            # The special token stands for the marker too; before the marker, ids without text are free if anything is.
            begun = b"</>" in said
            assert legal[OTHER] == (first is None and not begun)
            going_on = legal[: MARKER + 1].nonzero().flatten().tolist()
            if not going_on:
                break
            token = rng.choice([t for t in going_on if t in ENDING or t == MARKER] or going_on)
            state = advanced(constraint, state, token)  # type: ignore[arg-type]
            said += b"</>" if token == MARKER else PIECES[token]


def test_two_special_tokens_in_one_automaton() -> None:
    """Each is a marker by its id alone, be it an id without text or a token that is text elsewhere."""
    comma = PIECES.index(b",")
    inner = lk.then(lk.Regex("[a-z,]*", SMALL), Nested(JSON, SMALL), comma)
    both = lk.then(None, inner, OTHER)
    context = lk.Context.of([[]], SMALL.size)

    def legal(*tokens: int) -> torch.Tensor:
        state = both.advance(both.init_state(context), torch.tensor([tokens], dtype=torch.int64))
        return both.process_logits(state, torch.zeros(1, SMALL.size), context)[1][0] == 0

    a, one, opening, closing = (PIECES.index(text) for text in (b"a", b"1", b"[", b"]"))
    everything = torch.ones(SMALL.size, dtype=torch.bool)
    everything[EOS] = False
    assert torch.equal(legal(), everything)
    assert torch.equal(legal(comma, MARKER, one), everything)
    between = legal(comma, OTHER, a)
    assert between[[a, comma]].all()
    assert not between[[one, OTHER, MARKER, EOS]].any()
    # After both, a comma is what its text says.
    assert not legal(OTHER, a, comma)[comma]
    assert legal(OTHER, a, comma, opening, one)[[comma, closing]].all()
    assert legal(OTHER, a, comma, opening, one, comma, one, closing).nonzero().flatten().tolist() == [EOS]


@pytest.mark.parametrize("schema", [OPEN, CLOSED])
@pytest.mark.parametrize("marker", ["</think>", 7])
def test_characters_are_counted_after_a_marker(schema: object, marker: str | int) -> None:
    alone = lk.JsonSchema(schema, tekken())
    both = lk.then(None, alone, marker)
    assert alone.automaton.counting is not None
    assert both.automaton.nbytes < 2 * alone.automaton.nbytes + 20_000
    for length in (4999, 5000, 5001):
        text = json.dumps({"name": "x" * length}, separators=(",", ":"))
        ids = [1000 + byte for byte in text.encode()]
        before = [7] if marker == 7 else [1000 + byte for byte in b"</think>"]
        context = lk.Context.of([[]], tekken().size)
        state = both.advance(both.init_state(context), torch.tensor([before + ids]))
        assert both.is_finished(state).tolist() == [False]
        ends = both.process_logits(state, torch.zeros(1, tekken().size), context)[1][0, 2] == 0
        assert bool(ends) == (length <= 5000) or bool(both.is_dead(state))
        assert bool(both.is_dead(state)) == (length > 5000)


def test_a_known_first_part_is_not_compiled_again() -> None:
    first = lk.Regex("[a-z]{0,9}", tekken())
    lk.then(first, lk.JsonSchema(OPEN, tekken()), "</think>")
    other = lk.JsonSchema({**OPEN, "title": "other", "required": ["more"]}, tekken())
    with mock.patch.object(before_marker, "classes_by_level", side_effect=AssertionError("the vocabulary is scanned")):
        lk.then(first, other, "</think>")


def test_long_lists_of_banned_strings_may_come_first() -> None:
    """On devices, states of a part that falls back several times list all that they do."""
    vocabulary = lk.Vocabulary([*(bytes([i]) for i in range(256)), None, None], eos_ids=[257])
    ban = lk.BannedStrings(["abab", "h<h<h<", "<<", "aaaaaa"], vocabulary)
    constraint = lk.then(ban, lk.JsonSchema({}, vocabulary), 256)
    assert constraint.automaton.longest_chain > 3
    context, rng = lk.Context.of([[]], 258), random.Random(0)
    for _ in range(60):
        state = constraint.init_state(context)
        for token in [rng.choice(b"abh<a") for _ in range(9)] + [256, ord("[")]:
            legal = constraint.process_logits(state, torch.zeros(1, 258), context)[1]
            with tensor_path():
                assert torch.equal(constraint.process_logits(state, torch.zeros(1, 258), context)[1], legal)
            if not legal[0, token].isfinite():
                break
            state = constraint.advance(state, torch.tensor([token]))


def test_a_token_suffix_is_no_later_marker() -> None:
    """Of `>,` the comma is text, even where the id of the comma is a marker."""
    pieces = [*(bytes([i]) for i in range(256)), b">,", b">a"]
    vocabulary = lk.Vocabulary([*pieces, None, None, b","], eos_ids=[259])
    inner = lk.then(lk.Regex("[a-z]*", vocabulary), lk.Regex("b*,*", vocabulary), ord(","))
    constraint = lk.then(None, lk.then(inner, lk.JsonSchema({"type": "array"}, vocabulary), 258), "</>")
    context = lk.Context.of([[]], 261)
    state = constraint.advance(constraint.init_state(context), torch.tensor([list(b"</")]))
    legal = constraint.process_logits(state, torch.zeros(1, 261), context)[1][0].isfinite()
    assert [bool(legal[token]) for token in (ord(">"), 256, 257)] == [True, False, True]


def test_what_is_defined_over_ids_does_not_follow_text() -> None:
    vocabulary = lk.Vocabulary([*(bytes([i]) for i in range(256)), None, None], eos_ids=[257])
    ids = lk.Dfa({(0, 97): 0}, 0, {0}, vocabulary)
    second = lk.then(ids, lk.JsonSchema({}, vocabulary), 256)
    with pytest.raises(ConfigurationError, match="Dfa is a constraint over token ids, not over text"):
        lk.then(None, second, "</>")


def test_a_finite_part_with_counts_may_come_first() -> None:
    counted = lk.then(None, lk.JsonSchema({"type": "string", "maxLength": 60}, SMALL), MARKER)
    assert counted.automaton.has_stacks
    assert counted.is_finite
    both = lk.then(counted, lk.Regex("1+", SMALL), OTHER)
    assert not both.automaton.has_stacks
    context = lk.Context.of([[]], SMALL.size)
    quote = PIECES.index(b'"')
    tokens = torch.tensor([[0, MARKER, quote, *[ord("a")] * 60, quote, OTHER, ord("1")]])
    masked = both.process_logits(both.advance(both.init_state(context), tokens), torch.zeros(1, SMALL.size), context)[1]
    assert (masked[0] == 0).nonzero().flatten().tolist() == [ord("1"), EOS]


@pytest.mark.parametrize("marker", ["</>", MARKER, OTHER])
@pytest.mark.parametrize("first", [None, "(ab)*|h.*"])
def test_a_text_is_complete_in_time(marker: str | int, first: str | None) -> None:
    before = None if first is None else lk.Regex(first, SMALL)
    constraint = lk.then(before, Nested(JSON, SMALL, max_depth=3, closing=9), marker)
    context, rng = lk.Context.of([[]], SMALL.size), random.Random(1)
    for _ in range(40):
        state = constraint.init_state(context)
        for left in range(9, -1, -1):
            legal = constraint.process_logits(state, torch.zeros(1, SMALL.size), context)[1][0] == 0
            going_on = legal[:EOS].nonzero().flatten().tolist()
            assert going_on if left and not legal[EOS] else legal[EOS] or left
            if not going_on:
                break
            state = constraint.advance(state, torch.tensor([rng.choice(going_on)]))


def test_a_marker_that_some_text_needs_leaves_no_dead_end() -> None:
    """`</h` would need a `>`, which is the marker here."""
    first = lk.Choice(["a", "</h>"], linked.SMALL)
    constraint = lk.then(first, lk.JsonSchema({}, linked.SMALL), ord(">"))
    context = lk.Context.of([[]], linked.SMALL.size)
    masked = constraint.process_logits(constraint.init_state(context), torch.zeros(1, linked.SMALL.size), context)[1]
    assert (masked[0] == 0).nonzero().flatten().tolist() == [ord("a")]


@pytest.mark.parametrize(("marker", "needed"), [("a:", 4), (257, 3), ("<t>", 3)])
def test_what_cannot_be_complete_in_time_is_refused(marker: str | int, needed: int) -> None:
    """The shortest text is the marker and an empty array."""
    tokens = [*(bytes([byte]) for byte in range(256)), None, None]
    vocabulary = lk.Vocabulary(tokens, eos_ids=[256], special={"<t>": 257})
    array = {"type": "array"}
    with pytest.raises(ConfigurationError, match=f"both constraints with the marker .* takes {needed} tokens"):
        lk.then(None, lk.JsonSchema(array, vocabulary, closing=needed - 1), marker)
    lk.then(None, lk.JsonSchema(array, vocabulary, closing=needed), marker)
