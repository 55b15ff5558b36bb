"""Qwen3-Coder, and models that write the same XML: a tag for the function, and one for each argument."""

from logitkit.tools.formats.tool_format import ToolFormat

__all__ = ["QWEN_CODER"]

# Source: the chat template of Qwen3-Coder.
QWEN_CODER = ToolFormat(
    name="qwen_coder",
    call_begin="<tool_call>\n<function=",
    name_end=">\n",
    call_end="</function>\n</tool_call>",
    separator="\n",
    trigger="<tool_call>",
    arguments="xml",
    reasoning_begin="<think>\n",
    reasoning_end="</think>",
    detected_by=("<function=", "<parameter="),
    verified=True,
)
