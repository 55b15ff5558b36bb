"""`!<x>` in GBNF, which is one token but for `<x>`: against brute force over all texts, and against llama.cpp."""

from __future__ import annotations

import random
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.languages import any_token, grammar, sequence, special
from tests import llama_cpp_samplers as samplers
from tests import llama_cpp_vocabulary
from tests.grammars.test_gbnf_llama_cpp import sampler_of

# 6 has a text, but grammars name it; they do not name 8, which has none. 5 is half of a character.
PIECES: list[bytes | None] = [b"a", b"b", None, b"ab", b"ba", b"\xc3", b"z", None, None, None]
X, Y, Z, EOS = 2, 7, 6, 9
VOCABULARY = lk.Vocabulary(PIECES, eos_ids=[EOS], special={"<x>": X, "<y>": Y})

# The symbols that a rule reads: a byte, a special token, or (as a negative number) one token but for some.
Symbols = tuple[bytes | int, ...]
LEAVES: dict[str, list[Symbols]] = {
    '"a"': [(b"a",)],
    '"b"': [(b"b",)],
    '"ab"': [(b"a", b"b")],
    "<x>": [(X,)],
    "!<x>": [(-X,)],
    "!<y>": [(-Y,)],
    "!<[6]>": [(-Z,)],
}
# A rule and all that it reads.
Read = tuple[str, list[Symbols]]


def after(symbols: Symbols, at: int, token: int) -> int | None:
    """Return how many symbols have been read after a token, or None if it cannot be read."""
    if at < len(symbols) and isinstance(wanted := symbols[at], int):
        return at + 1 if token != EOS and (token == wanted if wanted >= 0 else token != -wanted) else None
    piece = None if token == Z else PIECES[token]
    read = symbols[at : at + len(piece or b"")]
    return at + len(read) if piece and read == tuple(bytes([byte]) for byte in piece) else None


def legal_after(texts: list[Symbols], written: list[int]) -> list[int]:
    """Return the tokens with which some text goes on, and EOS if one ends."""
    places = [(symbols, 0) for symbols in texts]
    for token in written:
        places = [(symbols, to) for symbols, at in places if (to := after(symbols, at, token)) is not None]
    found = {t for symbols, at in places for t in range(EOS) if after(symbols, at, t) is not None}
    return sorted(found | {EOS for symbols, at in places if at == len(symbols)})


def then(a: Read, b: Read) -> Read:
    return f"{a[0]} {b[0]}", [x + y for x, y in product(a[1], b[1])]


def either(a: Read, b: Read) -> Read:
    return f"({a[0]} | {b[0]})", a[1] + b[1]


def repeated(a: Read, least: int, most: int) -> Read:
    texts = [sum(parts, ()) for count in range(least, most + 1) for parts in product(a[1], repeat=count)]
    return f"({a[0]}){{{least},{most}}}", texts


def rules() -> st.SearchStrategy[Read]:
    counts = st.sampled_from([(0, 1), (1, 2), (2, 2)])
    return st.recursive(
        st.sampled_from(list(LEAVES.items())),
        lambda inner: st.one_of(
            st.builds(then, inner, inner),
            st.builds(either, inner, inner),
            st.builds(lambda a, b, count: repeated(then(a, b), *count), inner, inner, counts),
        ),
        max_leaves=4,
    )


def masks_are_those(constraint: lk.Grammar, texts: list[Symbols], chance: random.Random) -> None:
    state = constraint.init_state(lk.Context.of([[]], vocabulary_size=len(PIECES)))
    written: list[int] = []
    while True:
        legal = constraint.allowed_tokens(state)[0].nonzero().flatten().tolist()
        assert legal == legal_after(texts, written), written
        choices = [token for token in legal if token != EOS]
        if not choices:
            return
        written.append(chance.choice(choices))
        state = constraint.advance(state, torch.tensor(written[-1:]))


@pytest.mark.filterwarnings("ignore:Grammar. the rule")
@given(rules(), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_masks_are_those_of_brute_force(rule: Read, chance: random.Random) -> None:
    text, texts = rule
    # A special token that a rule names is one of all rules, used or not.
    constraint = lk.Grammar(f"root ::= {text}\nother ::= <x> <y> <[6]>", VOCABULARY, configurations=64)
    for _ in range(4):
        masks_are_those(constraint, texts, chance)


@pytest.mark.parametrize(
    ("text", "deterministic"),
    [
        ('root ::= "a" !<x> "b"', True),
        ('root ::= (!<x> | "a")+ <x>', True),
        ('root ::= "a" root !<x> | "b"', True),
        ('root ::= !<x> "b" | "a" "a"', False),
        ('root ::= "(" root ")" | !<x>', False),
    ],
)
def test_a_row_has_several_stacks_only_where_text_begins_beside_it(text: str, deterministic: bool) -> None:
    vocabulary = lk.Vocabulary([b"a", b"b", b"(", b")", None, None], eos_ids=[5], special={"<x>": 4})
    assert lk.Grammar(text, vocabulary).report.deterministic == deterministic
    if not deterministic:
        with pytest.raises(
            ConfigurationError, match="a token may stand for itself, whatever its text is, where other text"
        ):
            lk.Grammar(text, vocabulary, configurations=1)


def token_rules(chance: random.Random, depth: int) -> str:
    if not depth or chance.random() < 0.4:
        leaves = ['"a"', '"b"', "[ab]", "<[0]>", "!<[0]>", "!<[0]>", "!<[0]>*", "(!<[0]>)+", 'root "b"', "x"]
        return chance.choice(leaves)
    first, second = token_rules(chance, depth - 1), token_rules(chance, depth - 1)
    return chance.choice([f"{first} {second}", f"({first} | {second})", f'("b" {first})?', f'("b" {first})*'])


@pytest.mark.filterwarnings("ignore:Grammar. the rule")
@pytest.mark.parametrize("seed", range(60))
def test_masks_are_those_of_llama_cpp(seed: int) -> None:
    chance = random.Random(seed)
    first, second, third = (token_rules(chance, depth) for depth in (2, 1, 1))
    text = f'root ::= "a" {first} | !<[0]> {second} | "b"\nx ::= "a" {third} | "b"'
    assert sampler_of(text)
    vocabulary = llama_cpp_vocabulary.vocabulary()
    # Of llama.cpp, a token for `!<[0]>` must be UTF-8 by itself, and one of several characters may begin before it.
    compared = torch.tensor([0, 1, *range(3, 130)])
    constraint = lk.Grammar(text, vocabulary, configurations=64)
    for _ in range(3):
        state, written = constraint.init_state(lk.Context.of([[]], vocabulary_size=vocabulary.size)), list[int]()
        while len(written) < 6:
            mask = constraint.allowed_tokens(state)[0]
            theirs = samplers.after(sampler_of(text), written, torch.zeros(vocabulary.size)) != -torch.inf
            assert mask[compared].tolist() == theirs[compared].tolist(), written
            choices = [token for token in (0, 2 + ord("a"), 2 + ord("b")) if mask[token]]
            if not choices:
                break
            written.append(chance.choice(choices))
            state = constraint.advance(state, torch.tensor(written[-1:]))


def test_one_token_in_a_language_with_a_grammar() -> None:
    thought = grammar("root ::= <x> !<x> <x> | <y>").constraint(VOCABULARY)
    alike = sequence(special("<x>"), any_token(exclude=special("<x>")), special("<x>")).constraint(VOCABULARY)
    states = [c.init_state(lk.Context.of([[]], vocabulary_size=len(PIECES))) for c in (thought, alike)]
    for token in (X, 5, X):
        states = [c.advance(s, torch.tensor([token])) for c, s in zip((thought, alike), states, strict=True)]
        assert torch.equal(*(c.allowed_tokens(s) for c, s in zip((thought, alike), states, strict=True)))
    nested = grammar('root ::= "a" root "b" | <y>')
    beside = sequence(nested, special("<x>"), any_token()).constraint(VOCABULARY)
    state = beside.init_state(lk.Context.of([[]], vocabulary_size=len(PIECES)))
    for token in (0, Y, 1, X):
        state = beside.advance(state, torch.tensor([token]))
    assert beside.allowed_tokens(state)[0].nonzero().flatten().tolist() == list(range(EOS))
    with pytest.raises(ConfigurationError, match="put a special token between them"):
        sequence(nested, any_token()).constraint(VOCABULARY)


def test_what_has_a_token_whatever_its_text_is_is_not_over_text_alone() -> None:
    made = lk.Grammar('root ::= "a" !<x>', VOCABULARY)
    assert made.own_ids() == (X,)
    with pytest.raises(ConfigurationError, match=r"has a token whatever its text is \(!<...>\)"):
        made.byte_dfa()
    with pytest.raises(ConfigurationError, match=r"any_token\(\) in it"):
        grammar('root ::= "a" !<x>').constraint(VOCABULARY).nested_dfa()
