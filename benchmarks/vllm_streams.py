"""The effect of admission on other streams: the time between their tokens while requests with new schemas arrive.

Eight clients stream from the server all the time. Meanwhile, requests with new schemas and patterns arrive at a fixed rate, and
generate a few tokens each. The ways take turns in a different order each round; one of them runs twice, to show the noise.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import tempfile
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.vllm_serving import serving_at, wait_until_up
from tests.adapters_vllm.engine import prompt

STREAMS = 8
TOKENS = 180
SECONDS = 15.0
# One per way, so that each way has each place once.
ROUNDS = 4
# Requests per second with a new schema or pattern.
RATE = 2.0

RECORDS = r'(\{"id": %d, "name": "[a-z]{1,20}", "date": "[0-9]{4}-[0-9]{2}-[0-9]{2}"\}\n){1,200}'


def schema(number: int) -> dict[str, Any]:
    """Return a schema of records that no other number has."""
    text, count = {"type": "string", "maxLength": 40}, {"type": "integer", "minimum": 0, "maximum": 10_000 + number}
    fields = {f"field_{number}_{place}": (text, count, {"type": "boolean"})[place % 3] for place in range(30)}
    whole = {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}
    return {"type": "array", "items": whole, "minItems": 1, "maxItems": 20}


def asks(number: int) -> tuple[str, Any]:
    """Return the kind of a request's constraint, and the constraint: schemas and patterns in turn."""
    return ("json", schema(number)) if number % 2 else ("regex", RECORDS % number)


def of_plugin(number: int) -> dict[str, Any]:
    """Return the body of a request to the plugin."""
    kind, what = asks(number)
    return {"vllm_xargs": {"logitkit": json.dumps({{"json": "json_schema"}.get(kind, kind): what})}}


def of_vllm(number: int) -> dict[str, Any]:
    """Return the body of a request to vLLM's own structured output."""
    kind, what = asks(number)
    return {"structured_outputs": {kind: what}}


class Way(NamedTuple):
    """A server, and whether new requests arrive while it streams.

    Args:
        name: Its name in tables.
        server: One of the servers of `vllm_serving`.
        arriving: Whether requests arrive.
    """

    name: str
    server: str
    arriving: bool


WAYS = (
    Way("nothing arrives", "plugin", arriving=False),
    Way("the plugin", "plugin", arriving=True),
    Way("LLGuidance", "guidance", arriving=True),
    Way("LLGuidance again", "guidance", arriving=True),
)


class Turn(NamedTuple):
    """The seconds of a turn: between the tokens of the streams, and from each arrival to its answer."""

    gaps: list[float]
    answers: list[float]


def streams(rounds: int = ROUNDS, seconds: float = SECONDS, rate: float = RATE) -> dict[str, dict[str, float]]:
    """Return the median and the 99th percentile between tokens of each way, and how long arrivals took."""
    taken: dict[str, list[Turn]] = {way.name: [] for way in WAYS}
    numbers = itertools.count(1000)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = {name: stack.enter_context(serving_at(name, folder)) for name in ("plugin", "guidance")}
        wait_until_up(servers, folder)
        for way in WAYS:  # what begins only once
            asyncio.run(_turn(way, servers[way.server].url, numbers, 5.0, rate))
        for turn in range(rounds):
            for place in range(len(WAYS)):
                way = WAYS[(turn + place) % len(WAYS)]
                found = asyncio.run(_turn(way, servers[way.server].url, numbers, seconds, rate))
                taken[way.name].append(found)
                print(way.name, f"load {os.getloadavg()[0]:.1f}", _summary([found]), flush=True)
    return {name: _summary(turns) for name, turns in taken.items()}


def _summary(turns: list[Turn]) -> dict[str, float]:
    gaps = sorted(gap for turn in turns for gap in turn.gaps)
    answers = sorted(took for turn in turns for took in turn.answers)
    found = {"median_s": gaps[len(gaps) // 2], "p99_s": gaps[len(gaps) * 99 // 100], "tokens": len(gaps)}
    if answers:
        found |= {"answer_s": answers[len(answers) // 2], "answers": len(answers)}
    return found


def _body(number: int, tokens: int, more: dict[str, Any]) -> dict[str, Any]:
    fixed = {"model": "demo", "temperature": 0.0, "stream": True}
    return {**fixed, "prompt": prompt(number % 4), "max_tokens": tokens, **more}


async def _turn(way: Way, url: str, numbers: Any, seconds: float, rate: float) -> Turn:
    import httpx  # type: ignore[import-not-found]

    gaps: list[float] = []
    answers: list[float] = []
    end = time.monotonic() + seconds
    async with httpx.AsyncClient(timeout=120, limits=httpx.Limits(max_connections=None)) as client:

        async def stream(number: int) -> None:
            while time.monotonic() < end:
                times = await _streamed(client, url, _body(number, TOKENS, {"ignore_eos": True}), end)
                # A stream begins with its prompt.
                gaps.extend(later - sooner for sooner, later in pairwise(times))

        async def arrival() -> None:
            number = next(numbers)
            more = of_plugin(number) if way.server == "plugin" else of_vllm(number)
            begin = time.monotonic()
            await _streamed(client, url, _body(number, 8, more))
            answers.append(time.monotonic() - begin)

        async def arrivals() -> None:
            tasks = []
            while way.arriving and time.monotonic() < end:
                tasks.append(asyncio.create_task(arrival()))
                await asyncio.sleep(1 / rate)
            await asyncio.gather(*tasks)

        await asyncio.gather(arrivals(), *(stream(number) for number in range(STREAMS)))
    return Turn(gaps, answers)


async def _streamed(client: Any, url: str, body: dict[str, Any], end: float | None = None) -> list[float]:
    """Return when the parts of a stream came, until its end or a time."""
    times = []
    async with client.stream("POST", f"{url}/v1/completions", json=body) as answer:
        assert answer.status_code == 200, await answer.aread()
        async for line in answer.aiter_lines():
            assert '"error"' not in line[:20], line
            if line.startswith("data: {"):
                times.append(time.monotonic())
                if end is not None and times[-1] > end:
                    break
    return times


if __name__ == "__main__":
    for name, row in streams().items():
        print(name, json.dumps(row))
