"""Reads the texts in the tests of transformers' `parse_response` with the formats of their response templates."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from json import dumps, loads
from typing import Any

from logitkit import ToolFormat
from logitkit.errors import ConfigurationError
from tests.tools.parser_tests.readings import read
from tests.tools.parser_tests.records import same_json
from tests.tools.parser_tests.watching import NoFormat, Watch

# Texts that may end a turn, beside the literal ends in its template.
ENDS = ("", "\n", "</s>", "\n</s>", "<|im_end|>", "<|END_OF_TURN_TOKEN|>", "<|call|>", "<|content_model_end_sampling|>")


def watched(parse: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    """Return a function that parses a response, and compares the calls with ours.

    Args:
        parse: `parse_response` of transformers, whose result the test judges.
        watch: The readings of the test.
    """

    def parse_and_compare(response: Any, template: Any, *given: Any, **named: Any) -> Any:
        found = parse(response, template, *given, **named)
        if not isinstance(response, str) or "tool_calls" not in template.get("fields", {}):
            return found
        caller = sys._getframe(1).f_globals
        name = next((one for one, value in caller.items() if value is template), "template")
        calls = [call.get("function", call) for call in found.get("tool_calls", [])]
        wanted = [[call.get("name"), call.get("arguments")] for call in calls]
        form = _format(dumps(template))
        if form is None:
            watch.missing.add(name)
            raise NoFormat(name)
        reasoning = form.reasoning_end is not None and form.reasoning_end in response
        named_tools: list[Mapping[str, Any]] = [{"name": one} for one, _ in wanted if one] or [{"name": "none"}]
        tools = named.get("tools") or named_tools
        ways = [
            read(name, (form,), tools, response.removesuffix(end), reasoning) for end in ENDS if response.endswith(end)
        ]
        best = max(ways, key=lambda one: (one.writable, len(one.turn.calls)))
        watch.readings.append(best)
        ours = [[call.name, call.arguments] for call in best.turn.calls]
        if not same_json(ours, wanted):
            raise AssertionError(f"{ours} != {wanted}")
        return found

    return parse_and_compare


@cache
def _format(template: str) -> ToolFormat | None:
    try:
        return ToolFormat.from_response_template(loads(template))
    except ConfigurationError:
        return None
