"""A compiler whose processes do as a configuration says: end, wait for a file, take time, or fail."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import logitkit as lk
from logitkit_adapters.vllm.clients import NOBODY, Client
from logitkit_adapters.vllm.compiler import Compiler
from logitkit_adapters.vllm.fork_server import COMMAND, ForkServer
from logitkit_adapters.vllm.parameters import Asked
from logitkit_adapters.vllm.verdicts import Verdict

FAULTY = (
    sys.executable,
    "-c",
    COMMAND[2].replace("logitkit_adapters.vllm.compile_process", "tests.adapters_vllm.faulty_compile_process"),
)
VOCABULARY = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), b"ab", None], eos_ids=[257])


class Setting:
    """A compiler, and the verdicts that it has found."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.found: list[tuple[str, Verdict]] = []
        self.compiler = Compiler(
            VOCABULARY,
            folder / "files",
            lambda what, verdict: self.found.append((what.text or "", verdict)),
            **settings,
        )

    async def verdict(self, pattern: str, client: Client = NOBODY) -> Verdict:
        text = regex(pattern)
        return await self.compiler.verdict(Asked(text, text, None), client)

    def asks(self, *patterns: str, client: Client = NOBODY) -> list[asyncio.Task[Verdict]]:
        return [asyncio.create_task(self.verdict(pattern, client)) for pattern in patterns]

    def waits(self, name: str) -> str:
        """Return a pattern that compiles when `go` says so."""
        return f"waits-for {self.folder / name}"

    def burns(self, name: str) -> str:
        """Return a pattern that takes time of the processor until `go` says that it is enough."""
        return f"burns-until {self.folder / name}"

    def go(self, name: str) -> None:
        (self.folder / name).touch()

    async def begun(self, name: str) -> None:
        while not (self.folder / name).with_suffix(".begun").exists():
            await asyncio.sleep(0.01)


async def refusals(tasks: Sequence[asyncio.Task[Verdict]]) -> set[str | None]:
    return {verdict.refusal for verdict in await asyncio.gather(*tasks)}


def regex(pattern: str) -> str:
    return json.dumps({"regex": pattern})


@asynccontextmanager
async def setting(folder: Path, **settings: Any) -> AsyncIterator[Setting]:
    made = Setting(folder, **{"forks": ForkServer(FAULTY), **settings})
    try:
        yield made
    finally:
        made.compiler.close()
        await asyncio.sleep(0)  # its sockets close


Run = Callable[[Setting], Any]


def run(folder: Path, test: Run, **settings: Any) -> None:
    async def whole() -> None:
        async with setting(folder, **settings) as made:
            await asyncio.wait_for(test(made), 240)

    asyncio.run(whole())
