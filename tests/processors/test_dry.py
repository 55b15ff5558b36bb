"""Tokens that would continue a repeat: by hand, and against a plain Python reference. Another file compares with llama.cpp."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError, VocabularyError
from tests.examples import examples
from tests.processors.both_paths import tensors_only
from tests.processors.four_logits import after

LOGITS = [4.0, -4.0, 0.5, 0.0]

PIECES = (b"a", b"b", b":", b"\n", b"ab", b"ba:", b"::", b"\n:", b":\n", b"b::a", b"\xc3", b"\xa9", b"a\xc3", None)
VOCABULARY = lk.Vocabulary([*PIECES, None], eos_ids=[14])
COLUMNS = VOCABULARY.size


def dry(*arguments: Any, **more: Any) -> lk.Dry:
    return lk.Dry(*arguments, **{"breakers": (), **more})


@pytest.mark.parametrize(
    ("processor", "prompt", "output", "wanted"),
    [
        # 0 1 has occurred, followed by 2.
        (dry(1.0, 2.0, 2), [0, 1, 2], [0, 1], [4.0, -4.0, -0.5, 0.0]),
        (dry(1.0, 2.0, 1), [0, 1, 2], [0, 1], [4.0, -4.0, -1.5, 0.0]),
        (dry(1.0, 2.0, 3), [0, 1, 2], [0, 1], LOGITS),
        (dry(0.0, 2.0, 1), [0, 1, 2], [0, 1], LOGITS),
        # The longest repeat that a token would continue counts, and each token for itself.
        (dry(1.0, 2.0, 1), [0, 1, 2, 1, 2, 3], [0, 1], [4.0, -4.0, -1.5, 0.0]),
        (dry(1.0, 2.0, 1), [0, 1, 2, 1, 3, 0], [1], [4.0, -4.0, -1.5, -1.0]),
        (dry(1.0, 2.0, 1), [], [1, 1, 1, 1], [4.0, -8.0, 0.5, 0.0]),
        # A repeat of no token: what was said but for the first costs something.
        (dry(1.0, 2.0, 0), [], [0, 1], [4.0, -5.0, 0.5, 0.0]),
        (dry(1.0, 2.0, 0), [], [0], LOGITS),
        (dry(1.0), [], [], LOGITS),
        # A breaker is not part of a repeat, and is not penalised.
        (dry(1.0, 2.0, 1, breakers=[0]), [0, 1, 2], [0, 1], [4.0, -4.0, -0.5, 0.0]),
        (dry(1.0, 2.0, 1, breakers=[1]), [0, 1, 2], [0, 1], LOGITS),
        (dry(1.0, 2.0, 1, breakers=[2]), [0, 1, 2], [0, 1], LOGITS),
        (dry(1.0, 2.0, 1, breakers=[3]), [0, 1, 2], [0, 1], [4.0, -4.0, -1.5, 0.0]),
        # Windows, and output alone.
        (dry(1.0, 2.0, 1, window=4), [0, 1, 2], [0, 1], [4.0, -4.0, -0.5, 0.0]),
        (dry(1.0, 2.0, 1, window=3), [0, 1, 2], [0, 1], LOGITS),
        (dry(1.0, 2.0, 1, include_prompt=False), [0, 1, 2], [0, 1], LOGITS),
        (dry(1.0, 2.0, 1, include_prompt=False), [3, 3, 3], [0, 1, 2, -1, 0, 1], [4.0, -4.0, -1.5, 0.0]),
    ],
)
def test_by_hand(processor: lk.Dry, prompt: list[int], output: list[int], wanted: list[float]) -> None:
    assert after(processor, output, LOGITS, prompt) == wanted


def ends_of(breakers: Sequence[str | int], heard: list[int]) -> int:
    """How many tokens follow the last breaker, by the text of the tokens."""
    pieces = [VOCABULARY.tokens[t] or b"" for t in heard]
    for head in reversed(range(len(heard))):
        found = [head] if heard[head] in breakers else []
        for breaker in (b.encode() for b in breakers if isinstance(b, str)):
            if breaker in pieces[head]:
                found.append(head)
                continue
            for cut in range(1, len(breaker)):
                place, rest = head, breaker[cut:]
                if pieces[head].endswith(breaker[:cut]):
                    while rest and place + 1 < len(heard):
                        place += 1
                        piece = pieces[place]
                        if not piece or not (rest.startswith(piece) or piece.startswith(rest)):
                            break
                        rest = rest[len(piece) :]
                    if not rest:
                        found.append(place)
        if found:
            return len(heard) - 1 - max(found)
    return len(heard)


def reference(one: lk.Dry, prompt: list[int], output: list[int], logits: list[float]) -> list[float]:
    """Plain Python, in the arithmetic of 32 bits."""
    heard = [t for t in (prompt if one.include_prompt else []) + output if t != -1]
    heard = heard if one.window is None else heard[-one.window :]
    limit, lengths = ends_of(one.breakers, heard), dict[int, int]()
    for place in range(1, len(heard)):
        length = 0
        while length < min(limit, place) and heard[place - 1 - length] == heard[-1 - length]:
            length += 1
        token = heard[place]
        text = VOCABULARY.tokens[token] or b""
        single = any(token == b or (isinstance(b, str) and b.encode() in text) for b in one.breakers)
        if length >= one.allowed_length and not single:
            lengths[token] = max(length, lengths.get(token, 0))
    out = [np.float32(x) for x in logits]
    for token, length in lengths.items():
        penalty = np.float32(one.multiplier) * math.pow(np.float32(one.base), length - one.allowed_length)
        out[token] -= np.float32(penalty)
    return [float(x) for x in out]


tokens = st.integers(0, 2) | st.integers(0, COLUMNS - 1)
breaker: st.SearchStrategy[str | int] = st.sampled_from(
    [":", "\n", "b", "::", ":\n", "\n\n", "aba", "b::", ":\n:", "é", "éé", "a:a:a", 2, 3, 13]
)


@st.composite
def configurations(draw: st.DrawFn) -> lk.Dry:
    return lk.Dry(
        draw(st.sampled_from([0.0, 0.3, 1.0, 5.0])),
        draw(st.sampled_from([1.0, 1.5, 2.0])),
        draw(st.integers(0, 4)),
        draw(st.lists(breaker, max_size=3)),
        draw(st.none() | st.integers(1, 20)),
        draw(st.booleans()),
        vocabulary=VOCABULARY,
    )


@settings(max_examples=examples(200))
@given(st.data())
def test_rows_of_all_configurations_in_one_batch(data: st.DataObject) -> None:
    some = data.draw(st.lists(configurations(), min_size=1, max_size=3))
    lines = st.lists(tokens, max_size=20)
    prompts, outputs = ([data.draw(lines) for _ in some] for _ in range(2))
    length = max(map(len, outputs))
    contexts = [lk.Context.of([prompt], COLUMNS) for prompt in prompts]
    state: Any = lk.concatenate([one.init_state(c) for one, c in zip(some, contexts, strict=True)])
    new = torch.tensor([line + [-1] * (length - len(line)) for line in outputs], dtype=torch.int64)
    state = some[0].advance(state, new.reshape(len(some), length))
    assert state.problem() is None
    assert state.breakers.problem() is None
    logits = torch.tensor([[0.7 * (t - 5 + r) for t in range(COLUMNS)] for r in range(len(some))])
    wanted = [reference(*four) for four in zip(some, prompts, outputs, logits.tolist(), strict=True)]
    context = lk.concatenate_context(contexts)
    assert some[-1].process_logits(state, logits.clone(), context)[1].tolist() == wanted
    assert tensors_only(some[-1], state, logits).tolist() == wanted


@pytest.mark.parametrize("gap", [0, 1, 62, 63, 64, 65, 200])
@pytest.mark.parametrize("breakers", [["\n"], ["\n:"], ["b\n:"]])
def test_a_breaker_is_found_however_far_it_is(gap: int, breakers: list[str]) -> None:
    run = [0, 1, 9, 4, 5, 6] * 40
    heard = [*run[:gap], 8, 1, 3, 2, *run[:gap]]
    one = lk.Dry(1.0, 1.1, 0, breakers, vocabulary=VOCABULARY)
    logits = [0.0] * COLUMNS
    wanted = reference(one, heard, [], logits)
    assert after(one, [], logits, heard) == wanted
    state = one.init_state(lk.Context.of([heard], COLUMNS))
    assert tensors_only(one, state, torch.tensor([logits]))[0].tolist() == wanted


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_finite_logit_stays_finite(dtype: torch.dtype) -> None:
    most = torch.finfo(dtype).max
    processor, context = dry(100.0, 1000.0, 0), lk.Context.of([[0] * 60 + [1, 2, 3] * 40], 5)
    state = processor.init_state(context)
    logits = torch.tensor([[most, -most, math.inf, 0.0, -math.inf]], dtype=dtype)
    rows = processor.process_logits(state, logits.clone(), context)[1]
    assert rows[0, :4].tolist() == [
        most - 100.0 if dtype == torch.float32 else rows[0, 0].item(),
        -most,
        math.inf,
        0.0 - 100,
    ]
    assert rows.equal(tensors_only(processor, state, logits))
    assert not rows.isnan().any()


def test_special_tokens_break_by_their_ids() -> None:
    prompt, output = [0, 1, 13, 1, 0, 1], [1]
    assert after(lk.Dry(1.0, 2.0, 1, [13], vocabulary=VOCABULARY), [], [0.0] * COLUMNS, prompt)[13] == 0
    assert after(dry(1.0, 2.0, 1), [], [0.0] * COLUMNS, prompt)[13] == -2
    assert after(lk.Dry(1.0, 2.0, 1, [13], vocabulary=VOCABULARY), output, [0.0] * COLUMNS, prompt)[0] == -1


def test_special_tokens_break_by_their_names() -> None:
    named = lk.Vocabulary([*PIECES, None], eos_ids=[14], special={"<turn>": 13})
    tokens = [0, 13, 1, 0, 13]
    plain, by_id, by_name = (
        after(dry(1.0, 2.0, 1, breakers=breakers, vocabulary=named), tokens, [1.0] * 15)
        for breakers in ([], [13], ["<turn>"])
    )
    assert by_name == by_id != plain


def test_what_encode_gives_counts() -> None:
    """The rest of `a:` after `a` may be any tokens that spell it, or only those that `encode` returns."""
    asked = []

    def encode(text: str) -> list[int]:
        asked.append(text)
        return [2]

    free = lk.Dry(1.0, 2.0, 1, ["a:"], vocabulary=VOCABULARY)
    bound = lk.Dry(1.0, 2.0, 1, ["a:"], vocabulary=VOCABULARY, encode=encode)
    logits = [0.0] * COLUMNS
    for colon, in_free, in_bound in ((2, -1.0, -1.0), (6, -1.0, -4.0)):
        heard = [0, colon, 1, 3, 0, colon, 1]
        assert after(free, [], logits, heard)[3] == in_free
        assert after(bound, [], logits, heard)[3] == in_bound
    assert set(asked) == {":"}


def test_memory_is_what_the_documentation_says() -> None:
    state = lk.Dry(0.8, window=64, vocabulary=VOCABULARY).init_state(lk.Context.of([[1, 2]], COLUMNS))
    assert state.history.tokens.nbytes == 4 * 64
    assert state.penalties.nbytes == 644
    assert state.breakers.single.nbytes == 4 * sum(any(c in (t or b"") for c in (b"\n", b":")) for t in PIECES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"multiplier": -1}, "multiplier is -1; allowed are numbers from 0 to 100"),
        ({"multiplier": math.nan}, "multiplier is nan; allowed"),
        ({"base": 0.9}, "base is 0.9; allowed are numbers from 1 to 1000"),
        ({"base": True}, "base is True; allowed"),
        ({"allowed_length": -1}, "allowed_length is -1; allowed are integers from 0 to 4096"),
        ({"allowed_length": 2.0}, "allowed_length is 2.0; allowed"),
        ({"window": 0}, "window is 0; allowed are integers from 1"),
        ({"breakers": "\n"}, "give a list of texts and token ids"),
        ({"breakers": 5}, "give a list of texts and token ids"),
        ({"breakers": ["\n", ""]}, "breakers has ''; allowed are texts of 1 to 40 bytes"),
        ({"breakers": ["x" * 41]}, "allowed are texts of 1 to 40 bytes"),
        ({"breakers": ["\ud800"]}, "allowed are texts of 1 to 40 bytes"),
        ({"breakers": [-1]}, "breakers has -1; allowed"),
        ({"breakers": [b"a"]}, "breakers has b'a'; allowed"),
        ({"breakers": [True]}, "breakers has True; allowed"),
        ({"breakers": range(300)}, "breakers has 300 entries; at most 256 are allowed"),
        ({"breakers": ["x" * 40] * 52}, "breakers have 2080 bytes of text together; at most 2048 are allowed"),
        ({"breakers": ["\n"], "vocabulary": None}, "whose tokens are unknown: give vocabulary="),
        ({"encode": 1}, "encode is 1; give a function"),
        (
            {"breakers": ["ab:"], "encode": lambda text: [-1]},
            "the result of encode('b:') has -1; allowed are token ids",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        lk.Dry(**{"multiplier": 0.8, "vocabulary": VOCABULARY, **arguments})
    assert message in str(caught.value)


def test_tables_of_breakers_are_bounded() -> None:
    """Many tokens, in which many breakers may begin at many places, would take 5 MB for each row."""
    many = lk.Vocabulary([*(b"%d" % i + b"e" * 39 for i in range(1500)), b"e", b"x", None], eos_ids=[1502])
    breakers = ["e" * i + "x" * (40 - i) for i in range(1, 40)]
    with pytest.raises(
        ConfigurationError, match=r"take 4,\d+,\d+ bytes for each row; allowed are 4,194,304: give fewer"
    ):
        lk.Dry(0.8, breakers=breakers, vocabulary=many)
    lk.Dry(0.8, breakers=breakers[:9], vocabulary=many)


def test_tokens_that_there_are_not() -> None:
    with pytest.raises(VocabularyError, match=r"vocabulary is of type tuple; give a logitkit\.Vocabulary"):
        lk.Dry(0.8, vocabulary=cast(Any, PIECES))
    with pytest.raises(VocabularyError, match="breakers has the token id 15; allowed are ids from 0 to 14"):
        lk.Dry(0.8, breakers=[15], vocabulary=VOCABULARY)
    with pytest.raises(VocabularyError, match="row 0 has the token 9, but the logits have 4 columns"):
        after(dry(1.0, 2.0, 1), [3, 9, 3], LOGITS)
    one = dry(1.0, 2.0, 1)
    state = one.init_state(lk.Context.of([[3, 9, 3, 1, 3]], 4))
    assert tensors_only(one, state, torch.zeros(1, 4)).tolist() == [[0, -1, 0, 0]]


def test_impossible_values_of_a_file_are_seen() -> None:
    state = lk.Dry(0.8, vocabulary=VOCABULARY).init_state(lk.Context.of([[]], COLUMNS))
    assert state.problem() is None
    assert state._replace(longest=state.longest + 1).problem() == "a length has no penalty"
    assert state._replace(penalties=-state.penalties - 1).problem() == "a penalty is not a number from 0"
    wrong = state.breakers._replace(single=state.breakers.single.flip(1))
    assert wrong.problem() == "breakers are not in ascending order, in single"


def test_penalties_of_a_slow_growth_are_bounded() -> None:
    assert dry(1.0, 1.0001, 4096).init_state(lk.Context.of([[]], 4)).penalties.shape == (1, 8193)
    assert dry(1.0, 1.0, 3).init_state(lk.Context.of([[]], 4)).penalties.tolist() == [[0, 0, 0, 1]]
