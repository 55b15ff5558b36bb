"""The known formats of tool calls, as data, and which of them a chat template writes."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.tools.formats.tool_format import ToolFormat

__all__ = [
    "DEEPSEEK_V31",
    "HARMONY",
    "HERMES",
    "LLAMA3_JSON",
    "MISTRAL",
    "PLAIN_JSON",
    "QWEN_CODER",
    "TOOL_FORMATS",
    "detect",
    "format_of",
]

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


PLAIN_JSON = ToolFormat(
    name="json",
    call_begin='{"name": "',
    name_end='", "arguments": ',
    call_end="}",
    separator="\n",
    reasoning_begin="<think>\n",
    reasoning_end="</think>",
)


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


def format_of(given: object, chat_template: Any = None, response_template: Any = None) -> ToolFormat:
    """Return a format that is given by name, as itself, or as `"auto"` with a response template, a chat template or a tokenizer.

    Raises:
        ConfigurationError: There is no such format.
    """
    if isinstance(given, ToolFormat):
        return given
    if given == "auto":
        if chat_template is None and response_template is None:
            raise ConfigurationError(
                "format is 'auto', which needs chat_template, the text of tokenizer.chat_template, or the tokenizer; or "
                "response_template, the dict of tokenizer.response_template"
            )
        return _automatic(chat_template, response_template)
    found = TOOL_FORMATS.get(given) if isinstance(given, str) else None
    if found is None:
        raise ConfigurationError(f"format is {given!r}; allowed are 'auto', {_known()}, and ToolFormat(...)")
    return found


def _automatic(chat_template: Any, response_template: Any) -> ToolFormat:
    """Return the format that a response template reads, that is derived from a chat template, or the known one it looks like."""
    # By name: response templates stand on tools, which stand on this file.
    module = import_module("logitkit.tools.response_templates")
    spec = module.response_template_of(chat_template) if response_template is None else response_template
    if spec is not None:
        try:
            return ToolFormat.from_response_template(spec, chat_template=chat_template)
        except ConfigurationError as refused:
            if chat_template is None:
                raise
            try:
                return _from_chat_template(chat_template)
            except ConfigurationError as error:
                raise ConfigurationError(f"{error}. It was not read from the response template: {refused}") from None
    return _from_chat_template(chat_template)


def _from_chat_template(chat_template: Any) -> ToolFormat:
    try:
        return ToolFormat.from_chat_template(chat_template)
    except ConfigurationError as error:
        if not isinstance(chat_template, str):
            chat_template = getattr(chat_template, "chat_template", None)
        if not isinstance(chat_template, str):
            raise
        try:
            return detect(chat_template)
        except ConfigurationError as unknown:
            raise ConfigurationError(f"{unknown}. It was not derived either: {error}") from None


def _known() -> str:
    return ", ".join(map(repr, TOOL_FORMATS))
