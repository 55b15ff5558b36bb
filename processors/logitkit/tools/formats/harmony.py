"""Harmony, the format of gpt-oss: messages in channels; a call is a message to a function."""

from logitkit.tools.formats.tool_format import ToolFormat

__all__ = ["HARMONY"]

# The chat template writes the recipient before the channel; the models themselves write it after the channel too. The prompt ends
# with `<|start|>assistant`, and `<|call|>` and `<|return|>` are EOS ids.
# Source: the chat template of gpt-oss.
HARMONY = ToolFormat(
    name="harmony",
    call_begin=" to=functions.",
    name_end="<|channel|>commentary json<|message|>",
    call_end="",
    also=(("<|channel|>commentary to=functions.", " <|constrain|>json<|message|>"),),
    separator=None,
    text_begin="<|channel|>final<|message|>",
    tokens=("<|channel|>", "<|message|>", "<|constrain|>", "<|start|>", "<|end|>"),
    reasoning_begin="<|channel|>analysis<|message|>",
    reasoning_end="<|end|><|start|>assistant",
    reasoning_opened=True,
    detected_by=("<|channel|>analysis", "<|message|>", "functions."),
    verified=True,
)
