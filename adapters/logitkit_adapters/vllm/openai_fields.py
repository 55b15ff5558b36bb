"""The fields of OpenAI's API as a configuration, if the operator has set LOGITKIT_VLLM_RESPONSE_FORMAT=1.

    response_format  {"type": "json_schema", "json_schema": {"schema": S}}   ->  {"json_schema": {"schema": S, "closing": true}}
    tools, tool_choice, parallel_tool_calls     ->  {"tools": {"tools": [...], "format": "hermes", "choice": "auto", ...}}
    logitkit         a configuration, as an object or as JSON                ->  the same, beside the others

The configuration takes the place where requests without the switch have it, `vllm_xargs`, and `response_format` is removed, so
vLLM builds no grammar. All later code sees a request with a configuration.

vLLM's parser of tool calls changes a chat while its prompt is rendered: for some tools it removes `response_format` and adds a
grammar of its own. So the fields of a chat are read before that, and the grammar is removed after it.
"""

from __future__ import annotations

import functools
import json
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit_adapters.admission.asked import KEY, Asked, configuration
from logitkit_adapters.vllm.answers import refusal
from logitkit_adapters.vllm.internals import is_missing
from logitkit_adapters.vllm.settings import RESPONSE_FORMAT, settings

__all__ = ["FORMATS", "install_openai_fields", "take_openai_fields", "unknown_fields"]

# The formats of tool calls that vLLM's parsers read, by the class of the parser.
FORMATS = {
    "DeepSeekV31ToolParser": "deepseek_v31",
    "Hermes2ProToolParser": "hermes",
    "Llama3JsonToolParser": "llama3_json",
    "MistralToolParser": "mistral",
    "Qwen3EngineToolParser": "qwen_coder",
}

# As the operator names these parsers.
PARSERS = "deepseek_v31, hermes, llama3_json, mistral, qwen3_coder, qwen3_json and qwen3_xml"

RENDERER = "OnlineRenderer.preprocess_chat"

# Stands in the unknown fields of a request whose fields have been read. No client can send it.
READ = object()


def install_openai_fields() -> None:
    """Change the method of vLLM's front end that renders chats."""
    if not is_missing(RENDERER):
        renderer = pkgutil.resolve_name("vllm.renderers.online_renderer").OnlineRenderer
        renderer.preprocess_chat = _reading_fields(renderer.preprocess_chat)


def _reading_fields(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def preprocess_chat(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_chat(request):
            return await original(self, request, *args, **kwargs)
        # A grammar in vLLM's own terms stays, and is refused next to a constraint.
        kept = None if _schema(request) is not None else request.response_format, request.structured_outputs
        taken = take_openai_fields(request, self)
        found = await original(self, request, *args, **kwargs)
        if taken:
            request.response_format, request.structured_outputs = kept
        return found

    return preprocess_chat


def take_openai_fields(request: Any, renderer: Any = None) -> bool:
    """Move the fields of an HTTP request into its `vllm_xargs`, if the operator wants that; only the first call does something.

    Args:
        request: The request. It is changed.
        renderer: vLLM's renderer of chats, which knows the parsers of the server; None: it does not render this request.

    Returns:
        Whether it had any of the fields.

    Raises:
        VLLMValidationError: A field is not allowed here, which a server answers with status 400.
    """
    unknown = request.model_extra
    if unknown is None or unknown.get(KEY) is READ or not settings().reads_openai_fields:
        return False
    try:
        found = _configuration(request, renderer)
    except ConfigurationError as error:
        raise refusal(str(error)) from None
    unknown[KEY] = READ
    if found is None:
        return False
    request.vllm_xargs = {**(request.vllm_xargs or {}), KEY: found}
    if renderer is None and _schema(request) is not None:
        request.response_format = None
    return True


def unknown_fields(request: Any) -> Mapping[str, Any]:
    """Return the fields of an HTTP request that nothing reads."""
    return {name: value for name, value in (request.model_extra or {}).items() if value is not READ}


def _configuration(request: Any, renderer: Any) -> str | None:
    """Return the configuration of a request, as JSON, or None if none of the fields asks for one."""
    named, given = (request.model_extra or {}).get(KEY), (getattr(request, "vllm_xargs", None) or {}).get(KEY)
    if named is not None and given is not None:
        raise ConfigurationError(f"the request has {KEY!r} and vllm_xargs.{KEY}; give one of them")
    own = given if named is None else named
    schema, calls = _schema(request), _is_chat(request) and request.tools and request.tool_choice != "none"
    if schema is None and not calls:
        return None if named is None else _in_json(named)
    found = {} if own is None else dict(configuration(Asked(own, None, None)))
    if calls and "tools" in found:
        # These say themselves how calls are written. Those of the body are for the chat template and vLLM's parser.
        if schema is not None:
            raise ConfigurationError(
                f"the request has 'response_format', and 'tools' in {KEY!r}; give the schema as 'answer' of these tools"
            )
        return _in_json(own)
    name = "tools" if calls else "json_schema"
    if name in found:
        raise ConfigurationError(f"{KEY!r} has {name!r}, and 'response_format' means the same here; give one of them")
    if _is_chat(request):
        _check_chat(renderer)
    found[name] = _tools(request, schema, renderer) if calls else {"schema": schema, "closing": True}
    return json.dumps(found)


def _in_json(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given)


def _schema(request: Any) -> Any:
    """Return the schema of a `response_format`, or None for text, for vLLM's tags, and for the names in transcriptions."""
    given: Any = getattr(request, "response_format", None)
    kind = getattr(given, "type", "text")
    if kind == "json_object":
        return {"type": "object"}
    found = given.json_schema.json_schema if kind == "json_schema" else None
    return {"type": "object"} if kind == "json_schema" and found is None else found


def _tools(request: Any, schema: Any, renderer: Any) -> dict[str, Any]:
    choice = request.tool_choice or "auto"
    named = getattr(getattr(choice, "function", None), "name", choice)
    found: dict[str, Any] = {
        "tools": [_tool(tool.function) for tool in request.tools],
        "format": _format(renderer, is_forced=choice != "auto"),
        "choice": named,
        "parallel": request.parallel_tool_calls is not False,
        "closing": True,
    }
    return found if schema is None or choice != "auto" else {**found, "answer": schema}


def _tool(function: Any) -> dict[str, Any]:
    about: Mapping[str, Any] = {} if function.parameters is None else {"parameters": function.parameters}
    return {"type": "function", "function": {"name": function.name, **about}}


def _format(renderer: Any, is_forced: bool) -> str:
    parser = getattr(renderer.parser, "tool_parser_cls", None)
    if parser is None or not renderer.enable_auto_tools:
        raise ConfigurationError(
            f"the request has 'tools', which this server reads itself ({RESPONSE_FORMAT}), but it reads no tool calls; start it "
            f"with --enable-auto-tool-choice and --tool-call-parser: {PARSERS} fit"
        )
    found = next((FORMATS[one.__name__] for one in parser.__mro__ if one.__name__ in FORMATS), None)
    if found is None:
        raise ConfigurationError(
            f"the request has 'tools', but logitkit has no format for this server's --tool-call-parser ({parser.__name__}); "
            f"start it with one of {PARSERS}, or send the tools in a configuration with a format of your own"
        )
    if is_forced and parser.supports_required_and_named:
        raise ConfigurationError(
            "tool_choice forces a call, but this server would not read it: its operator has set "
            'VLLM_ENFORCE_STRICT_TOOL_CALLING=0; leave that out, or send tool_choice "auto"'
        )
    return found


def _check_chat(renderer: Any) -> None:
    """Refuse the fields of a chat whose answer does not begin with the first token, or whose form is unknown."""
    if renderer is None:
        raise ConfigurationError(
            "the request has 'response_format' or 'tools', which logitkit cannot read in chats of this model (gpt-oss) or with "
            f"this release of vLLM; send a configuration in {KEY!r}, or ask the operator to leave out {RESPONSE_FORMAT}"
        )
    if getattr(renderer.parser, "reasoning_parser_cls", None) is not None:
        raise ConfigurationError(
            "the request has 'response_format' or 'tools', but this server has a --reasoning-parser, and their constraint would "
            f"begin with the reasoning; send a configuration that allows reasoning in {KEY!r}, such as "
            '{"tools": {"tools": [...], "reasoning": true}}'
        )


def _is_chat(request: Any) -> bool:
    return hasattr(request, "response_format") and hasattr(request, "parallel_tool_calls")
