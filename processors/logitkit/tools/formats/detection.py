"""The known formats, and which of them a chat template writes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from logitkit.errors import ConfigurationError
from logitkit.tools.formats.deepseek import DEEPSEEK_V31
from logitkit.tools.formats.harmony import HARMONY
from logitkit.tools.formats.hermes import HERMES
from logitkit.tools.formats.llama3_json import LLAMA3_JSON
from logitkit.tools.formats.mistral import MISTRAL
from logitkit.tools.formats.plain_json import PLAIN_JSON
from logitkit.tools.formats.qwen_coder import QWEN_CODER
from logitkit.tools.formats.tool_format import ToolFormat

__all__ = ["TOOL_FORMATS", "detect", "format_of"]

# In the order in which they are looked for: what Qwen-Coder writes contains the markers of Hermes.
TOOL_FORMATS: Mapping[str, ToolFormat] = MappingProxyType(
    {known.name: known for known in (QWEN_CODER, DEEPSEEK_V31, HARMONY, MISTRAL, HERMES, LLAMA3_JSON, PLAIN_JSON)}
)


def detect(chat_template: str) -> ToolFormat:
    """Return the format of the calls that a chat template writes.

    Args:
        chat_template: The text of the template, as in `tokenizer.chat_template`.

    Raises:
        ConfigurationError: It is not a str, or of no known format.

    Example:
        >>> detect("{{ '<tool_call>' }} ... {{ '<function=' }} ... {{ '<parameter=' }}").name
        'qwen_coder'
    """
    if not isinstance(chat_template, str):
        raise ConfigurationError(
            f"chat_template is of type {type(chat_template).__name__}; allowed is the text of a template"
        )
    for known in TOOL_FORMATS.values():
        if not known.detected_by or any(text in chat_template for text in known.not_detected_by):
            continue
        if all(text in chat_template for text in known.detected_by):
            return known
    raise ConfigurationError(
        f"the chat template does not write tool calls in a known format; known formats are {_known()}. Pass the name of "
        "the format, or ToolFormat(...)"
    )


def format_of(given: object, chat_template: str | None = None) -> ToolFormat:
    """Return a format that is given by name, as itself, or as `"auto"` with a chat template.

    Raises:
        ConfigurationError: There is no such format.
    """
    if isinstance(given, ToolFormat):
        return given
    if given == "auto":
        if chat_template is None:
            raise ConfigurationError("format is 'auto', which needs chat_template, the text of tokenizer.chat_template")
        return detect(chat_template)
    found = TOOL_FORMATS.get(given) if isinstance(given, str) else None
    if found is None:
        raise ConfigurationError(f"format is {given!r}; allowed are 'auto', {_known()}, and ToolFormat(...)")
    return found


def _known() -> str:
    return ", ".join(map(repr, TOOL_FORMATS))
