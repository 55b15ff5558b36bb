"""Requests of OpenAI's API, of which a server reads `response_format`, `tools`, `tool_choice`, `stop` and `logitkit`.

What they ask for becomes one configuration.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from logitkit import Tools
from logitkit.configuration import CHAIN
from logitkit.errors import ConfigurationError, LogitkitError
from logitkit.parameters.documents import with_unique_keys
from logitkit.parameters.scalars import as_integer
from logitkit.tools import ToolFormat
from logitkit_adapters.admission.settings import server_settings
from logitkit_adapters.serving.refusals import RefusedRequest
from logitkit_adapters.serving.response_formats import FIELD, schema_of
from logitkit_adapters.serving.tool_choices import chosen_tools

__all__ = ["FIELDS", "MOST_STOPS", "ServedRequest", "read_request"]

# The fields that an engine's server does not get to see. It does see `tools`, which its chat template shows to the model.
FIELDS = ("logitkit", FIELD, "tool_choice", "parallel_tool_calls", "stop")

# OpenAI allows 4 stops.
MOST_STOPS = 64


@dataclass(frozen=True)
class ServedRequest:
    """What a request asks for beyond its engine.

    Args:
        configs: Its configuration, or none. Of two, the first one also closes the text within `max_tokens`, and counts if it can
            be compiled; a schema may be one that cannot be closed, or may need more tokens.
        tools: The tools of its turn, or None.
        stops: The texts that end the answer, which does not contain them.
        max_tokens: The maximum number of tokens that it generates, or None if unknown.
        names: The fields of the body that the kinds of the configuration were built from.
    """

    configs: tuple[Mapping[str, Any], ...] = ()
    tools: Tools | None = None
    stops: tuple[str, ...] = ()
    max_tokens: int | None = None
    names: Mapping[str, str] = field(default_factory=dict)


def read_request(
    body: Mapping[str, Any],
    tool_format: Callable[[], ToolFormat],
    *,
    max_tokens: int | None = None,
    reasoning: bool = False,
) -> ServedRequest | None:
    r"""Read a request to a server.

    Args:
        body: Its body.
        tool_format: Returns the format in which the model writes calls; called only if the request has tools.
        max_tokens: The maximum number of tokens that the engine generates if the request does not say it.
        reasoning: Whether turns of the model begin with reasoning.

    Returns:
        What it asks for, or None if the engine serves it alone.

    Raises:
        RefusedRequest: A field has a value that is not allowed.

    Example:
        >>> asked = read_request({"stop": "\n", "logitkit": {"regex": "[0-9]+"}}, lambda: None)
        >>> asked.stops, asked.configs
        (('\n',), ({'regex': '[0-9]+'},))
    """
    _check_length(body)
    own, schema, chosen = _configuration(body.get("logitkit")), schema_of(body.get(FIELD)), chosen_tools(body)
    stops = _stops(body.get("stop"))
    if own is None and schema is None and chosen is None and not stops:
        return None
    tools = None
    built: dict[str, Any] = {}
    names: dict[str, str] = {}
    if chosen is not None:
        tools = _tools(chosen, tool_format(), schema, reasoning)
        built["tools"], names["tools"] = _config_of(tools), "tools"
    elif schema is not None:
        built["json_schema"], names["json_schema"] = {"schema": schema}, FIELD
    limit = _max_tokens(body, max_tokens)
    return ServedRequest(_configs(own or {}, built, names, limit), tools, stops, limit, names)


def _check_length(body: Mapping[str, Any]) -> None:
    """Refuse fields that are too long together, before they are read."""
    given = {name: body[name] for name in ("tools", *FIELDS) if body.get(name) is not None}
    length, chosen = len(json.dumps(given)) if given else 0, server_settings()
    if length > chosen.characters:
        raise RefusedRequest(
            f"{', '.join(given)} have {length} characters; allowed are {chosen.characters}. Ask the operator for "
            f"a larger {chosen.prefix}MAX_CHARACTERS, or send less"
        )


def _configuration(given: Any) -> Mapping[str, Any] | None:
    """Return the configuration of the field `logitkit`: an object, or its JSON, as vLLM takes it."""
    if isinstance(given, str):
        try:
            given = json.loads(given, object_pairs_hook=with_unique_keys)
        except ConfigurationError as error:
            raise RefusedRequest(f"logitkit cannot be read: {error}", "logitkit") from None
        except (ValueError, RecursionError) as error:
            raise RefusedRequest(f"logitkit is a text that is not JSON ({error}); give an object", "logitkit") from None
    if given is None or isinstance(given, Mapping):
        return given
    raise RefusedRequest(
        f"logitkit is {given!r:.100}; give an object whose keys are kinds of processors, such as "
        '{"choice": ["yes", "no"]}',
        "logitkit",
    )


def _stops(given: Any) -> tuple[str, ...]:
    listed = [] if given is None else [given] if isinstance(given, str) else given
    if not isinstance(listed, list) or not all(isinstance(stop, str) and stop for stop in listed):
        raise RefusedRequest(
            f"stop is {given!r:.200}; allowed are a text that is not empty, and a list of them", "stop"
        )
    if len(listed) > MOST_STOPS:
        raise RefusedRequest(f"stop has {len(listed)} texts; allowed are up to {MOST_STOPS}", "stop")
    return tuple(listed)


def _max_tokens(body: Mapping[str, Any], otherwise: int | None) -> int | None:
    given = next((body[name] for name in ("max_completion_tokens", "max_tokens") if body.get(name) is not None), None)
    found = as_integer(given) if given is not None and not isinstance(given, bool) else otherwise
    return found if found is not None and found > 0 else None


def _tools(chosen: Mapping[str, Any], form: ToolFormat, schema: Any, reasoning: bool) -> Tools:
    parallel = chosen["parallel"] and form.separator is not None
    try:
        # With a required call there is no answer, whatever the response format is.
        answer = schema if chosen["choice"] in ("auto", "none") else None
        return Tools(
            chosen["tools"],
            form,
            choice=chosen["choice"],
            parallel=parallel,
            reasoning=(reasoning and form.reasoning_end is not None) or None,
            answer=answer,
        )
    except LogitkitError as error:
        raise RefusedRequest(f"tools: {error}", "tools") from None


def _config_of(tools: Tools) -> dict[str, Any]:
    """Return the configuration of the constraint of tools."""
    from logitkit.tools.tools_constraint import ToolsConstraint

    kind = ToolsConstraint.kind
    given = {
        "tools": tools.tools,
        "format": tools.form,
        "choice": tools.choice,
        "parallel": tools.parallel,
        "reasoning": tools.reasoning or False,
        "answer": tools.answer,
    }
    written = {name: kind.parameters[name].write(value) for name, value in given.items() if value is not None}
    return json.loads(json.dumps(written))  # type: ignore[no-any-return] # tuples as lists, as `json.loads` returns them


def _configs(
    own: Mapping[str, Any], built: Mapping[str, Any], names: Mapping[str, str], limit: int | None
) -> tuple[Mapping[str, Any], ...]:
    """Return the configuration of a request, with and without a bound on its length."""
    if not own and not built:
        return ()
    if built and CHAIN in own:
        name = next(iter(names.values()))
        raise RefusedRequest(
            f"logitkit has {CHAIN!r}, and the request has {name}; put all constraints into one of them", name
        )
    twice = next((kind for kind in built if kind in own), None)
    if twice is not None:
        raise RefusedRequest(
            f"logitkit has {twice!r}, and the request has {names[twice]}, which is the same constraint; leave one of them out",
            names[twice],
        )
    plain = {**own, **built}
    if not built or limit is None:
        return (plain,)
    return {**own, **{kind: {**given, "closing": True} for kind, given in built.items()}}, plain
