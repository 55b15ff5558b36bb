"""Random walks under random constraints: at each step, the mask of every token against a judge that reads it byte by byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any
from unittest import mock

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import logitkit as lk
from logitkit import protocol
from logitkit.compiler.language import pattern_dfa
from logitkit.errors import ConfigurationError, PatternSyntaxError, PatternTooLarge, UnsupportedSchema
from logitkit.runtime.constraint import Constraint
from tests.adapters import demo
from tests.campaigns.campaign import Campaign, drawn
from tests.campaigns.mask_judges import AfterMarker, Avoiding, Beginning, Judge, Matching, Nesting
from tests.json_schema.generated import leaves, schemas
from tests.patterns.strategies import ALPHABET, patterns
from tests.vocabularies import sentencepiece_32k, tekken

LIMITS = lk.Limits(states=3_000, work=300_000)
# Triton has wheels for Linux only.
HAS_KERNELS = find_spec("triton") is not None
if HAS_KERNELS:
    from tests.kernels.interpreter import kernels

# Blocks for Triton's interpreter, which takes as long for small ones.
WHOLE_ROWS = {"strip": 2**15, "strips": 4, "classes": 512}
SCHEMA_LIMITS = lk.Limits(states=10_000, work=1_000_000)


@cache
def bytes_only() -> lk.Vocabulary:
    return lk.Vocabulary([*(bytes([b]) for b in range(256)), None, None], eos_ids=[256], pad_id=257)


@cache
def large() -> lk.Vocabulary:
    """Tekken's 131,072 ids, 1,000 of them special, then 500 tokens again, a second EOS, and columns without a token."""
    tokens = tekken().tokens
    return lk.Vocabulary([*tokens, *tokens[1000:1500], None], eos_ids=[2, len(tokens) + 500], size=len(tokens) + 564)


VOCABULARIES: dict[str, Callable[[], lk.Vocabulary]] = {
    "bytes": bytes_only,
    "BPE of the demo model": demo.vocabulary,
    "SentencePiece with byte fallback": sentencepiece_32k,
    "large, with duplicates and specials": large,
}
# Steps on the large vocabulary take most of the time, so it is drawn less often.
OFTEN = [name for name, weight in zip(VOCABULARIES, (4, 4, 2, 1), strict=True) for _ in range(weight)]


@dataclass(frozen=True)
class Asked:
    """A constraint: its kind and what it is made of."""

    kind: str
    given: Any

    def made(self, vocabulary: lk.Vocabulary) -> tuple[lk.Processor[Any], Judge]:
        """Return the constraint and its judge."""
        match self.kind, self.given:
            case "regex", str(pattern):
                return lk.Regex(pattern, vocabulary, limits=LIMITS), Matching(pattern_dfa(pattern, LIMITS))
            case "schema", (schema, whitespace):
                made = lk.JsonSchema(schema, vocabulary, whitespace=whitespace, limits=SCHEMA_LIMITS)
                return made, Nesting(made.nested_dfa(), made.max_depth)
            case "banned", strings:
                return lk.BannedStrings(strings, vocabulary), Avoiding(tuple(s.encode() for s in strings))
            case "prefix", (prefix, pattern):
                rest = None if pattern is None else lk.Regex(pattern, vocabulary, limits=LIMITS)
                judge = Beginning(prefix.encode(), None if pattern is None else pattern_dfa(pattern, LIMITS))
                return lk.ForcedPrefix(prefix, vocabulary, then=rest), judge
            case "then", (marker, pattern):
                made_then = lk.then(None, lk.Regex(pattern, vocabulary, limits=LIMITS), marker)
                return made_then, AfterMarker(marker.encode(), pattern_dfa(pattern, LIMITS))
        raise AssertionError(self)


@dataclass(frozen=True)
class Case:
    """Constraints over one vocabulary, and for each row the numbers that choose its tokens among the legal ones."""

    vocabulary: str
    rows: tuple[tuple[Asked, tuple[int, ...]], ...]


words = st.text(ALPHABET, min_size=1, max_size=5)
asked = st.one_of(
    st.builds(Asked, st.just("regex"), patterns()),
    st.builds(Asked, st.just("schema"), st.tuples(schemas | leaves, st.sampled_from(["compact", "bounded"]))),
    st.builds(Asked, st.just("banned"), st.lists(words, min_size=1, max_size=5).map(tuple)),
    st.builds(Asked, st.just("prefix"), st.tuples(words, st.none() | patterns(lookarounds=False))),
    st.builds(Asked, st.just("then"), st.tuples(words, patterns(lookarounds=False))),
)


@st.composite
def cases(draw: DrawFn) -> Case:
    steps = draw(st.integers(1, 8))
    row = st.tuples(asked, st.tuples(*[st.integers(0, 2**20)] * steps))
    return Case(draw(st.sampled_from(OFTEN)), tuple(draw(st.lists(row, min_size=1, max_size=3))))


def check(case: Case, tried: Counter[str]) -> None:
    vocabulary = VOCABULARIES[case.vocabulary]()
    groups: dict[bool, list[tuple[Any, Judge, tuple[int, ...]]]] = {False: [], True: []}
    for one, choices in case.rows:
        try:
            made, judge = one.made(vocabulary)
        except (ConfigurationError, PatternSyntaxError, PatternTooLarge, UnsupportedSchema):
            tried["constraints refused"] += 1
            continue
        # A large pattern may call the bytes of characters, and so have a stack.
        groups[isinstance(made, Constraint) and made.may_nest].append((made, judge, choices))
    # Rows of one kind of automaton share a batch.
    for group in groups.values():
        if group:
            walk(group, vocabulary, case.vocabulary, tried)


def walk(
    rows: list[tuple[Any, Judge, tuple[int, ...]]], vocabulary: lk.Vocabulary, name: str, tried: Counter[str]
) -> None:
    contexts = [lk.Context.of([[1]], vocabulary.size) for _ in rows]
    state = lk.concatenate([made.init_state(c) for (made, *_), c in zip(rows, contexts, strict=True)])
    context, processor = lk.concatenate_context(contexts), rows[0][0]
    said = [b"" for _ in rows]
    ended = np.zeros(len(rows), np.bool_)
    for step in range(len(rows[0][2])):
        ones = torch.ones(len(rows), vocabulary.size)
        legal = (processor.process_logits(state, ones.clone(), context)[1] == 1).numpy()
        with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
            by_tensors = (processor.process_logits(state, ones, context)[1] == 1).numpy()
        assert (legal == by_tensors).all(), (
            f"the rows {(legal != by_tensors).any(1).tolist()} differ on the path of tensors"
        )
        # The interpreter is slow, so kernels take every other step. They mask in place.
        if HAS_KERNELS and step % 2 == 0:
            with kernels(**WHOLE_ROWS):
                by_kernel = (processor.process_logits(state, torch.ones(ones.shape), context)[1] == 1).numpy()
            assert (legal == by_kernel).all(), f"the rows {(legal != by_kernel).any(1).tolist()} differ by the kernel"
            tried["masks by kernels"] += len(rows)
        tokens = []
        for row, (_, judge, choices) in enumerate(rows):
            wanted = ends(vocabulary) if ended[row] else judge.legal(said[row], vocabulary)
            wrong = np.flatnonzero(legal[row] != wanted)
            assert not len(wrong), explain(row, said[row], wrong, wanted, vocabulary)
            tried[f"masks on {name}"] += 1
            tried["tokens compared"] += vocabulary.size
            token = choose(np.flatnonzero(wanted), choices[step], vocabulary)
            tokens.append(token)
            ended[row] |= token in vocabulary.eos_ids
            said[row] += (vocabulary.tokens[token] if token >= 0 else None) or b""
        after = processor.advance(state, torch.tensor(tokens))
        if HAS_KERNELS and step % 2 == 0:
            with kernels(**WHOLE_ROWS):
                moved = processor.advance(state, torch.tensor(tokens))
            assert all(map(torch.equal, protocol.leaves(after), protocol.leaves(moved))), (
                f"states differ after {tokens}"
            )
        state = after


def choose(legal: np.ndarray[Any, np.dtype[np.int64]], number: int, vocabulary: lk.Vocabulary) -> int:
    """Return a legal token; EOS and ids without text are rare among them, and without any legal token there is none, -1."""
    spelled = (
        [int(i) for i in legal[[(number + n) % len(legal) for n in range(min(len(legal), 20))]]] if len(legal) else [-1]
    )
    with_text = [i for i in spelled if i >= 0 and vocabulary.tokens[i] is not None]
    return with_text[0] if with_text and number % 8 else spelled[0]


def ends(vocabulary: lk.Vocabulary) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return what a finished row may say."""
    found = np.zeros(vocabulary.size, np.bool_)
    found[[*vocabulary.eos_ids, *([] if vocabulary.pad_id is None else [vocabulary.pad_id])]] = True
    return found


def explain(row: int, said: bytes, wrong: Any, wanted: Any, vocabulary: lk.Vocabulary) -> str:
    shown = [f"{i} {vocabulary.tokens[i]!r}, which is {'legal' if wanted[i] else 'illegal'}" for i in wrong[:5]]
    return f"after {said!r}, row {row} differs in {len(wrong)} tokens: {'; '.join(shown)}"


CAMPAIGN = Campaign(
    "masks", "masks of whole vocabularies, with a judge that reads every token", drawn(cases(), 20, check)
)
