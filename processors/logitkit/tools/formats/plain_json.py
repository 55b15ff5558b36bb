"""Plain JSON, for models without a format of their own: a turn is one JSON object with a name and arguments, or text."""

from logitkit.tools.formats.tool_format import ToolFormat

__all__ = ["PLAIN_JSON"]

PLAIN_JSON = ToolFormat(
    name="json",
    call_begin='{"name": "',
    name_end='", "arguments": ',
    call_end="}",
    separator="\n",
    reasoning_begin="<think>\n",
    reasoning_end="</think>",
)
