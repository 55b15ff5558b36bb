"""A hostile client of a vLLM server, and how long others wait: `python -m tests.soak.attack`, in the environment of vLLM.

The hostile client sends patterns that take long to compile, and long and short configurations that are refused, all the time.
Other requests come from another address: with a configuration that nobody has sent before, with a known one, and with none. A new
one may take a second more than none at the median, and three seconds more at worst; a known one a tenth of a second.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.adapters_vllm import engine
from tests.adapters_vllm.server import served

MEDIAN, WORST, KNOWN = 1.0, 3.0, 0.1
# The address of a client, as a proxy on the server's machine names it.
HOSTILE, ORDINARY = "203.0.113.1", "198.51.100.1"
KNOWN_CHOICE = {"choice": ["yes", "no", "perhaps"]}


def heavy(number: int) -> dict[str, Any]:
    """Return a pattern that takes more than a second to compile, and is allowed."""
    return {"regex": f"{number}(a|b)*a(a|b){{14}}"}


def long(number: int) -> dict[str, Any]:
    """Return a configuration of 900,000 characters that is refused."""
    return {"regex": f"({number}{'a' * 900_000}"}


def short(number: int) -> dict[str, Any]:
    """Return a configuration that is refused, after more or less work."""
    wrong = {"regex": f"(a{number}"}, {"json_schema": {"type": number}}, {"regex": f"{number}(a|b)*a(a|b){{40}}"}
    return wrong[number % len(wrong)]


# How many requests of each kind there are at any time, and the seconds between an answer and the next request.
KINDS = ((heavy, 24, 0.0), (long, 10, 5.0), (short, 16, 0.1))


class Waits(NamedTuple):
    """The seconds from requests to their answers: with new configurations, with a known one, and with none."""

    new: list[float]
    known: list[float]
    plain: list[float]

    def late(self) -> list[str]:
        """Return the waits that are longer than they may be."""
        new, known, plain = map(statistics.median, self)
        waits = {
            "a new configuration, median": (new - plain, MEDIAN),
            "a new configuration, worst": (max(self.new) - max(self.plain), WORST),
            "a known configuration, median": (known - plain, KNOWN),
        }
        return [f"{name}: {found:.2f} s, allowed are {most}" for name, (found, most) in waits.items() if found > most]

    def __str__(self) -> str:
        return ", ".join(
            f"{name}: median {statistics.median(waits) * 1e3:.0f} ms, worst {max(waits) * 1e3:.0f} ms"
            for name, waits in self._asdict().items()
        )


async def _ask(client: Any, config: dict[str, Any] | None, address: str) -> tuple[int, float]:
    """Return the status of the answer and the seconds until it came."""
    body = {"model": "demo", "prompt": engine.prompt(2), "max_tokens": 1, "temperature": 0.0}
    if config is not None:
        body["vllm_xargs"] = {"logitkit": json.dumps(config)}
    begin = time.monotonic()
    answer = await client.post("completions", json=body, headers={"X-Forwarded-For": address})
    if answer.status_code == 503:
        assert int(answer.headers["Retry-After"]) >= 1, answer.headers
    return answer.status_code, time.monotonic() - begin


async def _attack(client: Any, seen: Counter[str]) -> None:
    numbers = itertools.count()

    async def again_and_again(kind: Callable[[int], dict[str, Any]], pause: float) -> None:
        while True:
            status, _ = await _ask(client, kind(next(numbers)), HOSTILE)
            seen[f"{kind.__name__}: {status}"] += 1
            await asyncio.sleep(pause)

    await asyncio.gather(*(again_and_again(kind, pause) for kind, count, pause in KINDS for _ in range(count)))


async def _waits(client: Any, seconds: float, numbers: Any) -> Waits:
    found, end = Waits([], [], []), time.monotonic() + seconds
    while time.monotonic() < end:
        new = {"choice": [f"number {next(numbers)}", "another"]}
        for waits, config in zip(found, (new, KNOWN_CHOICE, None), strict=True):
            status, took = await _ask(client, config, ORDINARY)
            assert status == 200, status
            waits.append(took)
        await asyncio.sleep(0.1)
    return found


async def attacked(url: str, seconds: float) -> list[str]:
    """Attack a server, print how long others wait, and return the waits that are too long."""
    import httpx  # type: ignore[import-not-found]

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=600, limits=limits) as client:
        numbers, seen = itertools.count(), Counter[str]()
        await _waits(client, 2, numbers)
        print("calm:", await _waits(client, seconds / 3, numbers), flush=True)
        attack = asyncio.create_task(_attack(client, seen))
        await asyncio.sleep(1)
        waits = await _waits(client, seconds, numbers)
        attack.cancel()
        print(f"attacked: {waits}; answers to the attacker: {dict(seen)}", flush=True)
        return waits.late()


def main() -> int:
    parser = argparse.ArgumentParser(description="Attack a server of vLLM, and measure how long others wait.")
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_LOGGING_LEVEL": "WARNING"}
    with tempfile.TemporaryDirectory() as folder, served(Path(folder) / "log") as client:
        late = asyncio.run(attacked(str(client.base_url), options.seconds))
    print("\n".join(late))
    return int(bool(late))


if __name__ == "__main__":
    sys.exit(main())
