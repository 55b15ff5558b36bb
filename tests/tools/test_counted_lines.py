r"""Raw text of which the lines are counted: a text of n lines has n - 1 line feeds, before that of the end of its tag."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import logitkit as lk
from logitkit import ToolCall, Tools
from logitkit.compiler.nested_grammars import instance_builder
from logitkit.errors import ConfigurationError
from logitkit.json_schema.string_set import StringSet
from logitkit.languages import Language, dispatch, limited_items, sequence, xml_arguments, xml_members
from logitkit.languages.limited_items import COUNTED_ITEMS_FROM
from logitkit.languages.text_fragments import text_fragment
from logitkit.languages.value_ends import ValueEnds
from logitkit.languages.xml_members import texts_without
from logitkit.limits import DEFAULT_LIMITS
from logitkit.runtime.constraint import Constraint
from logitkit.tools.formats import TOOL_FORMATS
from tests.examples import examples
from tests.in_step import masks_in_step
from tests.tools.test_counted_xml import CROSSING, EOS, LONG, TOKENS, VOCABULARY, counts, walk
from tests.tools.turns import accepts, vocabulary

BEGIN, END, MARKER = b"<parameter=x>\n", b"\n</parameter>", b"</parameter>"
# Parts of texts.
PIECES = [*"\na\r> é\U0001f600", "\n\n", "</par", "</parameter", "\n</parameter", "<parameter=x>\n"]
# The ways to limit line feeds.
SPELLINGS = [r"^[^\n]*(\n[^\n]*){0,%d}$", r"^([^\n]*\n){0,%d}[^\n]*$", r"^(?!([^\n]*\n){%d}\n?[^\n]*\n)[\s\S]*$"]


def lines(most: int, spelling: int = 0) -> dict[str, Any]:
    """Return the schema of texts of a number of lines."""
    return {"type": "string", "pattern": SPELLINGS[spelling] % (most - 1)}


SCHEMAS: dict[str, dict[str, Any]] = {
    "lines": {"x": lines(4)},
    "two": {"x": lines(5), "y": lines(6)},
    "twice the same": {"x": lines(4), "y": lines(4)},
    "beside characters": {"x": lines(4), "y": LONG},
    "beside any text": {"x": {"type": "string"}, "y": lines(4)},
    "beside JSON": {
        "x": lines(4),
        "y": {"type": "array", "items": {"type": "string", "maxLength": 18}, "maxItems": 2},
    },
    "not empty": {"x": {**lines(4), "minLength": 1}},
    "without white space": {"x": {"type": "string", "pattern": r"^[^\n\r\t ]*(\n[^\n\r\t ]*){0,3}$"}},
    "lines that are not empty": {"x": {"type": "string", "pattern": r"^[^\n]+(\n[^\n]+){0,5}$"}},
    "characters too": {"x": {**lines(4), "maxLength": 40}},
}
# Each number of lines has states: few lines, a least number, other texts, or JSON in the same place.
UNCOUNTED: dict[str, dict[str, Any]] = {
    "few": {"x": lines(2)},
    "at least": {"x": {"type": "string", "pattern": r"^[^\n]*(\n[^\n]*){2,5}$"}},
    "digits in the second line": {"x": {"type": "string", "pattern": r"^[^\n]*(\n[0-9]*(\n[^\n]*){0,4})?$"}},
    "line feeds or carriage returns": {"x": {"type": "string", "pattern": r"^[^\r\n]*([\r\n][^\r\n]*){0,5}$"}},
    "or null": {"x": {**lines(6), "type": ["string", "null"]}},
    "at most 10 characters": {"x": {**lines(6), "maxLength": 10}},
}

CLOSING: dict[str, dict[str, Any]] = {
    "lines": {"x": lines(4)},
    "two": {"x": lines(4), "y": lines(7)},
    "not empty": {"x": {**lines(4), "minLength": 2}},
    "beside characters": {"x": lines(4), "y": {"type": "string", "maxLength": 64}},
}


@pytest.fixture(scope="module", autouse=True)
def few_lines_are_counted() -> Iterator[None]:
    """Count few lines, so that texts often have all that are allowed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limited_items, "COUNTED_ITEMS_FROM", 3)
        yield


def schema_of(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": ["x"], "additionalProperties": False}


def arguments(properties: dict[str, Any], **tags: Any) -> Language:
    return xml_arguments(schema_of(properties), **tags)


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


@pytest.mark.parametrize("name", [*SCHEMAS, *UNCOUNTED])
def test_masks_are_those_without_counting(name: str) -> None:
    language = arguments({**SCHEMAS, **UNCOUNTED}[name])
    assert counts(language) == (name in SCHEMAS)
    for seed in range(examples(40)):
        walk(language, seed, 70)


@pytest.mark.parametrize(
    "name", ["lines", "two", "twice the same", "beside characters", "beside any text", "beside JSON"]
)
def test_masks_of_texts_that_are_called(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_builder, "LARGE_INSTANCES", 0)
    inner = arguments(SCHEMAS[name])
    language = sequence(inner, "|", dispatch({"<call>": sequence("<call>", inner, "</call>")}))
    assert language.constraint(VOCABULARY).automaton.nesting.strings
    for seed in range(examples(30)):
        walk(language, seed, 80)


@pytest.mark.parametrize(
    "tags",
    [
        {"begin": "<{name}>", "end": "</>"},
        {"begin": "\n{name}: ", "end": ";\n"},
        {"begin": "<{name}>\n\n", "end": "\n\n</a\n>\n\n"},
        {"begin": "<{name}>", "end": "\n.\n"},
    ],
)
def test_line_feeds_of_other_tags_are_not_those_of_texts(tags: dict[str, str]) -> None:
    language = sequence("Go", arguments(SCHEMAS["two"], separator=" ", **tags), ".")
    assert counts(language)
    for seed in range(examples(30)):
        walk(language, seed, 60)
    constraint = language.constraint(VOCABULARY)
    for feeds in (3, 4, 5):
        text = "Go" + tags["begin"].replace("{name}", "x") + "a\n" * feeds + tags["end"] + "."
        assert constraint.matches(text) == (feeds <= 4)


def test_lines_of_objects_that_begin_alike_are_counted_where_they_differ() -> None:
    language = xml_arguments({"anyOf": [schema_of({"x": lines(4)}), schema_of({"x": lines(5), "y": lines(6)})]})
    assert counts(language)
    for seed in range(examples(20)):
        walk(language, seed, 60)


@pytest.mark.parametrize("spelling", range(len(SPELLINGS)))
@given(st.lists(st.sampled_from(PIECES), max_size=50).map("".join), st.integers(-1, 1))
def test_texts_are_those_with_few_line_feeds(spelling: int, text: str, more: int) -> None:
    feeds = max(text.count("\n"), 3)
    language = arguments({"x": lines(1 + feeds + more, spelling)})
    constraint = language.constraint(VOCABULARY)
    assert constraint.automaton.counting is not None or feeds + more < 2
    legal = MARKER.decode() not in text and text.count("\n") <= feeds + more
    assert constraint.matches(BEGIN.decode() + text + END.decode()) == legal


@given(
    st.lists(st.sampled_from([token for token in CROSSING if b"parameter=" not in token] * 2 + [b"\n", b"a"])),
    st.randoms(),
)
def test_masks_are_those_of_an_oracle_that_counts(tokens: list[bytes], chance: Random) -> None:
    constraint = arguments({"x": lines(4)}).constraint(VOCABULARY)
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
    st.lists(st.sampled_from(PIECES), max_size=40).map("".join),
    st.sampled_from(["", "\n", ">", END.decode(), MARKER.decode()]),
)
def test_a_fragment_holds_texts_of_few_lines(text: str, end: str) -> None:
    feeds = max(text.count("\n") - 1, 3)
    strings = StringSet.matching(lines(1 + feeds)["pattern"], DEFAULT_LIMITS)
    fragment = text_fragment(
        strings, texts_without(MARKER.decode(), DEFAULT_LIMITS), ValueEnds((END.decode(),)), 10, False
    )
    assert fragment is not None
    assert fragment.size < 60
    begun, complete = is_begun(BEGIN + (text + end).encode(), 1 + feeds)
    assert fragment.holds((text + end).encode()) == complete
    assert begun or not complete


def test_all_limits_share_a_fragment() -> None:
    sizes = [arguments({"x": lines(most)}).constraint(VOCABULARY).automaton.states for most in (4, 100, 3000)]
    assert len(set(sizes)) == 1
    strings = [StringSet.matching(lines(most)["pattern"], DEFAULT_LIMITS) for most in (4, 100)]
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
    strings = StringSet.matching(lines(4)["pattern"], DEFAULT_LIMITS)
    fragment = text_fragment(strings, texts_without("</>", DEFAULT_LIMITS), ValueEnds(("</>",)), 10, False)
    assert fragment is not None
    split = fragment.with_class_of(ord("x"))
    assert split.step.shape[1] == fragment.step.shape[1] + 1
    assert split.with_class_of(ord("x")) is split
    for feeds in (0, 3, 4):
        text = b"x\n" * feeds + b"x</>"
        assert split.holds(text) == fragment.holds(text) == (feeds < 4)


def uncounted(language: Language, patch: pytest.MonkeyPatch, closing: int | bool = False) -> Constraint:
    """Return the constraint that has states for each count."""
    patch.setattr(xml_members, "text_fragment", lambda *_: None)
    patch.setattr(StringSet, "counts", lambda *_: False)
    # Other limits, so that it is compiled again.
    limits = replace(DEFAULT_LIMITS, work=DEFAULT_LIMITS.work + 1)
    constraint = language.constraint(VOCABULARY, closing=closing, limits=limits)
    assert constraint.automaton.counting is None
    return constraint


@pytest.mark.parametrize("prefix", ["a", "\n\n<parameter", "<parameter=x>\n" + "\n" * 4, "é\n</parameter>"])
def test_forced_prefixes(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    language = arguments({"x": lines(4)})
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


@pytest.mark.parametrize("name", CLOSING)
def test_texts_end_in_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    language, budgets = arguments(CLOSING[name]), (14, 30, 110)
    counted = [language.constraint(VOCABULARY, closing=budget) for budget in budgets]
    for budget, one in zip(budgets, counted, strict=True):
        assert one.automaton.counting is not None
        other = uncounted(language, monkeypatch, budget)
        assert one.automaton.cost[one.automaton.start] == other.automaton.cost[other.automaton.start]
        for seed in range(examples(20)):
            for place, (legal, exact) in enumerate(masks_in_step(one, other, seed, budget)):
                # With some counts, the end may take fewer tokens than with all.
                assert not (legal & ~exact).any()
                if budget - place > 20:
                    assert torch.equal(legal, exact)


@pytest.mark.parametrize("closing", [False, 50])
def test_few_lines_have_states(closing: int | bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_items, "COUNTED_ITEMS_FROM", COUNTED_ITEMS_FROM)
    for most in (COUNTED_ITEMS_FROM - 1, COUNTED_ITEMS_FROM):
        constraint = arguments({"x": lines(most)}).constraint(VOCABULARY, closing=closing)
        assert (constraint.automaton.counting is None) == (most < COUNTED_ITEMS_FROM)


@pytest.mark.parametrize("name", TOOL_FORMATS)
def test_all_formats_of_tools_limit_lines(name: str) -> None:
    """JSON arguments have states for each line, and the same texts."""
    form = TOOL_FORMATS[name]
    limited, free = (
        Tools([{"type": "function", "function": {"name": "write", "parameters": schema_of({"x": value})}}], form)
        for value in (lines(4), {"type": "string"})
    )
    constraint = limited.constraint(vocabulary(form))
    assert (constraint.automaton.counting is not None) == (form.arguments == "xml")
    for feeds in range(6):
        text = free.write([ToolCall("write", {"x": "é\n" * feeds + "</par"})])
        assert accepts(free, form, text)
        assert accepts(limited, form, text) == (feeds < 4)
