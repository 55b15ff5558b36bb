r"""Raw text of which words are counted, or other items between two separators: a text of n words has n - 1 spaces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from logitkit import ToolCall, Tools
from logitkit.languages import dispatch, limited_items, sequence
from logitkit.languages.limited_items import COUNTED_ITEMS_FROM
from logitkit.tools.formats import TOOL_FORMATS
from tests.examples import examples
from tests.in_step import masks_in_step
from tests.tools.test_counted_lines import BEGIN, END, MARKER, arguments, lines, schema_of, uncounted
from tests.tools.test_counted_xml import LONG, VOCABULARY, counts, walk
from tests.tools.turns import accepts, vocabulary
from tests.tools.two_ends import ENDS, language_of, plain_reading

PIECES = [*" a\xa0é\n\U0001f600", "a b", "  ", "</par", "\n</parameter"]
# The ways to limit words, with the number of words less one.
SPELLINGS = [r"^\S+(?: \S+){0,%d}$", r"^(\S+ ){0,%d}\S+$", r"^(?!(\S+ ){%d}\S+ )\S+( \S+)*$"]


def matching(pattern: str) -> dict[str, Any]:
    return {"type": "string", "pattern": pattern}


def words(most: int, spelling: int = 0) -> dict[str, Any]:
    """Return the schema of texts of a number of words."""
    return matching(SPELLINGS[spelling] % (most - 1))


SCHEMAS: dict[str, dict[str, Any]] = {
    "words": {"x": words(4)},
    "two": {"x": words(5), "y": words(6)},
    "twice the same": {"x": words(4), "y": words(4)},
    "beside lines": {"x": words(4), "y": lines(4)},
    "beside characters": {"x": words(4), "y": LONG},
    "beside any text": {"x": {"type": "string"}, "y": words(4)},
    "long enough": {"x": {**words(4), "minLength": 3}},
    "empty words": {"x": matching(r"^\S*( \S*){0,3}$")},
    "words in several lines": {"x": matching(r"^[^ ]+( [^ ]+){0,3}$")},
    "words of two states": {"x": matching(r"^[a\n][b<\n]+( [a\n][b<\n]+){0,3}$")},
    "items that end": {"x": matching(r"^[ab]{2}(,[ab]{2}){0,3}$")},
}
# Each number of words has states.
UNCOUNTED: dict[str, dict[str, Any]] = {
    "few": {"x": words(2)},
    "at least": {"x": matching(r"^\S+( \S+){2,5}$")},
    "or empty": {"x": matching(r"^(\S+( \S+){0,5})?$")},
    "several separators": {"x": matching(r"^[ab]+([ \n][ab]+){0,5}$")},
    "a separator of two bytes": {"x": matching(r"^[^é]+(é[^é]+){0,5}$")},
    "any white space": {"x": matching(r"^\S+(\s+\S+){0,5}$")},
    "pairs of words": {"x": matching(r"^[ab]+ [ab]+( [ab]+ [ab]+){0,5}$")},
    "numbered words": {"x": matching(r"^a+( a+( a+( b+( a+( a+)?)?)?)?)?$")},
    "another last word": {"x": matching(r"^[ab]+( [ab]+( [ab]+( [ab]+( [ab]+( [abc]+)?)?)?)?)?$")},
    "at most 10 characters": {"x": {**words(6), "maxLength": 10}},
    "or null": {"x": {**words(6), "type": ["string", "null"]}},
}


@pytest.fixture(scope="module", autouse=True)
def few_words_are_counted() -> Iterator[None]:
    """Count few words, so that texts often have all that are allowed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limited_items, "COUNTED_ITEMS_FROM", 3)
        yield


@pytest.mark.parametrize("name", [*SCHEMAS, *UNCOUNTED])
def test_masks_are_those_without_counting(name: str) -> None:
    language = arguments({**SCHEMAS, **UNCOUNTED}[name])
    assert counts(language) == (name in SCHEMAS)
    for seed in range(examples(40)):
        walk(language, seed, 70)


def test_masks_of_texts_in_a_choice() -> None:
    inner = arguments(SCHEMAS["beside lines"])
    language = sequence(inner, "|", dispatch({"<call>": sequence("<call>", inner, "</call>")}))
    assert counts(language)
    for seed in range(examples(30)):
        walk(language, seed, 80)


@pytest.mark.parametrize(
    "tags", [{"end": "</a b>"}, {"end": " </>"}, {"end": "</> "}, {"begin": "<{name}> ", "end": " .\n"}]
)
def test_spaces_of_tags_are_not_those_of_texts(tags: dict[str, str]) -> None:
    language = sequence("Go", arguments({"x": words(4)}, **tags), ".")
    assert counts(language)
    for seed in range(examples(30)):
        walk(language, seed, 60)
    constraint = language.constraint(VOCABULARY)
    for spaces in (2, 3, 4):
        text = "Go" + tags.get("begin", BEGIN.decode()).replace("{name}", "x") + "a " * spaces + "a" + tags["end"] + "."
        assert constraint.matches(text) == (spaces <= 3)


@pytest.mark.parametrize("ends", ENDS)
def test_masks_with_two_ends(ends: str) -> None:
    language = language_of(schema_of(SCHEMAS["two"]), ends)
    # With different spaces in both, a limit would depend on the end.
    assert counts(language) == (ends != "unlike")
    for seed in range(examples(30)):
        walk(language, seed, 60)


@given(st.sampled_from([*ENDS]), st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.integers(0, 1))
def test_texts_with_two_ends_are_read(ends: str, text: str, which: int) -> None:
    text = BEGIN.decode() + text + ENDS[ends][which]
    members = plain_reading(text, ends)
    legal = members is not None and re.fullmatch(r"\S+( \S+){0,3}", members[0][1]) is not None
    assert language_of(schema_of({"x": words(4)}), ends).constraint(VOCABULARY).matches(text) == legal


@pytest.mark.parametrize("spelling", range(len(SPELLINGS)))
@given(st.lists(st.sampled_from(PIECES), max_size=50).map("".join), st.integers(-1, 1))
def test_texts_are_those_with_few_spaces(spelling: int, text: str, more: int) -> None:
    spaces = max(text.count(" "), 3)
    constraint = arguments({"x": words(1 + spaces + more, spelling)}).constraint(VOCABULARY)
    assert constraint.automaton.counting is not None
    few = all(part and not re.search(r"\s", part) for part in text.split(" ")) and text.count(" ") <= spaces + more
    assert constraint.matches(BEGIN.decode() + text + END.decode()) == (few and MARKER.decode() not in text)


@pytest.mark.parametrize("name", ["words", "beside lines", "long enough"])
def test_texts_end_in_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    language, budgets = arguments(SCHEMAS[name]), (14, 30, 110)
    counted = [language.constraint(VOCABULARY, closing=budget) for budget in budgets]
    for budget, one in zip(budgets, counted, strict=True):
        assert one.automaton.counting is not None
        other = uncounted(language, monkeypatch, budget)
        for seed in range(examples(20)):
            for place, (legal, exact) in enumerate(masks_in_step(one, other, seed, budget)):
                # With some counts, the end may take fewer tokens than with all.
                assert not (legal & ~exact).any()
                if budget - place > 20:
                    assert torch.equal(legal, exact)


def test_all_limits_share_a_fragment() -> None:
    sizes = {arguments({"x": words(most)}).constraint(VOCABULARY).automaton.states for most in (4, 100, 3000)}
    assert len(sizes) == 1


@pytest.mark.parametrize("closing", [False, 50])
def test_few_words_have_states(closing: int | bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_items, "COUNTED_ITEMS_FROM", COUNTED_ITEMS_FROM)
    for most in (COUNTED_ITEMS_FROM - 1, COUNTED_ITEMS_FROM):
        constraint = arguments({"x": words(most)}).constraint(VOCABULARY, closing=closing)
        assert (constraint.automaton.counting is None) == (most < COUNTED_ITEMS_FROM)


@pytest.mark.parametrize("name", TOOL_FORMATS)
def test_all_formats_of_tools_limit_words(name: str) -> None:
    """JSON arguments have states for each word, and the same texts."""
    form = TOOL_FORMATS[name]
    limited, free = (
        Tools([{"type": "function", "function": {"name": "write", "parameters": schema_of({"x": value})}}], form)
        for value in (words(4), {"type": "string"})
    )
    constraint = limited.constraint(vocabulary(form))
    assert (constraint.automaton.counting is not None) == (form.arguments == "xml")
    for spaces in range(6):
        text = free.write([ToolCall("write", {"x": "é " * spaces + "</par"})])
        assert accepts(free, form, text)
        assert accepts(limited, form, text) == (spaces < 4)
