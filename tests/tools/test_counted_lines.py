"""Raw text of which the lines are counted, compared with a plain reader, and its fragments."""

from __future__ import annotations

from codecs import getincrementaldecoder
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.json_schema.string_set import StringSet
from logitkit.languages import sequence, xml_arguments
from logitkit.languages.raw_strings import texts_without
from logitkit.languages.text_fragments import text_fragment
from logitkit.languages.value_ends import ValueEnds
from logitkit.limits import DEFAULT_LIMITS
from tests.examples import examples
from tests.tools.limited_items import ITEMS, count_few
from tests.tools.raw_text import (
    BEGIN,
    CROSSING,
    END,
    EOS,
    MARKER,
    TOKENS,
    VOCABULARY,
    arguments,
    counts,
    schema_of,
    uncounted,
    walk,
)

few_are_counted = pytest.fixture(scope="module", autouse=True)(count_few)
LINES = ITEMS["lines"]


def is_begun(text: bytes, most: int) -> tuple[bool, bool]:
    """Return whether the argument `x` of at most some lines may begin with a text, and whether it is complete."""
    if not text.startswith(BEGIN):
        return BEGIN.startswith(text), False
    text = text.removeprefix(BEGIN)
    decoder = getincrementaldecoder("utf-8")()
    try:
        decoder.decode(text)
    except UnicodeDecodeError:
        return False, False
    # Python sees only at its third byte that this is half of a surrogate pair.
    if decoder.getstate()[0][:2] >= b"\xed\xa0" and text[-2:-1] == b"\xed":
        return False, False
    if MARKER in text:
        value = text.removesuffix(END)
        complete = text == value + END and MARKER not in value and value.decode().count("\n") < most
        return complete, complete
    # The end has a line feed too.
    last = text.rpartition(b"\n")[2]
    return text.count(b"\n") < most or (text.count(b"\n") == most and MARKER.startswith(last)), False


def test_lines_of_objects_that_begin_alike_are_counted_where_they_differ() -> None:
    language = xml_arguments(
        {"anyOf": [schema_of({"x": LINES.most(4)}), schema_of({"x": LINES.most(5), "y": LINES.most(6)})]}
    )
    assert counts(language)
    for seed in range(examples(20)):
        walk(language, seed, 60)


@given(
    st.lists(st.sampled_from([token for token in CROSSING if b"parameter=" not in token] * 2 + [b"\n", b"a"])),
    st.randoms(),
)
def test_masks_are_those_of_an_oracle_that_counts(tokens: list[bytes], chance: Random) -> None:
    constraint = arguments({"x": LINES.most(4)}).constraint(VOCABULARY)
    state, text = constraint.init_state(lk.Context.of([[]], vocabulary_size=len(TOKENS))), b""
    for token in [*([byte] for byte in BEGIN), *([TOKENS.index(token)] for token in tokens)]:
        verdicts = [is_begun(text + (other or b""), 4) for other in TOKENS]
        legal = [begun and other is not None for (begun, _), other in zip(verdicts, TOKENS, strict=True)]
        legal[EOS] = verdicts[EOS][1]
        assert constraint.allowed_tokens(state)[0].tolist() == legal
        likely = [at for at in (token if legal[token[0]] else range(EOS)) if legal[at]]
        if not likely:
            break
        chosen = chance.choice(likely)
        state, text = constraint.advance(state, torch.tensor([chosen])), text + (TOKENS[chosen] or b"")


@given(
    st.lists(st.sampled_from(LINES.pieces), max_size=40).map("".join),
    st.sampled_from(["", "\n", ">", END.decode(), MARKER.decode()]),
)
def test_a_fragment_holds_texts_of_few_lines(text: str, end: str) -> None:
    feeds = max(text.count("\n") - 1, 3)
    strings = StringSet.matching(LINES.most(1 + feeds)["pattern"], DEFAULT_LIMITS)
    fragment = text_fragment(
        strings, texts_without(MARKER.decode(), DEFAULT_LIMITS), ValueEnds((END.decode(),)), 10, False
    )
    assert fragment is not None
    assert fragment.size < 60
    begun, complete = is_begun(BEGIN + (text + end).encode(), 1 + feeds)
    assert fragment.holds((text + end).encode()) == complete
    assert begun or not complete


def test_limits_differ_in_the_bounds_of_fragments_only() -> None:
    strings = [StringSet.matching(LINES.most(most)["pattern"], DEFAULT_LIMITS) for most in (4, 100)]
    without = texts_without(MARKER.decode(), DEFAULT_LIMITS)
    one, other = (text_fragment(some, without, ValueEnds((END.decode(),)), 10, False) for some in strings)
    assert one is not None
    assert other is not None
    assert one.key != other.key
    assert one.uncounted_key == other.uncounted_key
    # The same moves, of which others count.
    characters = text_fragment(
        StringSet.of_length(0, 40, DEFAULT_LIMITS), without, ValueEnds((END.decode(),)), 10, False
    )
    assert characters is not None
    assert characters.uncounted_key != one.uncounted_key


def test_a_class_for_one_byte_changes_no_text() -> None:
    strings = StringSet.matching(LINES.most(4)["pattern"], DEFAULT_LIMITS)
    fragment = text_fragment(strings, texts_without("</>", DEFAULT_LIMITS), ValueEnds(("</>",)), 10, False)
    assert fragment is not None
    split = fragment.with_class_of(ord("x"))
    assert split.step.shape[1] == fragment.step.shape[1] + 1
    assert split.with_class_of(ord("x")) is split
    for feeds in (0, 3, 4):
        text = b"x\n" * feeds + b"x</>"
        assert split.holds(text) == fragment.holds(text) == (feeds < 4)


@pytest.mark.parametrize("prefix", ["a", "\n\n<parameter", "<parameter=x>\n" + "\n" * 4, "é\n</parameter>"])
def test_forced_prefixes(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    language = arguments({"x": LINES.most(4)})
    counted = sequence(prefix, language).constraint(VOCABULARY)
    assert counted.automaton.counting is not None
    with pytest.raises(ConfigurationError, match="counts tokens or parts of texts"):
        lk.ForcedPrefix(prefix, VOCABULARY, then=language.constraint(VOCABULARY))
    forced = lk.ForcedPrefix(prefix, VOCABULARY, then=uncounted(language, monkeypatch))
    for seed in range(examples(80)):
        context = lk.Context.of([[]], vocabulary_size=VOCABULARY.size)
        states, chance = [one.init_state(context) for one in (counted, forced)], Random(seed)
        for _ in range(60):
            legal, same = (one.allowed_tokens(state)[0] for one, state in zip((counted, forced), states, strict=True))
            assert torch.equal(legal, same)
            choices = legal[:EOS].nonzero()[:, 0].tolist()
            if not choices:
                break
            token = torch.tensor([chance.choice(choices)])
            states = [one.advance(state, token) for one, state in zip((counted, forced), states, strict=True)]
