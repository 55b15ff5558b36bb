"""A server of vLLM under mixed load: `python -m tests.soak.server`, in the environment of vLLM."""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import os
import random
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.adapters_vllm import engine, schemas
from tests.adapters_vllm.server import served
from tests.soak import attack
from tests.soak.load import Job, soak

THREADS = 8
# The duration of the attack before the soak, as a share of it.
ATTACK = 1 / 30
RECORD = r"[A-Z][a-z]{1,9}, [1-9][0-9]?(, [a-z]{1,7}){0,3}"
# The least that --control has shown, in MB for each 1,000 requests.
OWN = {"VLLM::Worker": 16.0}
STOPS = (". ", "\n", " and", "e")


def ask(client: Any, chance: random.Random, config: dict[str, Any] | None, **more: Any) -> Any:
    """Ask for a completion of a random prompt, greedy or drawn."""
    extra = {} if config is None else {"extra_body": {"vllm_xargs": {"logitkit": json.dumps(config)}}}
    settings = {"max_tokens": 60, "temperature": chance.choice((0.0, 1.0)), **more}
    return client.completions.create(model="demo", prompt=engine.prompt(chance.randrange(24)), **settings, **extra)


def written(answer: Any) -> list[str]:
    return [choice.text for choice in answer.choices]


def records(client: Any, chance: random.Random) -> str:
    config = {"regex": RECORD, "repetition_penalty": 1.1, "top_k": chance.choice((5, 50))}
    several: dict[str, Any] = chance.choice(({}, {"n": 4, "temperature": 1.0}))
    for text in written(ask(client, chance, config, **several)):
        assert re.fullmatch(RECORD, text), text
    return "completions with a pattern, a penalty and top-k"


def documents(client: Any, chance: random.Random) -> str:
    config, schema = chance.choice(schemas.CONFIGURATIONS)
    for text in written(ask(client, chance, config, max_tokens=schemas.TOKENS)):
        schemas.check(text, schema)
    return "completions with a JSON Schema"


def chats(client: Any, chance: random.Random) -> str:
    answer = client.chat.completions.create(
        model="demo",
        messages=[{"role": "user", "content": engine.prompt(chance.randrange(24))}],
        max_tokens=20,
        extra_body={"vllm_xargs": {"logitkit": '{"choice": ["yes", "no", "I do not know"]}'}},
    )
    assert answer.choices[0].message.content in {"yes", "no", "I do not know"}, answer
    return "chats with a choice"


def stopped(client: Any, chance: random.Random) -> str:
    for text in written(ask(client, chance, {"stop_strings": list(STOPS)}, max_tokens=20)):
        # A stop may stand in the last token, which is at most a word.
        assert all(text.find(stop) in (-1, *range(max(0, len(text) - 24), len(text))) for stop in STOPS), text
    return "completions with stop strings"


def streams(client: Any, chance: random.Random) -> str:
    parts = list(ask(client, chance, {"regex": "[0-9](,[0-9]){9}"}, stream=True))
    text = "".join(part.choices[0].text for part in parts if part.choices)
    assert re.fullmatch("[0-9](,[0-9]){9}", text), text
    return "streams read to the end"


def streams_left(client: Any, chance: random.Random) -> str:
    stream = ask(client, chance, {"regex": "[a-z ]{90,100}"}, stream=True, max_tokens=120)
    for _, _ in zip(stream, range(chance.randint(1, 6)), strict=False):
        pass
    stream.close()
    return "streams left by the client"


def a_new_pattern(client: Any, chance: random.Random) -> str:
    word = "".join(chance.choices("abcdefgh", k=6))
    pattern = f"({word}|[a-c]{{2,9}}){{1,3}}-{chance.randrange(10**6)}"
    for text in written(ask(client, chance, {"regex": pattern}, max_tokens=90)):
        assert re.fullmatch(pattern, text), (pattern, text)
    return "completions with a pattern of their own"


def a_new_schema(client: Any, chance: random.Random) -> str:
    names = ["".join(chance.choices("abcdefgh", k=6)) for _ in range(3)]
    properties = {name: {"enum": [name, chance.randrange(10**6), None]} for name in names}
    schema = {"type": "object", "properties": properties, "required": names, "additionalProperties": False}
    for text in written(ask(client, chance, {"json_schema": schema}, max_tokens=150)):
        schemas.check(text, schema)
    return "completions with a schema of their own"


def refused(client: Any, chance: random.Random) -> str:
    import openai

    wrong = {"regex": f"(a{chance.random()}"}, {"regx": "a"}, {"json_schema": {"type": chance.random()}}, {"top_k": -1}
    config: dict[str, Any] = chance.choice(wrong)
    try:
        ask(client, chance, config)
    except openai.BadRequestError:
        return "requests refused"
    raise AssertionError(f"{config} was accepted")


def hostile(client: Any, chance: random.Random) -> str:
    """Send a request of a hostile client, which no other job may notice."""
    import openai

    kind, _, _ = chance.choice(attack.KINDS)
    config, address = kind(chance.randrange(10**9)), {"X-Forwarded-For": attack.HOSTILE}
    try:
        ask(client, chance, config, max_tokens=1, extra_headers=address)
    except (openai.BadRequestError, openai.APITimeoutError):
        pass
    except openai.InternalServerError as error:
        if error.status_code != 503:
            raise
    return "hostile requests"


def plain(client: Any, chance: random.Random) -> str:
    assert written(ask(client, chance, None, max_tokens=20))
    return "completions that ask for nothing"


def fill(client: Any, count: int = 1_200) -> None:
    """Ask for more configurations than a worker keeps, so that no cache has room left when the soak begins."""

    def one(number: int) -> None:
        ask(client, random.Random(number), {"regex": f"[a-c]{{1,9}}-{number}"}, max_tokens=1)

    with ThreadPoolExecutor(2 * THREADS) as pool:
        list(pool.map(one, range(count)))


def nothing(client: Any, chance: random.Random) -> str:
    """Send a request of one of the kinds above that asks the plugin for nothing."""
    how: dict[str, Any] = chance.choice(({}, {"n": 4, "temperature": 1.0}, {"stream": True}))
    answer = ask(client, chance, None, max_tokens=chance.choice((20, 20, 40, 60)), **how)
    if how.get("stream"):
        for _, _ in zip(answer, range(chance.randint(1, 20)), strict=False):
            pass
        answer.close()
    return "requests that ask for nothing"


JOBS = (records, documents, chats, stopped, streams, streams_left, a_new_pattern, a_new_schema, refused, hostile, plain)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/soak", description="Send a server of vLLM many kinds of requests.")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--control", action="store_true", help="turn the plugin off, to see how vLLM grows by itself")
    options = parser.parse_args()
    plugin = "off" if options.control else "on"
    os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_LOGGING_LEVEL": "WARNING", "LOGITKIT_VLLM_PLUGIN": plugin}
    late: list[str] = []
    with tempfile.TemporaryDirectory() as folder, served(Path(folder) / "log") as client:
        if not options.control:
            fill(client)
            late = asyncio.run(attack.attacked(str(client.base_url), 60 * options.minutes * ATTACK))
        print(f"{THREADS} clients of a server", flush=True)
        jobs: list[Job] = [functools.partial(job, client) for job in ((nothing,) if options.control else JOBS)]
        failed = soak(jobs, THREADS, options.minutes, options.seed, own={} if options.control else OWN)
    print("\n".join(late))
    return failed or int(bool(late))


if __name__ == "__main__":
    sys.exit(main())
