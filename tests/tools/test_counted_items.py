"""Raw text of which lines, words or other items are counted: a text of n items has n - 1 separators, before those of its end."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from logitkit import ToolCall, Tools
from logitkit.compiler.nested_grammars import instance_builder
from logitkit.languages import dispatch, limited_items, sequence
from logitkit.languages.limited_items import COUNTED_ITEMS_FROM
from logitkit.tools.formats import TOOL_FORMATS
from tests.examples import examples
from tests.in_step import masks_in_step
from tests.tools.limited_items import ITEMS, count_few
from tests.tools.raw_text import BEGIN, END, LONG, MARKER, VOCABULARY, arguments, counts, schema_of, uncounted, walk
from tests.tools.turns import accepts, vocabulary
from tests.tools.two_ends import ENDS, language_of, plain_reading

few_are_counted = pytest.fixture(scope="module", autouse=True)(count_few)
each_kind = pytest.mark.parametrize("kind", ITEMS)


def schemas(kind: str) -> dict[str, dict[str, Any]]:
    """Return members of objects of which items are counted."""
    items = ITEMS[kind]
    array = {"type": "array", "items": {"type": "string", "maxLength": 18}, "maxItems": 2}
    return {
        "one": {"x": items.most(4)},
        "two": {"x": items.most(5), "y": items.most(6)},
        "twice the same": {"x": items.most(4), "y": items.most(4)},
        "beside characters": {"x": items.most(4), "y": LONG},
        "beside any text": {"x": {"type": "string"}, "y": items.most(4)},
        "beside JSON": {"x": items.most(4), "y": array},
        "long enough": {"x": {**items.most(4), "minLength": 3}},
        "not empty": {"x": {**items.most(4), "minLength": 1}},
        "characters too": {"x": {**items.most(4), "maxLength": 40}},
        "all kinds": {"x": items.most(4), **{f"y{at}": other.most(4) for at, other in enumerate(ITEMS.values())}},
        **{pattern: {"x": {"type": "string", "pattern": pattern}} for pattern in items.others},
    }


def with_states(kind: str) -> dict[str, dict[str, Any]]:
    """Return members of objects of which each number of items has states: few, other texts, or JSON in the same place."""
    items = ITEMS[kind]
    return {
        "few": {"x": items.most(2)},
        "or null": {"x": {**items.most(6), "type": ["string", "null"]}},
        "at most 10 characters": {"x": {**items.most(6), "maxLength": 10}},
        **{pattern: {"x": {"type": "string", "pattern": pattern}} for pattern in items.uncounted},
    }


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in ITEMS for name in [*schemas(kind), *with_states(kind)]]
)
def test_masks_are_those_without_counting(kind: str, name: str) -> None:
    language = arguments({**schemas(kind), **with_states(kind)}[name])
    assert counts(language) == (name in schemas(kind))
    for seed in range(examples(40)):
        walk(language, seed, 70)


@pytest.mark.parametrize(
    "name", ["one", "two", "twice the same", "beside characters", "beside any text", "beside JSON", "all kinds"]
)
@each_kind
def test_masks_of_texts_that_are_called(kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_builder, "LARGE_INSTANCES", 0)
    inner = arguments(schemas(kind)[name])
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
        {"begin": "<{name}>", "end": "</a b>"},
        {"begin": "<{name}> ", "end": " </> "},
    ],
)
@each_kind
def test_separators_of_tags_are_not_those_of_texts(kind: str, tags: dict[str, str]) -> None:
    items = ITEMS[kind]
    language = sequence("Go", arguments(schemas(kind)["two"], separator=" ", **tags), ".")
    assert counts(language)
    for seed in range(examples(30)):
        walk(language, seed, 60)
    constraint = language.constraint(VOCABULARY)
    for number in (4, 5, 6):
        value = items.separator.join("a" * number)
        text = "Go" + tags["begin"].replace("{name}", "x") + value + tags["end"] + "."
        assert constraint.matches(text) == (number <= 5)


@pytest.mark.parametrize("ends", ENDS)
@each_kind
def test_masks_with_two_ends(kind: str, ends: str) -> None:
    language = language_of(schema_of(schemas(kind)["two"]), ends)
    # With different separators in both, a limit would depend on the end.
    assert counts(language) == (len({end[:-1].count(ITEMS[kind].separator) for end in ENDS[ends][:2]}) == 1)
    for seed in range(examples(30)):
        walk(language, seed, 60)


@each_kind
@given(st.data(), st.sampled_from([*ENDS]), st.integers(0, 1))
def test_texts_with_two_ends_are_read(kind: str, data: st.DataObject, ends: str, which: int) -> None:
    items = ITEMS[kind]
    text = data.draw(st.lists(st.sampled_from(items.pieces), max_size=12).map("".join))
    text = BEGIN.decode() + text + ENDS[ends][which]
    members = plain_reading(text, ends)
    legal = members is not None and len(members) == 1 and members[0][0] == "x" and items.holds(members[0][1], 4)
    assert language_of(schema_of({"x": items.most(4)}), ends).constraint(VOCABULARY).matches(text) == legal


@pytest.mark.parametrize(
    ("kind", "spelling"), [(kind, at) for kind in ITEMS for at in range(len(ITEMS[kind].spellings))]
)
@given(st.data(), st.integers(-1, 1))
def test_texts_are_those_with_few_items(kind: str, spelling: int, data: st.DataObject, more: int) -> None:
    items = ITEMS[kind]
    text = data.draw(st.lists(st.sampled_from(items.pieces), max_size=50).map("".join))
    number = max(text.count(items.separator), 3) + 1 + more
    constraint = arguments({"x": items.most(number, spelling)}).constraint(VOCABULARY)
    assert constraint.automaton.counting is not None
    legal = MARKER.decode() not in text and items.holds(text, number)
    assert constraint.matches(BEGIN.decode() + text + END.decode()) == legal


@pytest.mark.parametrize("name", ["one", "two", "long enough", "beside characters", "all kinds"])
@each_kind
def test_texts_end_in_time(kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    language, budgets = arguments(schemas(kind)[name]), (14, 30, 110)
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


@each_kind
def test_all_limits_share_a_fragment(kind: str) -> None:
    sizes = {
        arguments({"x": ITEMS[kind].most(most)}).constraint(VOCABULARY).automaton.states for most in (4, 100, 3000)
    }
    assert len(sizes) == 1


@pytest.mark.parametrize("closing", [False, 50])
@each_kind
def test_few_items_have_states(kind: str, closing: int | bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_items, "COUNTED_ITEMS_FROM", COUNTED_ITEMS_FROM)
    for most in (COUNTED_ITEMS_FROM - 1, COUNTED_ITEMS_FROM):
        constraint = arguments({"x": ITEMS[kind].most(most)}).constraint(VOCABULARY, closing=closing)
        assert (constraint.automaton.counting is None) == (most < COUNTED_ITEMS_FROM)


@pytest.mark.parametrize("name", TOOL_FORMATS)
@each_kind
def test_all_formats_of_tools_limit_items(kind: str, name: str) -> None:
    """JSON arguments have states for each item, and the same texts."""
    form, items = TOOL_FORMATS[name], ITEMS[kind]
    limited, free = (
        Tools([{"type": "function", "function": {"name": "write", "parameters": schema_of({"x": value})}}], form)
        for value in (items.most(4), {"type": "string"})
    )
    constraint = limited.constraint(vocabulary(form))
    assert (constraint.automaton.counting is not None) == (form.arguments == "xml")
    for number in range(1, 7):
        text = free.write([ToolCall("write", {"x": items.separator.join(["é"] * (number - 1) + ["</par"])})])
        assert accepts(free, form, text)
        assert accepts(limited, form, text) == (number <= 4)
