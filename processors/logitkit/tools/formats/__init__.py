"""The formats of tool calls, each in a file of its own, as data.

tool_format     what a format says
detection       finding the format of a chat template
hermes          Hermes, Qwen2.5, Qwen3
qwen_coder      Qwen3-Coder
llama3_json     Llama 3
mistral         Mistral, from tokenizer version 11 on
deepseek        DeepSeek V3.1
harmony         gpt-oss
plain_json      models without a format of their own
"""

from logitkit.tools.formats.detection import TOOL_FORMATS as TOOL_FORMATS
from logitkit.tools.formats.detection import detect as detect
from logitkit.tools.formats.detection import format_of as format_of
from logitkit.tools.formats.tool_format import ToolFormat as ToolFormat

__all__ = ["TOOL_FORMATS", "ToolFormat", "detect", "format_of"]
