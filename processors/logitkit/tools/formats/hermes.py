"""Hermes, and the models of Qwen that write JSON: `<tool_call>` around an object with a name and arguments."""

from logitkit.tools.formats.tool_format import ToolFormat

__all__ = ["HERMES"]

# Source: the chat templates of Hermes 3, Qwen2.5 and Qwen3.
HERMES = ToolFormat(
    name="hermes",
    call_begin='<tool_call>\n{"name": "',
    name_end='", "arguments": ',
    call_end="}\n</tool_call>",
    separator="\n",
    trigger="<tool_call>",
    reasoning_begin="<think>\n",
    reasoning_end="</think>",
    detected_by=("<tool_call>", '"arguments": '),
    verified=True,
)
