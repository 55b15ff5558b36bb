"""Llama 3.1, 3.2 and 3.3: a turn is one JSON object with a name and parameters, or text."""

from logitkit.tools.formats.tool_format import ToolFormat

__all__ = ["LLAMA3_JSON"]

# Source: the chat templates of Llama 3.1, 3.2 and 3.3, which refuse two calls in one turn.
LLAMA3_JSON = ToolFormat(
    name="llama3_json",
    call_begin='{"name": "',
    name_end='", "parameters": ',
    call_end="}",
    separator=None,
    detected_by=('"parameters": ', "<|start_header_id|>"),
    verified=True,
)
