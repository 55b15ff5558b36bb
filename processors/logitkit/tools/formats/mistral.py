"""Mistral, from tokenizer version 11 on: special tokens before the name and before the arguments."""

from logitkit.tools.formats.tool_format import ToolFormat

__all__ = ["MISTRAL"]

# Source: mistral-common's tokenizers of versions 11 and 13, and the chat template of Devstral Small.
MISTRAL = ToolFormat(
    name="mistral",
    call_begin="[TOOL_CALLS]",
    name_end="[ARGS]",
    call_end="",
    trigger="[TOOL_CALLS]",
    tokens=("[TOOL_CALLS]", "[ARGS]"),
    reasoning_begin="[THINK]",
    reasoning_end="[/THINK]",
    detected_by=("[TOOL_CALLS]", "[ARGS]"),
    # Templates that write an id between the name and the arguments are another format.
    not_detected_by=("[CALL_ID]",),
    verified=True,
)
