"""Serving the small model that ships over HTTP, with the plugin, without it, and with vLLM's own structured output.

Throughput and the time between tokens: three servers are up at once, and the ways take turns, in another order each round, in
sending the same number of requests at once, to each of which the same number of tokens is streamed.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.processor_time import processor_time
from logitkit_adapters.demo import model_dir
from tests.adapters_vllm.engine import PLUGIN, prompt
from tests.adapters_vllm.server import PATIENCE, free_port, is_up

REQUESTS = 64
TOKENS = 60
# As many as there are ways, so that each stands in each place once.
ROUNDS = 6
# No text is so short that it ends within the tokens.
PATTERN = r"[A-Za-z0-9 ,.:\n]{400}"

WITHOUT_PLUGIN = Path(__file__).with_name("without_plugin")
SETTINGS = ["--max-model-len", "256", "--max-num-seqs", str(REQUESTS), "--enforce-eager", "--no-enable-prefix-caching"]
SETTINGS += ["--dtype", "float32", "--seed", "0", "--host", "127.0.0.1", "--served-model-name", "demo"]
# By name: what a server is started with, and whether it has the plugin.
SERVERS: dict[str, tuple[list[str], bool]] = {
    "plugin": (["--logits-processors", PLUGIN], True),
    "xgrammar": (["--structured-outputs-config", '{"backend": "xgrammar"}'], False),
    "guidance": (["--structured-outputs-config", '{"backend": "guidance"}'], False),
}


class Way(NamedTuple):
    """A way to serve requests.

    Args:
        name: Its name in tables.
        server: One of `SERVERS`.
        body: Added to the body of each request.
    """

    name: str
    server: str
    body: dict[str, Any]


OWN = {"structured_outputs": {"regex": PATTERN}}
WAYS = (
    Way("no plugin", "xgrammar", {}),
    # The same server and the same requests: the difference between the two is noise.
    Way("no plugin, again", "xgrammar", {}),
    Way("plugin, nothing asked for", "plugin", {}),
    Way("plugin, a regex", "plugin", {"vllm_xargs": {"logitkit": json.dumps({"regex": PATTERN})}}),
    Way("vLLM, the regex, XGrammar", "xgrammar", OWN),
    Way("vLLM, the regex, LLGuidance", "guidance", OWN),
)


class Round(NamedTuple):
    """The seconds of a round: of all requests together, per token of each, and between the parts of each stream.

    A busy server puts several tokens into a part. The server's CPU time is counted too: it hardly depends on other programs.
    """

    total: float
    a_token: list[float]
    gaps: list[float]
    processor: float = 0.0


class Server(NamedTuple):
    """A server, its URL and its process."""

    url: str
    process: subprocess.Popen[bytes]


@contextmanager
def serving_at(name: str, folder: Path, before: Path | None = None) -> Iterator[Server]:
    """Start a server while the block runs. It may not be up yet.

    Args:
        name: One of `SERVERS`, or "before": the plugin of an older checkout.
        folder: Where its log goes.
        before: That checkout.
    """
    settings, plugin = SERVERS["plugin" if name == "before" else name]
    port = free_port()
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model_dir())]
    environment = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1", **os.environ}
    if not plugin:
        environment["PYTHONPATH"] = str(WITHOUT_PLUGIN)
    elif name == "before":
        assert before is not None
        environment["PYTHONPATH"] = os.pathsep.join(str(before / root) for root in ("processors", "adapters"))
    with (folder / name).open("w") as log:
        server = subprocess.Popen(
            [*command, *SETTINGS, *settings, "--port", str(port)], stdout=log, stderr=log, env=environment
        )
        try:
            yield Server(f"http://127.0.0.1:{port}", server)
        finally:
            server.terminate()
            server.wait(60)


def wait_until_up(servers: dict[str, Server], folder: Path) -> None:
    """Wait for servers, whose logs are in the folder."""
    end = time.monotonic() + PATIENCE
    for name, (url, process) in servers.items():
        while not is_up(url):
            assert process.poll() is None, (folder / name).read_text()[-3000:]
            assert time.monotonic() < end, (folder / name).read_text()[-3000:]
            time.sleep(0.5)


def serving() -> dict[str, dict[str, float]]:
    """Return the tokens and requests a second of each way, the time between tokens, and the 99th percentile between parts."""
    taken: dict[str, list[Round]] = {way.name: [] for way in WAYS}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = {name: stack.enter_context(serving_at(name, folder)) for name in SERVERS}
        wait_until_up(servers, folder)
        # The servers really differ: only the plugin checks its configuration.
        refused = [asyncio.run(_status(url, {"vllm_xargs": {"logitkit": "{"}})) for url, _ in servers.values()]
        assert refused == [400, 200, 200], refused
        for turn in range(ROUNDS + 1):
            for place in range(len(WAYS)):
                # The order differs in each round, since it changes numbers by up to a sixth.
                way = WAYS[(turn + place) % len(WAYS)]
                url, process = servers[way.server]
                before = processor_time(process.pid)
                found = asyncio.run(_round(url, way.body))
                found = found._replace(processor=processor_time(process.pid) - before)
                if turn:  # the first one compiles
                    taken[way.name].append(found)
    return {name: _summary(rounds) for name, rounds in taken.items()}


def _summary(rounds: list[Round]) -> dict[str, float]:
    total = statistics.median(found.total for found in rounds)
    gaps = sorted(gap for found in rounds for gap in found.gaps)
    return {
        "tokens_per_s": REQUESTS * TOKENS / total,
        "requests_per_s": REQUESTS / total,
        "between_tokens_s": statistics.median(took for found in rounds for took in found.a_token),
        "between_tokens_p99_s": gaps[len(gaps) * 99 // 100],
        "processor_s": statistics.median(found.processor for found in rounds) / (REQUESTS * TOKENS),
    }


def _body(number: int, more: dict[str, Any]) -> dict[str, Any]:
    fixed = {"model": "demo", "temperature": 0.0, "ignore_eos": True, "stream": True}
    return {**fixed, "prompt": prompt(number), "max_tokens": TOKENS, **more}


async def _status(url: str, more: dict[str, Any]) -> int:
    import httpx  # type: ignore[import-not-found]

    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(f"{url}/v1/completions", json={**_body(0, more), "stream": False})
    return int(answer.status_code)


async def _round(url: str, more: dict[str, Any]) -> Round:
    """Stream all requests at once."""
    import httpx

    limits = httpx.Limits(max_connections=REQUESTS)
    async with httpx.AsyncClient(timeout=120, limits=limits) as client:
        begin = time.perf_counter()
        arrivals = await asyncio.gather(*(_stream(client, url, _body(n, more)) for n in range(REQUESTS)))
        total = time.perf_counter() - begin
    a_token = [(times[-1] - times[0]) / (TOKENS - 1) for times in arrivals]
    return Round(total, a_token, [later - sooner for times in arrivals for sooner, later in pairwise(times)])


async def _stream(client: Any, url: str, body: dict[str, Any]) -> list[float]:
    """Return when the parts of a stream came, the last of which says that it has all of its tokens."""
    times, last = [], ""
    async with client.stream("POST", f"{url}/v1/completions", json=body) as answer:
        assert answer.status_code == 200, await answer.aread()
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                times.append(time.perf_counter())
                last = line
    assert json.loads(last[6:])["choices"][0]["finish_reason"] == "length", last
    assert len(times) > 1
    return times
