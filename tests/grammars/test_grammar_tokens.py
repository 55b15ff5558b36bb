"""Tokens of grammars, against the automata over bytes run symbol by symbol."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.compiler.bytes.pushdown_dfa import NEVER, PushdownDfa
from logitkit.compiler.tokens.grammar_tokens import grammar_automaton
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.limits import DEFAULT_LIMITS
from logitkit.runtime.constraint_state import ConstraintState
from tests.batches import tensor_path
from tests.examples import examples
from tests.grammars.pushdowns import DANGLING, POWERS, RIGHT_NESTED, SUM, Pushdown, random_pushdown, run, table


def vocabulary(characters: bytes, special_token: int | None = None) -> lk.Vocabulary:
    """All texts of one and two of the characters, and some longer ones; EOS is the last id."""
    single = [bytes([byte]) for byte in characters]
    pairs = [a + b for a, b in itertools.product(single, repeat=2)]
    chance = random.Random(characters)
    longer = [b"".join(chance.choices(single, k=chance.randint(3, 6))) for _ in range(25)]
    tokens: list[bytes | None] = [*single, *pairs, *longer, b"other"]
    if special_token is not None:
        tokens.insert(special_token, None)
    return lk.Vocabulary([*tokens, None], eos_ids=[len(tokens)])


def symbols_of(dfa: PushdownDfa, vocabulary: lk.Vocabulary, token: int) -> list[int]:
    """Return the symbols that a token is read as."""
    if token in vocabulary.eos_ids:
        return [dfa.end]
    if token in dfa.special_tokens:
        return [int(dfa.byte_class.max()) + 1 + dfa.special_tokens.index(token)]
    return [int(dfa.byte_class[byte]) for byte in vocabulary.tokens[token] or b""]


def legal_of(constraint: Pushdown, state: ConstraintState) -> list[bool]:
    """Return the legal tokens of the only row, found on both paths alike."""
    size = constraint.vocabulary.size
    context = lk.Context.of([[]], size)
    legal = constraint.process_logits(state, torch.zeros(1, size), context)[1][0] == 0
    with tensor_path():
        again = constraint.process_logits(state, torch.zeros(1, size), context)[1][0] == 0
    assert torch.equal(legal, again)
    found: list[bool] = legal.tolist()
    return found


def advanced(constraint: Pushdown, state: ConstraintState, token: int) -> ConstraintState:
    """Return the state after a token, found on both paths alike."""
    after = constraint.advance(state, torch.tensor([token]))
    with tensor_path():
        again = constraint.advance(state, torch.tensor([token]))
    assert all(torch.equal(a, b) for a, b in zip((*after.at, *after[1:]), (*again.at, *again[1:]), strict=True))
    return after


def fits(dfa: PushdownDfa, symbols: list[int], max_depth: int) -> bool:
    """Whether the symbols are legal, and what must be opened later has room."""
    state, stack = run(dfa, symbols, max_depth)
    after = [int(dfa.need[dfa.return_state[dfa.return_state[:, 1] == frame, 2]].max(initial=0)) for frame in stack]
    needed = [i + more for i, more in enumerate(after)]
    return state > 0 and max([len(stack) + int(dfa.need[state]), *needed]) <= max_depth


def check(constraint: Pushdown, chance: random.Random, steps: int) -> int:
    """Compare the masks of a random walk with what the automaton over bytes says; return how many were compared."""
    dfa, known = constraint.dfa, constraint.vocabulary
    state, said = constraint.init_state(lk.Context.of([[]], known.size)), list[int]()
    for count in range(steps):
        legal = legal_of(constraint, state)
        wanted = []
        for token in range(known.size):
            more = symbols_of(dfa, known, token)
            wanted.append(bool(more) and fits(dfa, [*said, *more], constraint.max_depth))
        if not any(wanted):
            # Only a random automaton leads to where nothing goes on; a row that is stuck may end.
            assert sum(legal) == 1
            return count
        assert legal == wanted, said
        choices = [token for token in range(known.size) if legal[token] and token not in known.eos_ids]
        if not choices:
            return count + 1
        token = chance.choice(choices)
        state, said = advanced(constraint, state, token), said + symbols_of(dfa, known, token)
    return steps


@settings(max_examples=examples(200))
@given(st.integers(0, 2**32), st.integers(1, 9), st.booleans())
def test_random_automata(seed: int, max_depth: int, with_special_token: bool) -> None:
    chance = random.Random(seed)
    dfa = random_pushdown(chance, b"abc", (5,) if with_special_token else ())
    check(Pushdown(dfa, vocabulary(b"abc", 5), max_depth), chance, 8)


AUTOMATA = {"sum": (SUM, b"1+()"), "dangling": (DANGLING, b"ise;"), "nested": (RIGHT_NESTED, b"([a)")}


@pytest.mark.parametrize("max_depth", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("name", AUTOMATA)
def test_automata_by_hand(name: str, max_depth: int) -> None:
    dfa, characters = AUTOMATA[name]
    if name == "nested" and max_depth == 1:
        max_depth = 5
    for seed in range(4):
        check(Pushdown(dfa, vocabulary(characters, 6), max_depth), random.Random(seed), 12)


@pytest.mark.parametrize("max_depth", [1, 2, 5])
def test_one_token_pops_as_many_frames_as_there_are(max_depth: int) -> None:
    first = int(np.flatnonzero(POWERS.step[:, POWERS.byte_class[ord("x")]])[-1])
    dfa = replace(POWERS, start=first)
    constraint = Pushdown(dfa, vocabulary(b"xyz"), max_depth)
    assert constraint.automaton.nesting.pops == max_depth
    for seed in range(4):
        check(constraint, random.Random(seed), 8)


def test_few_frames_are_popped_where_no_cycle_is() -> None:
    tokens = Pushdown(SUM, lk.Vocabulary([*(bytes([b]) for b in b"1+()"), b"))", None], eos_ids=[5]))
    assert tokens.automaton.nesting.pops == 2


def test_a_deep_stack_is_popped_at_once() -> None:
    """Python's own stack is not as deep."""
    constraint = Pushdown(DANGLING, vocabulary(b"ise;"), 1000)
    state = constraint.init_state(lk.Context.of([[]], constraint.vocabulary.size))
    state = constraint.advance(state, torch.zeros(1, 1, dtype=torch.int64).expand(1, 999))
    assert run(DANGLING, [int(DANGLING.byte_class[ord("i")])] * 999)[1] == [0] * 999
    said = DANGLING.byte_class[list(b"i" * 999)].tolist()
    for byte in b"se":
        token = b"ise;".index(byte)
        state = constraint.advance(state, torch.tensor([token]))
        said.append(int(DANGLING.byte_class[byte]))
        context, logits = lk.Context.of([[]], constraint.vocabulary.size), torch.zeros(1, constraint.vocabulary.size)
        legal = constraint.process_logits(state, logits, context)[1][0] == 0
        wanted = [bool(run(DANGLING, [*said, int(DANGLING.byte_class[b])], 1000)[0]) for b in b"ise;"]
        assert legal[:4].tolist() == wanted


def test_what_must_be_opened_later_needs_room() -> None:
    dfa = table(
        {
            "start": {"a": "must", "b": "done", "(": ((0,), "start")},
            "must": {"(": ((1,), "in")},
            "in": {")": "POP"},
            "after": {")": "done"},
            "done": {"$": "FINISHED", ")": "POP"},
        },
        {("in", 1): "after", ("done", 0): "after"},
        2,
        need=("must",),
    )
    for max_depth in (1, 2, 3):
        constraint = Pushdown(dfa, vocabulary(b"ab()"), max_depth)
        for seed in range(4):
            check(constraint, random.Random(seed), 8)


def test_a_grammar_without_frames_is_finite() -> None:
    dfa = table({"start": {"a": "end", "b": "start"}, "end": {"$": "FINISHED"}}, {}, 0)
    tokens = lk.Vocabulary([b"a", b"b", b"ba", b"ab", None], eos_ids=[4])
    constraint = Pushdown(dfa, tokens)
    assert not constraint.automaton.has_stacks
    for seed in range(4):
        check(constraint, random.Random(seed), 5)
    assert grammar_automaton(dfa, tokens, DEFAULT_LIMITS, "it", complete_within=True).nesting.cost is not None


SMALL = lk.Vocabulary([b"1", b"+", b"(", b")", None], eos_ids=[4])


@pytest.mark.parametrize(
    ("dfa", "tokens", "options", "message"),
    [
        (replace(SUM, start=0), SMALL, {}, "it matches no text at all"),
        (replace(SUM, need=np.array([0, 0, NEVER, 0, 0])), SMALL, {}, "it matches no text at all"),
        (replace(SUM, need=np.array([0, 0, 3, 0, 0])), SMALL, {"max_depth": 2}, "nests at most 2 deep, as it takes 3"),
        (
            SUM,
            lk.Vocabulary([b"1", b"(", b"))", None], eos_ids=[3]),
            {},
            "the bytes b'\\)', b'\\+', which are not single tokens",
        ),
        (
            replace(RIGHT_NESTED, special_tokens=(4,)),
            lk.Vocabulary([*SMALL.tokens], eos_ids=[4]),
            {},
            "names the token 4",
        ),
    ],
    ids=["empty", "endless", "deep", "bytes", "eos"],
)
def test_refusals(dfa: PushdownDfa, tokens: lk.Vocabulary, options: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        grammar_automaton(dfa, tokens, DEFAULT_LIMITS, "it", **options)  # type: ignore[arg-type]


def test_the_work_is_limited() -> None:
    with pytest.raises(PatternTooLarge, match="more than 10 steps"):
        grammar_automaton(SUM, SMALL, lk.Limits(work=10), "it")
