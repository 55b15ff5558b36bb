"""Which format reads what a parser of another project reads: a known one, one derived from a chat template, or one given here."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from logitkit import ToolFormat
from logitkit.errors import ConfigurationError
from logitkit.tools.formats import TOOL_FORMATS

# The words that names of parsers end with in the modules of these projects.
_SUFFIX = re.compile(r"(_engine)?(_tool_parser|_detector)?$")

_KEYWORDS = ToolFormat(
    name="keyword arguments",
    calls_begin="[",
    call_begin="",
    name_end="(",
    call_end=")",
    separator=", ",
    calls_end="]",
    arguments="python",
    parameter_begin="{name}=",
    parameter_separator=", ",
    literals="python",
    strings="python",
)


_Source = str | ToolFormat


def _one_object(begin: str, end: str, separator: str = "\n") -> ToolFormat:
    """Return a format with one JSON object for each call, between two markers."""
    return ToolFormat(
        name="one object",
        call_begin=begin + '{"name": "',
        name_end='", "arguments": ',
        call_end="}" + end,
        separator=separator,
        trigger=begin.rstrip("\n"),
    )


def _list(begin: str, end: str = "]", trigger: str | None = None, name: str = "arguments") -> ToolFormat:
    """Return a format with one JSON list of calls between two markers."""
    return ToolFormat(
        name="list",
        calls_begin=begin,
        call_begin='{"name": "',
        name_end=f'", "{name}": ',
        call_end="}",
        separator=", ",
        calls_end=end,
        trigger=begin.partition("[")[0] if trigger is None else trigger,
    )


def _keywords(begin: str, end: str, separator: str = ", ", trigger: str | None = None) -> ToolFormat:
    """Return a format with calls as in Python."""
    return replace(_KEYWORDS, calls_begin=begin, calls_end=end, separator=separator, trigger=trigger)


def _invoked(begin: str, end: str, prefix: str = "", between: str = "") -> ToolFormat:
    """Return a format with a tag for each call and each argument."""
    return ToolFormat(
        name="tags",
        calls_begin=begin,
        call_begin=f'<{prefix}invoke name="',
        name_end='">',
        call_end=f"</{prefix}invoke>",
        separator=between,
        calls_end=end,
        trigger=begin,
        arguments="xml",
        parameter_begin=f'<{prefix}parameter name="{{name}}">',
        parameter_end=f"</{prefix}parameter>",
    )


# By the name of a parser without punctuation: a name of a known format, the name of a file with a chat template, or a format; or
# several, where a parser reads more than one.
FORMATS: dict[str, _Source | tuple[_Source, ...]] = {
    "apertus": "apertus",
    "apertus2509": "Apertus-8B-Instruct",
    "coherecommand4": "Cohere2MoE",
    "deepseekv3": ("llama-cpp-deepseek-r1", "deepseekv3"),
    "deepseekv31": "deepseek_v31",
    "deepseekv32": "deepseek-ai-DeepSeek-V3.2",
    "deepseekv4": "deepseek-ai-DeepSeek-V4",
    "deepseekv41": "deepseek-ai-DeepSeek-V4-Flash-0731",
    "dots": _invoked("<dots_function_call>", "</dots_function_call>"),
    "ernie45": _one_object("<tool_call>\n", "\n</tool_call>"),
    "functiongemma": "functiongemma",
    "gemma4": "gemma4",
    "gigachat3": ("GigaChat3.1-10B-A1.8B", "GigaChat3-10B-A1.8B"),
    "glm45": ("GLM-4.6", "GLM-4.7-Flash"),
    "glm47": ("GLM-4.7-Flash", "GLM-4.6"),
    "glm4moe": ("GLM-4.6", "GLM-4.7-Flash"),
    "glm47moe": ("GLM-4.7-Flash", "GLM-4.6"),
    "gptoss": "harmony",
    "granite": ("granite", _list("<|tool_call|> ["), _list("<tool_call> [")),
    "granite20bfc": "granite_20b_fc",
    "granite4": "ibm-granite-granite-4.0",
    "hermes": "hermes",
    "hunyuan": ("tencent-Hy3", "hunyuan_a13b"),
    "hunyuana13b": "hunyuan_a13b",
    "hyv3": "tencent-Hy3",
    "internlm": "internlm2_tool",
    "internlm2": "internlm2_tool",
    "jamba": _list("<tool_calls>[\n    ", "\n]</tool_calls>", "<tool_calls>"),
    "jsontools": "hermes",
    "kimik2": "Kimi-K2-Instruct",
    "kimik3": "Kimi-K3",
    "lfm2": _keywords("<|tool_call_start|>[", "]<|tool_call_end|>", trigger="<|tool_call_start|>"),
    "llama": "llama3_json",
    "llama32": "llama3_json",
    "llama3json": "llama3_json",
    "llama4pythonic": (_KEYWORDS, _keywords("<|python_start|>[", "]<|python_end|>", trigger="<|python_start|>")),
    "longcat": _one_object("<longcat_tool_call>", "</longcat_tool_call>"),
    "mimo": "MiMo-VL",
    "minicpm5": "openbmb-MiniCPM5-1B",
    "minicpm5xml": "openbmb-MiniCPM5-1B",
    "minimaxm2": "MiniMax-M2",
    "minimaxm3": "MiniMax-M3",
    "mistral": "mistral",
    "museglimmer": "muse_glimmer",
    "olmo3": _keywords("<function_calls>", "</function_calls>", "\n", "<function_calls>"),
    "phi4mini": ("phi4_mini", _list("functools[")),
    "phi4minijson": ("phi4_mini", _list("functools[")),
    "poolsidev1": "poolside-Laguna-XS.2",
    "pythonic": _KEYWORDS,
    "qwen25": "hermes",
    "qwen3": "qwen3coder",
    "qwen3coder": "qwen3coder",
    "seedoss": "ByteDance-Seed-OSS",
    "step3": _invoked(
        "<｜tool_calls_begin｜><｜tool_call_begin｜>",
        "<｜tool_call_end｜><｜tool_calls_end｜>",
        "steptml:",
        "<｜tool_call_end｜><｜tool_sep｜><｜tool_call_begin｜>",
    ),
    "step3p5": "StepFun3.5-Flash",
    "trinity": "hermes",
    "xlam": "xlam_llama",
}


def key_of(name: str) -> str:
    """Return the name of a parser without punctuation and without the words that all such names end with."""
    return re.sub(r"[^a-z0-9]", "", _SUFFIX.sub("", name.lower()))


# The end of each marker in a template that the tests leave out, as they take the markers from a tokenizer.
_LEFT_OUT = {"tencent-Hy3": ":opensource"}


def derived_formats(folders: Sequence[Path]) -> dict[str, ToolFormat]:
    """Return the formats that are derived from the chat templates in some folders, by the names that `FORMATS` has for them."""
    named = {one for given in FORMATS.values() for one in (given if isinstance(given, tuple) else (given,))}
    found: dict[str, ToolFormat] = {}
    for name in sorted(one for one in named if isinstance(one, str) and one not in TOOL_FORMATS):
        files = [folder / f"{start}{name}.jinja" for folder in folders for start in ("", "tool_chat_template_")]
        file = next((file for file in files if file.exists()), None)
        if file is not None:
            with suppress(ConfigurationError):
                form = ToolFormat.from_chat_template(file.read_text("utf-8"))
                found[name] = _without(form, _LEFT_OUT[name]) if name in _LEFT_OUT else form
    return found


def formats_of_parser(key: str, derived: Mapping[str, ToolFormat]) -> tuple[ToolFormat, ...]:
    """Return the formats that read what a parser reads; none if there are none, or their templates are not known.

    Args:
        key: The name of the parser.
        derived: The formats that were derived, as from `derived_formats`.
    """
    sources = FORMATS.get(key, ())
    known = {**TOOL_FORMATS, **derived}
    found = [
        known.get(one) if isinstance(one, str) else one
        for one in (sources if isinstance(sources, tuple) else (sources,))
    ]
    return tuple(form for form in found if form is not None)


def as_json(formats: Mapping[str, ToolFormat]) -> str:
    """Return formats as JSON, for another process."""
    return json.dumps({name: vars(form) for name, form in formats.items()})


def from_json(text: str) -> dict[str, ToolFormat]:
    """Return formats from JSON."""

    def tuples(value: Any) -> Any:
        return tuple(map(tuples, value)) if isinstance(value, list) else value

    found: dict[str, dict[str, Any]] = json.loads(text)
    return {name: ToolFormat(**{key: tuples(value) for key, value in form.items()}) for name, form in found.items()}


def _without(form: ToolFormat, part: str) -> ToolFormat:
    """Return a format without a part of its markers."""

    def less(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(map(less, value))
        return value.replace(part, "") if isinstance(value, str) else value

    changed: dict[str, Any] = {name: less(value) for name, value in vars(form).items()}
    return ToolFormat(**changed)
