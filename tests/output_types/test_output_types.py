"""Each output type compiles to the texts of its values, and reads them; everything else is refused with advice."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any
from unittest import mock

import pydantic
import pytest
import torch

import logitkit as lk
from logitkit import languages
from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.output_types import output_type_of
from tests.output_types.types import PATTERNS, SCHEMA, TYPES, Invoice

BYTES = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])


def allows(constraint: Any, text: str) -> bool:
    """Whether a text is complete in the language of a constraint."""
    ids = torch.tensor([list(text.encode())], dtype=torch.int64)
    context = lk.Context.of([[]], vocabulary_size=257)
    state = constraint.advance(constraint.init_state(context), ids)
    return not constraint.is_dead(state).any() and bool(
        constraint.process_logits(state, torch.zeros(1, 257), context)[1][0, 256] == 0
    )


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("closing", [False, True])
def test_a_type_is_written_as_json_and_read_as_a_value(name: str, closing: bool) -> None:
    given, text, value = TYPES[name]
    output = output_type_of(given)
    constraint = output.constraint(BYTES, closing=closing)
    assert output.needs_vocabulary
    assert allows(constraint, text)
    assert not allows(constraint, text[:-1] if len(text) > 2 and text[0] in '{["' else text + "!")
    assert not allows(constraint, "")
    found = output.value(text, list(text.encode()), BYTES)
    assert found == value
    assert type(found) is type(value)
    assert lk.to_config(constraint) == output.config(closing=closing)


class Tree(pydantic.BaseModel):
    properties: dict[str, int] = {"a": 1}
    children: list[Tree | Invoice] = []


class Open(pydantic.BaseModel, extra="allow"):
    n: int


def test_objects_of_types_have_no_other_members() -> None:
    tree = output_type_of(Tree).constraint(BYTES)
    leaf = '{"properties":{"b":2},"children":[]}'
    invoice = TYPES["pydantic model"].text
    for text, other in ((leaf, 'x":1}'), (f'{{"children":[{leaf},{invoice}]}}', 'x":1}'), (invoice, 'x":1}')):
        given = output_type_of(Invoice).constraint(BYTES) if text == invoice else tree
        assert allows(given, text)
        assert not allows(given, text[:-1] + ',"' + other)
        assert not allows(given, text.replace("true}", 'true,"x":1}').replace("[]}", '[],"x":1}'))
    assert allows(output_type_of(Open).constraint(BYTES), '{"n":1,"x":2}')
    # Schemas are taken as they are.
    assert allows(output_type_of(Invoice.model_json_schema()).constraint(BYTES), invoice[:-1] + ',"x":1}')


def test_a_literal_has_quotes() -> None:
    constraint = output_type_of(TYPES["Literal"].given).constraint(BYTES)
    assert [allows(constraint, text) for text in ('"a"', "a")] == [True, False]


@pytest.mark.parametrize("name", PATTERNS)
def test_a_compiled_pattern_keeps_its_flags(name: str) -> None:
    pattern = PATTERNS[name]
    output = output_type_of(pattern)
    constraint = output.constraint(BYTES)
    for text in ("ab", "abd", "ABC", "Ac", "aB", "a b", "A\nb", "axb", "a", "é", "_", "a\nb", "a\n", ""):
        assert allows(constraint, text) == (pattern.fullmatch(text) is not None), text
    assert output.value("ab", [], None) == "ab"
    assert output.config() == lk.to_config(constraint)


def test_flags_in_the_pattern_are_not_written_twice() -> None:
    assert output_type_of(re.compile("(?i)ab")).config() == {"regex": "(?i)ab"}


def test_a_processor_stands_for_itself() -> None:
    processor = lk.Regex("a+", BYTES)
    output = output_type_of(processor)
    assert output.constraint(None) is processor
    assert not output.needs_vocabulary
    assert output.value("aa", [97, 97], None) == "aa"
    assert output.config() == {"regex": "a+"}


@pytest.mark.parametrize(
    ("language", "config"),
    [
        (languages.regex("a+"), {"regex": "a+"}),
        (languages.json_schema(SCHEMA), {"json_schema": SCHEMA}),
        (
            languages.json_schema(SCHEMA, whitespace="spaced"),
            {"json_schema": {"schema": SCHEMA, "whitespace": "spaced"}},
        ),
    ],
)
def test_a_language_compiles_and_its_value_is_its_text(language: Any, config: dict[str, Any]) -> None:
    output = output_type_of(language)
    text = "aa" if "regex" in config else '{"n":5}'
    assert allows(output.constraint(BYTES), text)
    assert output.value(text, [], None) == text
    assert output.config() == config
    assert allows(lk.from_config(output.config(closing=True), BYTES), text)


def test_other_languages_have_no_configuration() -> None:
    for language in (languages.choice(["a"]), languages.regex("a+", exclude="aa")):
        output = output_type_of(language)
        assert allows(output.constraint(BYTES), "a")
        with pytest.raises(ConfigurationError, match="has no JSON form, except regex"):
            output.config()


def weather(city: str) -> str:
    """Tell the weather."""
    return city


@pytest.mark.parametrize(
    "options",
    [{}, {"choice": "required", "parallel": False}, {"answer": Invoice}, {"unique": True}, {"parallel_calls": (1, 2)}],
)
def test_tools_give_a_turn(options: dict[str, Any]) -> None:
    tools = lk.Tools([weather], **options)
    output = output_type_of(tools)
    text = '<tool_call>\n{"name": "weather", "arguments": {"city": "Bonn"}}\n</tool_call>'
    ids = [*text.encode(), 256]
    (call,) = output.value(text, ids, BYTES).calls
    assert (call.name, call.arguments) == ("weather", {"city": "Bonn"})
    assert allows(output.constraint(BYTES), text)
    # The same turn from its configuration, which knows neither the function nor the model.
    built = lk.from_config(output.config(closing=True), BYTES)
    assert built.closing is True  # type: ignore[attr-defined]
    several = [text + f"\n{text}" * more for more in range(4)]
    for turn in (*several, '{"number": 1, "due": "2024-01-01", "paid": true}', "Rain."):
        assert allows(built, turn) == allows(output.constraint(BYTES), turn), turn


def test_an_answer_with_options_has_no_configuration() -> None:
    output = output_type_of(lk.Tools([weather], answer=languages.json_schema(Invoice, whitespace="compact")))
    with pytest.raises(ConfigurationError, match=r"the answer .* has no JSON form"):
        output.config()


class WithoutAdvance:
    def init_state(self, context: lk.Context) -> None: ...

    def process_logits(self, state: Any, logits: Any, context: lk.Context) -> Any: ...


class Nothing:
    pass


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("[0-9]+", r"the text '\[0-9\]\+', .* give re.compile\(text\), json.loads\(text\) or .*literal\(text\)"),
        ([lk.TopK(5), lk.TopP(0.5)], r"a list of 2; logitkit.chain\(first, second\).* logitkit.languages.choice"),
        (("yes", "no"), "a tuple of 2"),
        (None, "of type NoneType; give a processor, .* a Python type, a JSON Schema as a dict"),
        (5, "of type int; give a processor"),
        (len, "of type builtin_function_or_method; give a processor"),
        (re.compile(b"a"), "b'a' of bytes; compile a str"),
        (lk.Regex, r"the class Regex; create an instance, Regex\(...\)"),
        (lk.Tools, r"the class Tools; create an instance, Tools\(...\)"),
        (lk.Vocabulary, r"the class Vocabulary; create an instance"),
        (WithoutAdvance, r"the class WithoutAdvance; create an instance"),
        (WithoutAdvance(), r"a WithoutAdvance without advance; a processor has init_state, advance and process_logits"),
        (Nothing, "Nothing.*has no JSON Schema"),
        (Nothing(), "of type Nothing; give a processor"),
        (pydantic.BaseModel, "BaseModel.*has no JSON Schema"),
        ({"type": "integer", "minimum": "one"}, None),
    ],
    ids=lambda given: str(given).partition(" at 0x")[0],
)
def test_everything_else_is_refused_with_advice(given: object, message: str | None) -> None:
    if message is None:  # schemas are read when they are compiled
        with pytest.raises(ConfigurationError):
            output_type_of(given).constraint(BYTES)
        return
    with pytest.raises(ConfigurationError, match=message):
        output_type_of(given)


def test_the_error_names_the_argument() -> None:
    with pytest.raises(ConfigurationError, match="processor is the text"):
        output_type_of("a", "processor")


@pytest.mark.parametrize("given", [int, re.compile("a"), languages.literal("a"), lk.Tools([weather])])
def test_a_vocabulary_is_needed(given: object) -> None:
    with pytest.raises(VocabularyError, match="vocabulary is None"):
        output_type_of(given).constraint(None)


def test_an_equal_type_is_compiled_once() -> None:
    """Compiled constraints are shared by content, also by another vocabulary object of the same content."""
    vocabulary = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256], pad_id=256)
    again = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256], pad_id=256)
    first = [output_type_of(given).constraint(vocabulary) for given in (Invoice, re.compile("[0-9]{3}a"))]
    with (
        mock.patch.object(lk.JsonSchema, "_compile", side_effect=AssertionError),
        mock.patch.object(lk.Regex, "_compile", side_effect=AssertionError),
    ):
        second = [output_type_of(given).constraint(again) for given in (Invoice, re.compile("[0-9]{3}a"))]
    for one, other in zip(first, second, strict=True):
        assert one.automaton is other.automaton  # type: ignore[attr-defined]


def test_pydantic_is_not_imported_for_processors_patterns_and_schemas() -> None:
    program = (
        "import re, sys, logitkit as lk; from logitkit.output_types import output_type_of as t\n"
        "from logitkit.languages import regex\n"
        "for given in (re.compile('a'), {'type': 'integer'}, regex('a'), lk.TopK(5)): t(given)\n"
        "assert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
