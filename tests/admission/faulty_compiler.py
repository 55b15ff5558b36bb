"""A compiler whose processes do as a configuration says: end, wait for a file, take time, or fail."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import logitkit as lk
from logitkit_adapters.admission.asked import Asked
from logitkit_adapters.admission.clients import NOBODY, Client
from logitkit_adapters.admission.compiler import Compiler
from logitkit_adapters.admission.fork_server import COMMAND, ForkServer
from logitkit_adapters.admission.settings import server_settings
from logitkit_adapters.admission.verdicts import Verdict

FAULTY = (
    sys.executable,
    "-c",
    COMMAND[2].replace("logitkit_adapters.admission.compile_process", "tests.admission.faulty_compile_process"),
)
VOCABULARY = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), b"ab", None], eos_ids=[257])


class Setting:
    """A compiler with one process for quick configurations, and the verdicts that it has found.

    Args:
        folder: The folder for its files.
        settings: Settings that differ from the default ones, and arguments of `Compiler`.
    """

    def __init__(self, folder: Path, **settings: Any) -> None:
        chosen = {name: settings.pop(name) for name in ("waiting", "seconds") if name in settings}
        self.folder = folder
        self.found: list[tuple[str, Verdict]] = []
        self.compiler = Compiler(
            VOCABULARY,
            folder / "files",
            lambda what, verdict: self.found.append((what.text or "", verdict)),
            replace(server_settings(), processes=1, **chosen),
            **settings,
        )

    async def verdict(self, pattern: str, client: Client = NOBODY) -> Verdict:
        return await self.compiler.verdict(asked_for(pattern), client)

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
        file = (self.folder / name).with_suffix(".begun")
        # The file may exist before its line is written.
        while not (file.exists() and file.read_text().endswith("\n")):
            await asyncio.sleep(0.01)


async def refusals(tasks: Sequence[asyncio.Task[Verdict]]) -> set[str | None]:
    return {verdict.refusal for verdict in await asyncio.gather(*tasks)}


def regex(pattern: str) -> str:
    return json.dumps({"regex": pattern})


def asked_for(pattern: str) -> Asked:
    text = regex(pattern)
    return Asked(text, text, None)


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
