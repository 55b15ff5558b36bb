"""DeepSeek V3.1: special tokens around all calls, around each call, and after its name."""

from logitkit.tools.formats.tool_format import ToolFormat

__all__ = ["DEEPSEEK_V31"]

# Source: the chat template of DeepSeek V3.1.
DEEPSEEK_V31 = ToolFormat(
    name="deepseek_v31",
    calls_begin="<｜tool▁calls▁begin｜>",
    call_begin="<｜tool▁call▁begin｜>",
    name_end="<｜tool▁sep｜>",
    call_end="<｜tool▁call▁end｜>",
    calls_end="<｜tool▁calls▁end｜>",
    trigger="<｜tool▁calls▁begin｜>",
    tokens=(
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁sep｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>",
    ),
    reasoning_begin="<think>",
    reasoning_end="</think>",
    detected_by=("<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"),
    verified=True,
)
