"""The time to the first token of requests that come at once, with schemas that the server has not seen, or has.

The ways take turns in a different order each round. One of them runs twice, to show the noise. With `--before CHECKOUT`, the
plugin of an older checkout takes part.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.vllm_serving import serving_at, wait_until_up
from tests.adapters_vllm.engine import prompt

# How many requests come at once.
BURSTS = (1, 8, 64)
ROUNDS = 10
# The case of a single request, the first with a schema that a server gets.
FIRST = "the first of all"
# All bursts ask for the first of these, before they are measured with known schemas.
KNOWN = 64


def _person(number: int) -> Any:
    properties = {
        f"name_{number}": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 100 + number % 50},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 5},
        "note": {"type": ["string", "null"]},
    }
    return _object(properties)


def _order(number: int) -> Any:
    item = _object({"sku": {"type": "string"}, "count": {"type": "integer"}, f"price_{number}": {"type": "number"}})
    return _object({"id": {"type": "integer"}, "items": {"type": "array", "items": item}, "paid": {"type": "boolean"}})


def _call(number: int) -> Any:
    place = _object({"city": {"type": "string"}, "country": {"enum": ["DE", "FR", f"X{number}"]}})
    return _object(
        {"name": {"const": f"tool_{number}"}, "arguments": _object({"place": place, "days": {"type": "integer"}})}
    )


def _classes(number: int) -> Any:
    return _object({"label": {"enum": [f"class {number} {place}" for place in range(20)]}, "score": {"type": "number"}})


def _object(properties: dict[str, Any]) -> Any:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


SHAPES = (_person, _order, _call, _classes)


def schema(number: int) -> Any:
    """Return a schema that no other number has."""
    return SHAPES[number % len(SHAPES)](number)


class Way(NamedTuple):
    """A server of `vllm_serving`, and a name for the tables."""

    name: str
    server: str

    def bodies(self, numbers: Iterable[int]) -> list[dict[str, Any]]:
        """Return the bodies of a burst of requests, one for each schema."""
        if self.server in ("guidance", "xgrammar"):
            return [{"structured_outputs": {"json": schema(number)}} for number in numbers]
        return [{"vllm_xargs": {"logitkit": json.dumps({"json_schema": schema(number)})}} for number in numbers]


AGAIN = Way("the plugin again", "plugin")
WAYS = (
    Way("the plugin", "plugin"),
    AGAIN,
    Way("LLGuidance", "guidance"),
    Way("XGrammar", "xgrammar"),
)
BEFORE = Way("the plugin before", "before")

Times = dict[str, dict[str, float]]


def first_tokens(before: Path | None = None, rounds: int = ROUNDS) -> dict[str, Times]:
    """Return the median and the longest times to the first token of each way, for each burst with new and with known schemas.

    Args:
        before: The checkout whose plugin takes part too, or None.
        rounds: How often each way takes its turn.
    """
    ways = WAYS if before is None else (*WAYS, BEFORE)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        names = dict.fromkeys(way.server for way in ways)
        servers = {name: stack.enter_context(serving_at(name, folder, before)) for name in names}
        wait_until_up(servers, folder)
        numbers = itertools.count(KNOWN)
        found: dict[str, Times] = {FIRST: {}}
        for way in ways:
            url = servers[way.server].url
            if way is not AGAIN:
                # The first request without a schema takes long, too.
                asyncio.run(_burst(url, [{}]))
                found[FIRST][way.name] = _summary([asyncio.run(_burst(url, way.bodies([0])))])
            # The ways warm up, and ask for the schemas that are known later.
            asyncio.run(_burst(url, way.bodies(range(KNOWN))))
            asyncio.run(_burst(url, way.bodies(itertools.islice(numbers, KNOWN))))
        print(FIRST, f"load {os.getloadavg()[0]:.1f}", json.dumps(found[FIRST]), flush=True)
        for count, new in itertools.product(BURSTS, (True, False)):
            taken: dict[str, list[list[float]]] = {way.name: [] for way in ways}
            for turn in range(rounds):
                for place in range(len(ways)):
                    way = ways[(turn + place) % len(ways)]
                    asked = itertools.islice(numbers, count) if new else range(count)
                    taken[way.name].append(asyncio.run(_burst(servers[way.server].url, way.bodies(asked))))
            case = f"{count} {'new' if new else 'known'}"
            found[case] = {name: _summary(times) for name, times in taken.items()}
            print(case, f"load {os.getloadavg()[0]:.1f}", json.dumps(found[case]), flush=True)
    return found


def _summary(bursts: list[list[float]]) -> dict[str, float]:
    return {
        "median_s": statistics.median(statistics.median(times) for times in bursts),
        "last_s": statistics.median(max(times) for times in bursts),
    }


async def _burst(url: str, bodies: list[dict[str, Any]]) -> list[float]:
    """Return the seconds from each request to its first token."""
    import httpx  # type: ignore[import-not-found]

    async with httpx.AsyncClient(timeout=120, limits=httpx.Limits(max_connections=None)) as client:
        return await asyncio.gather(*(_first(client, url, body) for body in bodies))


async def _first(client: Any, url: str, more: dict[str, Any]) -> float:
    """Return the seconds from a request to its first token."""
    body = {"model": "demo", "temperature": 0.0, "stream": True, "prompt": prompt(0), "max_tokens": 4, **more}
    begin, first = time.perf_counter(), None
    async with client.stream("POST", f"{url}/v1/completions", json=body) as answer:
        assert answer.status_code == 200, await answer.aread()
        async for line in answer.aiter_lines():
            assert '"error"' not in line[:20], line
            if first is None and line.startswith("data: {"):
                first = time.perf_counter() - begin
    assert first is not None
    return first
