"""`parser_tests` tells texts that are read equally from others, on tests in the form of those of other projects."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from logitkit import ToolCall, Tools
from tests.tools.parser_tests.parser_formats import (
    FORMATS,
    as_json,
    derived_formats,
    formats_of_parser,
    from_json,
    key_of,
)
from tests.tools.parser_tests.readings import read
from tests.tools.parser_tests.records import AnyText, JsonText
from tests.tools.parser_tests.stand_in_modules import constants_of
from tests.tools.turns import FORMATS as KNOWN
from tests.tools.written_templates import JSON

# The module has the name of a program.
program = importlib.import_module("tests.tools.parser_tests.__main__")

VLLM = """
import json
import pytest
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.tool_parsers import ToolParserManager
from vllm.tool_parsers.hermes_tool_parser import Hermes2ProToolParser

CALL = '<tool_call>\\n{"name": "add", "arguments": {"a": [1, true]}}\\n</tool_call>'


@pytest.mark.parametrize("value, text", [([1, True], CALL), ([1, False], CALL.replace("add", "sum"))])
def test_calls(value, text):
    found = ToolParserManager.get_tool_parser("hermes")(None).extract_tool_calls(text, ChatCompletionRequest())
    assert json.loads(found.tool_calls[0].function.arguments) == {"a": value}
    assert found.tools_called and len(found.tool_calls[0].id) > 16


def test_text():
    found = Hermes2ProToolParser(None).extract_tool_calls("Hm. " + CALL, None)
    assert found.tool_calls[0].function.name == "add"
    assert found.content == "Hm."


def test_what_cannot_be_written():
    assert Hermes2ProToolParser(None).extract_tool_calls(CALL[:30], None).tool_calls[0].function.name == "add"


def test_other_markers():
    assert Hermes2ProToolParser(None).extract_tool_calls("<call>add</call>", None).tools_called


def test_the_inside():
    assert Hermes2ProToolParser(None).current_tool_id == -1


def test_stream():
    parser, so_far, names, arguments = Hermes2ProToolParser(None), "", [], ""
    for piece in CALL.replace("add", "streamed"):
        delta = parser.extract_tool_calls_streaming(so_far, so_far + piece, piece, [], [], [], None)
        so_far += piece
        for call in delta.tool_calls if delta else []:
            names += [call.function.name] if call.function.name else []
            arguments += call.function.arguments
    assert names == ["streamed"] and json.loads(arguments) == {"a": [1, True]}


def test_without_a_format():
    ToolParserManager.get_tool_parser("minimax_m3")(None).extract_tool_calls("x", None)
"""
SGLANG = """
import json
import unittest
from sglang.srt.entrypoints.openai.protocol import Function, Tool
from sglang.srt.function_call.qwen25_detector import Qwen25Detector
from sglang.test.ci.ci_register import register_cpu_ci

register_cpu_ci(est_time=1, suite="a")


class TestQwen(unittest.TestCase):
    def setUp(self):
        parameters = {"type": "object", "properties": {"a": {}}}
        self.tools = [Tool(type="function", function=Function(name="add", parameters=parameters))]

    def test_parts(self):
        for value in (1, 2):
            with self.subTest(value=value):
                text = '<tool_call>\\\\n{"name": "add", "arguments": {"a": %d}}\\\\n</tool_call>' % value
                found = Qwen25Detector().detect_and_parse(text, self.tools)
                self.assertEqual(json.loads(found.calls[0].parameters), {"a": 1})
""".replace("\\\\n", "\\n")


def test_the_tests_of_vllm_judge_what_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "tests" / "tool_parsers"
    place.mkdir(parents=True)
    (place / "test_toy.py").write_text(VLLM)
    judged = program.judge("vllm", tmp_path, {})
    results = {name.rpartition("::")[2].partition("[")[0]: one["result"] for name, one in judged.items()}
    assert results == {
        "test_calls": "failed",
        "test_text": "passed",
        "test_what_cannot_be_written": "failed",
        "test_other_markers": "failed",
        "test_the_inside": "inside",
        "test_stream": "passed",
        "test_without_a_format": "no format",
    }
    program.show("vllm", judged)
    said = capsys.readouterr().out
    # Of six texts, the call, the one after other text and the streamed one are read equally.
    assert "| vllm | hermes | 6 | 3 | 1 | 1 | 1 |" in said
    assert "no format for minimaxm3 (1 tests)" in said
    assert "is read as [['sum', {'a': [1, True]}]]" in said


def test_parts_of_a_test_of_sglang_are_judged_by_themselves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "test" / "registered" / "unit" / "function_call"
    place.mkdir(parents=True)
    (place / "test_toy.py").write_text(SGLANG)
    program.show("sglang", program.judge("sglang", tmp_path, {}))
    assert "| sglang | qwen25 | 2 | 1 | 0 | 0 | 1 |" in capsys.readouterr().out


def test_a_text_counts_by_the_worst_that_a_test_says_of_it() -> None:
    def test(result: str, text: str, **more: Any) -> dict[str, Any]:
        reading = {"parser": "p", "text": text, "writable": True, "has marker": True, "in pieces": True, **more}
        return {"result": result, "texts": "read", "readings": [reading]}

    judged = {
        "a": test("passed", "one"),
        "b": test("failed", "one"),
        "c": test("passed", "two", **{"in pieces": False}),
        "d": test("failed", "three", writable=False),
    }
    found = {text: judgement for (_, text), (judgement, _) in program.judgements(judged).items()}
    assert found == {"one": "different", "two": "different", "three": "not written"}


def test_every_parser_has_a_format_or_the_name_of_a_template() -> None:
    assert key_of("deepseekv32_engine_tool_parser") == key_of("DeepSeekV32_detector") == "deepseekv32"
    for key in FORMATS:
        assert key == key_of(key)
        for form in formats_of_parser(key, {}):
            assert form.trigger or form.calls_begin or form.call_begin
    assert [form.name for form in formats_of_parser("hermes", {})] == ["hermes"]
    assert formats_of_parser("gemma4", {}) == ()
    assert from_json(as_json(KNOWN)) == KNOWN


def test_formats_are_derived_from_the_templates_that_are_named(tmp_path: Path) -> None:
    (tmp_path / "tool_chat_template_granite.jinja").write_text(JSON.template())
    (tmp_path / "gemma4.jinja").write_text("{{ messages }}")
    (tmp_path / "another.jinja").write_text(JSON.template())
    found = derived_formats([tmp_path / "missing", tmp_path])
    assert {name: form.call_begin for name, form in found.items()} == {"granite": '<call>{"name": "'}


def test_names_of_calls_are_found_where_a_test_has_no_tools() -> None:
    for name in ("hermes", "qwen_coder", "llama3_json", "mistral"):
        form = KNOWN[name]
        tools = [{"name": "get_weather"}, {"name": "ping"}]
        anything = {"type": "object", "additionalProperties": True}
        written = Tools([{"name": one["name"], "parameters": anything} for one in tools], form).write(
            [ToolCall("get_weather", {"city": "Bonn"})]
        )
        found = read(name, (form,), None, written)
        assert [(call.name, call.arguments) for call in found.turn.calls] == [("get_weather", {"city": "Bonn"})]
        assert found.writable
        assert found.in_pieces


def test_constants_are_read_from_the_source_of_a_module(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text('A: str = "<"\nB = A + "b>"\nC = f"{A}c>"\nD = open("x")\n')
    assert constants_of(file) == {"A": "<", "B": "<b>", "C": "<c>"}


def test_texts_that_are_equal_to_others() -> None:
    assert AnyText("x") == "y"
    assert AnyText("x") == None  # noqa: E711
    assert JsonText('{"a": 1}') == '{"a":1}'
    assert JsonText("1") != "true"
    assert JsonText("") == ""
