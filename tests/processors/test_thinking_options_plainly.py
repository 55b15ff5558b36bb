"""The options of `ThinkingBudget` against sections in plain Python, with random texts, tokens and tokenizations."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError, VocabularyError
from tests.batches import tensor_path
from tests.examples import examples
from tests.processors.plain_sections import Options, Section

LETTERS = ["a", "b", "<", "\n", ".", "é", "€"]
PIECES = [*(bytes([byte]) for byte in "ab<\n.é€".encode()), b"\xac", b"\xaa"]
NAME, OTHER = "<a>", "<b>"


@st.composite
def vocabularies(draw: st.DrawFn) -> lk.Vocabulary:
    """Tokens of one byte and of several, and special tokens with and without text."""
    more = draw(st.lists(st.lists(st.sampled_from(PIECES), min_size=2, max_size=4).map(b"".join), max_size=12))
    pieces: list[bytes | None] = [*PIECES, b">", *more]
    special = {NAME: len(pieces), OTHER: len(pieces) + 1}
    pieces += [draw(st.sampled_from([None, NAME.encode()])), draw(st.sampled_from([None, OTHER.encode()])), None, None]
    return lk.Vocabulary(
        pieces,
        eos_ids=[len(pieces) - 1],
        size=len(pieces) + draw(st.integers(0, 1)),
        pad_id=len(pieces) - 2,
        special=special,
    )


texts = st.lists(st.sampled_from(LETTERS), min_size=1, max_size=3).map("".join)


@st.composite
def markers(draw: st.DrawFn, count: int, plain: int) -> list[Any]:
    """Different markers: texts, names, token ids, and texts with a name in them, but not among the first ones."""
    kinds = [texts, texts, st.sampled_from([NAME, OTHER]), st.integers(0, 4)]
    around = st.tuples(texts, st.sampled_from([NAME, OTHER]), texts | st.just("")).map("".join)
    found = [draw(st.one_of(kinds if i < plain else [*kinds, around])) for i in range(count)]
    return [*dict.fromkeys(found)]


@st.composite
def options(draw: st.DrawFn) -> Options:
    most = draw(st.integers(0, 4))
    # With a message, a marker around a name goes on in several ways: see the tests of names.
    ends = draw(st.integers(1, 3).flatmap(lambda count: markers(count, plain=1)))
    others = [m for m in draw(markers(5, plain=0)) if m not in ends]
    pauses = [*zip(others[::2], others[1::2], strict=False)][: draw(st.sampled_from([0, 1, 1, 2]))]
    return Options(
        max_tokens=most,
        end=tuple(ends),
        start=draw(texts | st.none() | st.none()),
        message=draw(st.none() | texts),
        grace=draw(st.sampled_from([0, 1, 3])),
        grace_at=tuple(draw(st.lists(texts, min_size=1, max_size=3, unique=True))),
        min_tokens=draw(st.integers(0, most)),
        pause=tuple(pauses),
    )


def likely(given_: Options, row: Section, vocabulary: lk.Vocabulary) -> st.SearchStrategy[int]:
    """Tokens that spell a part of a marker of a pause, so that some begin and end."""
    said = b"".join(row.raw(marker) for pause in given_.pause for marker in pause if not isinstance(marker, int))
    by_id = [row.token_of(marker) for pause in given_.pause for marker in pause]
    found = [i for i, token in enumerate(vocabulary.tokens) if i in by_id or (token and token in said)]
    return st.sampled_from(found or [0])


def legal(budget: lk.ThinkingBudget, state: Any, vocabulary: lk.Vocabulary) -> set[int]:
    context = lk.Context.of([[]], vocabulary.size)
    found = budget.process_logits(state, torch.zeros(1, vocabulary.size), context)[1]
    return {*(found[0] == 0).nonzero()[:, 0].tolist()}


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_against_sections_in_plain_python(data: st.DataObject) -> None:
    vocabulary = data.draw(vocabularies())
    given_ = data.draw(options())
    try:
        budget = given_.budget(vocabulary)
    except (ConfigurationError, VocabularyError):
        assume(False)
    ids = st.integers(0, vocabulary.size - 1)
    prompt = data.draw(st.lists(ids, max_size=4))
    row = Section.after_prompt(given_, vocabulary, prompt)
    context = lk.Context.of([prompt], vocabulary.size)
    state = budget.init_state(context)
    with tensor_path():
        also = budget.init_state(context)
    for _ in range(14):
        wanted = row.legal()
        assert wanted, row
        assert legal(budget, state, vocabulary) == wanted, row
        with tensor_path():
            assert legal(budget, also, vocabulary) == wanted, row
        # Mostly legal tokens, as a model writes them, and any others, as in drafts.
        token = data.draw(st.sampled_from(sorted(wanted)) | likely(given_, row, vocabulary) | ids)
        if token == vocabulary.eos_ids[0] and data.draw(st.booleans()):
            # A deadline.
            row.close()
            state, also = budget.close(state, [True]), budget.close(also, torch.tensor([True]))
            continue
        row.read(token)
        state = budget.advance(state, torch.tensor([token]))
        with tensor_path():
            also = budget.advance(also, torch.tensor([token]))
        for name in ("spent", "closed_at"):
            assert getattr(state, name).item() == getattr(also, name).item() == getattr(row, name), (name, row)
        assert budget.is_thinking(state).item() == row.is_inside
        assert budget.is_paused(state).item() == isinstance(row.where, int)
        assert budget.is_forced(state).item() == row.is_forced
