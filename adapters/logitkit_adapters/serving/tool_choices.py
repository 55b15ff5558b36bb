"""`tools`, `tool_choice` and `parallel_tool_calls` of OpenAI's API, as the arguments of `logitkit.Tools`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logitkit_adapters.serving.refusals import RefusedRequest

__all__ = ["chosen_tools"]

FIELD = "tool_choice"
ALLOWED = (
    'allowed are \'auto\', \'required\', \'none\', {"type": "function", "function": {"name": ...}}, and '
    '{"type": "allowed_tools", "allowed_tools": {"mode": "auto" or "required", "tools": [...]}}'
)


def chosen_tools(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the tools of a request, which of them may be called, and whether several calls may be written.

    Args:
        body: The body of the request.

    Returns:
        The arguments `tools`, `choice` and `parallel` of `logitkit.Tools`; None if the request has no tools.

    Raises:
        RefusedRequest: A field has a value that is not allowed, or a tool is not a function.

    Example:
        >>> ping = {"type": "function", "function": {"name": "ping"}}
        >>> chosen_tools({"tools": [ping], "tool_choice": ping})["choice"]
        ['ping']
    """
    tools, choice = body.get("tools"), body.get(FIELD)
    if tools is None or tools == []:
        if choice not in (None, "none", "auto"):
            raise RefusedRequest(
                f"{FIELD} is {choice!r:.200}, and there are no tools; give tools, or leave it out", FIELD
            )
        return None
    if not isinstance(tools, list) or not all(map(_is_function, tools)):
        raise RefusedRequest(
            'tools must be a list of functions: [{"type": "function", "function": {"name": ..., "parameters": {...}}}]. This '
            "server has no other tools",
            "tools",
        )
    parallel = body.get("parallel_tool_calls", True)
    parallel = True if parallel is None else parallel
    if not isinstance(parallel, bool):
        raise RefusedRequest(
            f"parallel_tool_calls is {parallel!r:.100}; allowed are true and false", "parallel_tool_calls"
        )
    allowed, named = _choice("auto" if choice is None else choice)
    if allowed is not None:
        tools = [tool for tool in tools if tool["function"]["name"] in allowed]
        known = {tool["function"]["name"] for tool in tools}
        missing = next((name for name in allowed if name not in known), None)
        if missing is not None:
            raise RefusedRequest(f"{FIELD} has {missing!r:.100}, which is not the name of one of the tools", FIELD)
    return {"tools": tools, "choice": named, "parallel": parallel}


def _is_function(tool: Any) -> bool:
    function = (
        tool.get("function") if isinstance(tool, Mapping) and tool.get("type", "function") == "function" else None
    )
    return isinstance(function, Mapping) and isinstance(function.get("name"), str)


def _choice(given: Any) -> tuple[list[str] | None, str | list[str]]:
    """Return the names of the only tools that exist for the turn, or None for all, and the choice among them."""
    if given in ("auto", "required", "none"):
        return None, given
    if isinstance(given, Mapping) and given.get("type") == "function":
        name = _name(given)
        if name is not None:
            return None, [name]
    if isinstance(given, Mapping) and given.get("type") == "allowed_tools":
        inner = given.get("allowed_tools", given)
        mode, tools = (inner.get("mode"), inner.get("tools")) if isinstance(inner, Mapping) else (None, None)
        names = [_name(tool) for tool in tools] if isinstance(tools, list) else []
        if mode in ("auto", "required") and names and None not in names:
            return [name for name in names if name is not None], mode
    raise RefusedRequest(f"{FIELD} is {given!r:.200}; {ALLOWED}", FIELD)


def _name(tool: Any) -> str | None:
    function = tool.get("function", tool) if isinstance(tool, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    return name if isinstance(name, str) else None
