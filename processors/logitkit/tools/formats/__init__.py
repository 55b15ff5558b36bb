"""The formats of tool calls, as data.

tool_format     what a format says (format_checks, argument_types, call_ids)
readable_text   names and texts that a format allows
known_formats   the known formats, and which of them a chat template writes: Hermes (and Qwen2.5, Qwen3), Qwen3-Coder, Llama 3,
                Mistral, DeepSeek V3.1, gpt-oss, and JSON for models without a format of their own
"""

from logitkit.tools.formats.known_formats import TOOL_FORMATS as TOOL_FORMATS
from logitkit.tools.formats.known_formats import detect as detect
from logitkit.tools.formats.known_formats import format_of as format_of
from logitkit.tools.formats.readable_text import check_names as check_names
from logitkit.tools.formats.readable_text import check_texts as check_texts
from logitkit.tools.formats.tool_format import ToolFormat as ToolFormat

__all__ = ["TOOL_FORMATS", "ToolFormat", "check_names", "check_texts", "detect", "format_of"]
