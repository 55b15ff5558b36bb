"""Rules of a grammar with `max_tokens`: masks and states, against all splits of all short texts."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError
from tests.examples import examples
from tests.grammars.limited_rules import (
    Anywhere,
    Inside,
    Limited,
    Literal,
    Part,
    Repeated,
    accepted,
    grammar_of,
    is_accepted,
)

# All sequences of up to so many tokens are tried, and so many random ones of up to so many tokens.
LONGEST, WALKS, STEPS = 5, 12, 60
SIGNS = [b"a", b"b", b";", b"x", b"Y", b"\xc3", b"\xa9"]
MORE = [b"ab", b"aa", b"xa", b"bY", b"a;", b";Y", b"Yx", b"aYxb", b"xx", b"YY", b"a\xc3", b"\xa9a", "xé".encode(), b";;"]
PATTERNS = [("[ab]+", "[ab]*"), ("[ab;]*", "[ab;]*"), ("[ab]{2}", "[ab]{0,2}"), ("[aé]+", "[aé]*")]


@st.composite
def limited(draw: st.DrawFn, name: str = "r") -> Limited:
    pattern, begins = draw(st.sampled_from(PATTERNS))
    return Limited(name, pattern, begins, draw(st.integers(1, 3)), draw(st.sampled_from(["", "", ";"])))


@st.composite
def grammars(draw: st.DrawFn) -> tuple[Part, ...]:
    one, two = draw(limited()), draw(limited("s"))
    x, y = Literal("x"), Literal(draw(st.sampled_from(["Y", ";", ";Y"])))
    forms: list[tuple[Part, ...]] = [
        (one,),
        (x, one, y),
        (one, y, two),
        (Repeated((one, y)),),
        (Repeated((x, one)), y),
        (Inside("x", (one,), "Y"),),
        (x, Anywhere(Literal("Y"), one), y),
        (Repeated((Inside("x", (one, Literal(";")), "Y"),)),),
    ]
    return draw(st.sampled_from(forms))


def grammar(parts: Sequence[Part], tokens: Sequence[bytes]) -> lk.Grammar:
    vocabulary = lk.Vocabulary([*tokens, None], eos_ids=[len(tokens)])
    return lk.Grammar(grammar_of(parts), vocabulary, syntax="lark")


def legal(one: lk.Grammar, ids: Sequence[int]) -> set[int]:
    """Return what may follow some tokens, read one by one on the host and at once as tensors."""
    size = one.vocabulary.size
    context = lk.Context.of([[]], vocabulary_size=size)
    state = one.init_state(context)
    for token in ids:
        state = one.advance(state, torch.tensor([token]))
    found = set(one.allowed_tokens(state)[0].nonzero().flatten().tolist())
    again = one.advance(one.init_state(context), torch.tensor([list(ids)], dtype=torch.int64)) if ids else state
    assert found == set(one.allowed_tokens(again)[0].nonzero().flatten().tolist())
    return found


def check(parts: Sequence[Part], tokens: Sequence[bytes], seed: int) -> bool:
    """Compare a grammar with all splits; return whether it is one that may be limited."""
    try:
        one = grammar(parts, tokens)
    except ConfigurationError as error:
        assert "max_tokens=" in str(error)
        return False
    end = len(tokens)
    allowed: dict[tuple[int, ...], set[int]] = {}
    texts = accepted(parts, tokens, LONGEST)
    for ids in texts:
        for at, token in enumerate((*ids, end)):
            if ids[:at] not in allowed:
                allowed[ids[:at]] = legal(one, ids[:at])
            assert token in allowed[ids[:at]], (grammar_of(parts), [tokens[i] for i in ids], at)
    for ids, following in allowed.items():
        assert (end in following) == (ids in texts), (grammar_of(parts), [tokens[i] for i in ids])
    chance = random.Random(seed)
    for _ in range(WALKS):
        written: list[int] = []
        while len(written) < STEPS:
            following = legal(one, written)
            assert following, (grammar_of(parts), [tokens[i] for i in written])
            if end in following and (chance.random() < 0.4 or len(written) > STEPS // 2):
                break
            written.append(chance.choice(sorted(following - {end}) or [end]))
            if written[-1] == end:
                written.pop()
                break
        else:
            continue
        assert is_accepted(parts, [tokens[i] for i in written]), (grammar_of(parts), [tokens[i] for i in written])
    return True


@given(grammars(), st.sets(st.sampled_from(MORE), min_size=0, max_size=3), st.integers(0, 99))
@settings(max_examples=examples(120), deadline=None)
def test_masks_are_those_of_all_splits(parts: tuple[Part, ...], more: set[bytes], seed: int) -> None:
    check(parts, [*SIGNS, *sorted(more)], seed)
