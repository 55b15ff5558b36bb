"""Configurations compile in another process, each once, and all who wait get an answer, whatever becomes of that process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import logitkit as lk
from logitkit import Regex
from logitkit.compiler.tokens import leaf_tokens
from logitkit.limits import DEFAULT_LIMITS
from logitkit.runtime import AutomatonFiles
from logitkit_adapters.vllm.clients import NOBODY, Client
from logitkit_adapters.vllm.compile_process import NICENESS, SLOW_NICENESS, warm_up
from logitkit_adapters.vllm.compiler import CompileFailed, Compiler, Unavailable
from logitkit_adapters.vllm.fork_server import COMMAND, ForkServer
from logitkit_adapters.vllm.parameters import Asked
from logitkit_adapters.vllm.verdicts import Verdict

FAULTY = (
    sys.executable,
    "-c",
    COMMAND[2].replace("logitkit_adapters.vllm.compile_process", "tests.adapters_vllm.faulty_compile_process"),
)
ANNA, ANNA_TOO, BEN = Client("1.1.1.1"), Client("1.1.1.1", b"another key"), Client("2.2.2.2")
VOCABULARY = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), b"ab", None], eos_ids=[257])


def test_what_most_schemas_share_is_compiled_before_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    warm_up(lk.Vocabulary([b"a"], eos_ids=[]))
    warm_up(VOCABULARY)

    def again(*_: Any) -> None:
        raise AssertionError("the tokens of a leaf were looked at again")

    monkeypatch.setattr(leaf_tokens, "_made", again)
    for schema in ({}, {"properties": {"a": {"type": "string", "maxLength": 77}, "b": {"type": "array"}}}):
        lk.JsonSchema(schema, VOCABULARY)


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


def test_an_automaton_is_left_in_a_file(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        verdict = await made.verdict("(ab)*")
        assert (verdict.refusal, verdict.forces_text) == (None, True)
        (file,) = verdict.files
        files = AutomatonFiles(tmp_path / "files", VOCABULARY.content_key)
        assert file == files.path((Regex, "(ab)*", DEFAULT_LIMITS))
        automaton = files.read((Regex, "(ab)*", DEFAULT_LIMITS))
        assert automaton is not None
        assert automaton.equals(lk.Regex("(ab)*", VOCABULARY).automaton)
        # Found where it was, and made again where it has gone.
        assert (await made.verdict("(ab)*")).files == (file,)
        file.unlink()
        assert (await made.verdict("(ab)*")).files == (file,)
        assert file.exists()

    run(tmp_path, test)


def test_a_refusal_says_what_is_wrong(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        assert "unterminated" in str((await made.verdict("(a")).refusal)
        assert "states" in str((await made.verdict("(a|b)*a(a|b){40}")).refusal)
        # A text that is not valid Unicode arrives unchanged.
        assert (await made.compiler.verdict(Asked("\ud800", "\ud800", 3))).refusal is not None
        assert [text for text, _ in made.found][-1] == "\ud800"

    run(tmp_path, test)


def test_what_many_wait_for_is_compiled_once(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        waiting = [asyncio.create_task(made.verdict(made.waits("a"))) for _ in range(20)]
        await made.begun("a")
        waiting += [asyncio.create_task(made.verdict(made.waits("a"))) for _ in range(20)]
        await asyncio.sleep(0)  # they ask before it is compiled
        made.go("a")
        verdicts = await asyncio.gather(*waiting)
        assert len(made.found) == 1
        assert {verdict.refusal for verdict in verdicts} == {None}

    run(tmp_path, test)


def test_a_request_that_is_cancelled_takes_nothing_from_others(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        leaving, staying = (asyncio.create_task(made.verdict(made.waits("a"))) for _ in range(2))
        gone = [asyncio.create_task(made.verdict("b+")) for _ in range(2)]
        queued = [asyncio.create_task(made.verdict("c+")) for _ in range(2)]
        await made.begun("a")
        for task in (leaving, *gone, queued[0]):
            task.cancel()
        made.go("a")
        assert (await staying).refusal is None
        assert (await queued[1]).refusal is None
        for task in (leaving, *gone, queued[0]):
            with pytest.raises(asyncio.CancelledError):
                await task
        # Nobody waited for b any more when its turn came.
        assert [text for text, _ in made.found] == [regex(made.waits("a")), regex("c+")]
        # A repeated request is compiled.
        assert (await made.verdict("b+")).refusal is None

    run(tmp_path, test)


def test_what_has_begun_is_remembered_though_nobody_waits(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        task = asyncio.create_task(made.verdict(made.waits("a")))
        await made.begun("a")
        task.cancel()
        made.go("a")
        assert (await made.verdict("c+")).refusal is None
        assert [text for text, _ in made.found] == [regex(made.waits("a")), regex("c+")]

    run(tmp_path, test)


def test_the_number_of_waiting_configurations_is_limited(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        waiting = [asyncio.create_task(made.verdict(made.waits("a")))]
        await made.begun("a")
        waiting.append(asyncio.create_task(made.verdict("b")))
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match=r"2 configurations with .* wait to be compiled; allowed are 1") as error:
            await made.verdict("c")
        assert f"Try again in {error.value.seconds} second" in str(error.value)
        # Others may wait for the same.
        waiting.append(asyncio.create_task(made.verdict("b")))
        made.go("a")
        assert all(verdict.refusal is None for verdict in await asyncio.gather(*waiting))
        assert (await made.verdict("c")).refusal is None

    run(tmp_path, test, most=1)


def test_the_characters_of_waiting_configurations_are_limited(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        waiting = [asyncio.create_task(made.verdict(made.waits("a")))]
        await made.begun("a")
        # One alone may have more.
        waiting.append(asyncio.create_task(made.verdict("b")))
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="with 10 characters"):
            await made.verdict("c")
        made.go("a")
        assert all(verdict.refusal is None for verdict in await asyncio.gather(*waiting))

    run(tmp_path, test, most_characters=10)


def test_what_takes_too_long_is_refused_and_others_go_on(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        late, other = await asyncio.gather(made.verdict(made.waits("never")), made.verdict("b+"))
        assert "more than 3 seconds" in str(late.refusal)
        assert other.refusal is None
        assert len(made.found) == 2

    run(tmp_path, test, patience=3.0)


def test_a_process_that_ends_is_started_again(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        once, always, other = await asyncio.gather(
            made.verdict(f"dies-once {tmp_path / 'marker'}"), made.verdict("dies"), made.verdict("b+")
        )
        assert once.refusal is None
        assert "ended its process 2 times" in str(always.refusal)
        assert other.refusal is None

    run(tmp_path, test)


def test_a_process_that_is_killed_while_it_waits_is_started_again(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        assert (await made.verdict("a+")).refusal is None
        process = made.compiler._forks._process
        assert process is not None
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert (await made.verdict("b+")).refusal is None

    run(tmp_path, test)


def test_an_error_that_is_not_the_configurations_ends_one_request(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        with pytest.raises(CompileFailed, match="RuntimeError: with-this"):
            await made.verdict("fails with-this")
        assert (await made.verdict("b+")).refusal is None
        assert [text for text, _ in made.found] == [regex("b+")]

    run(tmp_path, test)


def test_a_process_that_does_not_start_is_said(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        with pytest.raises(Unavailable, match="does not start"):
            await made.verdict("a+")
        assert made.found == []

    run(tmp_path, test, forks=ForkServer((sys.executable, "-c", "raise SystemExit(1)")))


def test_those_who_wait_for_a_compiler_that_is_closed_get_an_answer(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        waiting = [asyncio.create_task(made.verdict(pattern)) for pattern in (made.waits("a"), "b", "c")]
        await made.begun("a")
        made.compiler.close()
        for task in waiting:
            with pytest.raises(Unavailable, match="shutting down"):
                await task
        with pytest.raises(Unavailable, match="shutting down"):
            await made.verdict("d")

    run(tmp_path, test)


def test_a_slow_configuration_does_not_keep_others_waiting(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        slow = made.asks(made.burns("a"))
        await made.begun("a")
        assert (await made.verdict("b+")).refusal is None
        made.go("a")
        assert await refusals(slow) == {None}
        # It was not begun again, and had a low priority.
        assert len((tmp_path / "a.begun").read_text().split()) == 1

    run(tmp_path, test)


def test_a_slow_configuration_continues_with_low_priority(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        own = os.getpriority(os.PRIO_PROCESS, 0)
        slow = made.asks(made.burns("a"))
        await made.begun("a")
        process = int((tmp_path / "a.begun").read_text())
        assert os.getpriority(os.PRIO_PROCESS, process) == own + NICENESS
        await made.verdict("b+")  # in another process, as the first one is slow now
        assert os.getpriority(os.PRIO_PROCESS, process) == own + SLOW_NICENESS
        made.go("a")
        assert await refusals(slow) == {None}

    run(tmp_path, test)


def test_slow_configurations_wait_for_one_another(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        names = "abc"
        slow = made.asks(*map(made.burns, names))
        while not all((tmp_path / name).with_suffix(".begun").exists() for name in names):
            await asyncio.sleep(0.01)
        assert (await made.verdict("d+")).refusal is None
        # All were tried, and one of them continues.
        assert made.compiler._slow == 1
        for name in reversed(names):
            made.go(name)
        assert await refusals(slow) == {None}
        assert [len((tmp_path / f"{name}.begun").read_text().split()) for name in names] == [1, 2, 2]

    run(tmp_path, test)


def test_clients_take_turns(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        first = made.asks(made.waits("a"), client=ANNA)
        await made.begun("a")
        many = made.asks("b", "c", "d", client=ANNA)
        await asyncio.sleep(0)
        one = made.asks("e", client=BEN)
        await asyncio.sleep(0)
        made.go("a")
        assert await refusals([*first, *many, *one]) == {None}
        assert [text for text, _ in made.found[1:]] == [regex(pattern) for pattern in "becd"]

    run(tmp_path, test)


def test_a_configuration_of_two_clients_is_compiled_once_when_the_first_turn_comes(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        first = made.asks(made.waits("a"), client=ANNA)
        await made.begun("a")
        many = made.asks("b", "c", "d", client=ANNA)
        await asyncio.sleep(0)
        one = made.asks("d", client=BEN)
        await asyncio.sleep(0)
        made.go("a")
        assert await refusals([*first, *many, *one]) == {None}
        assert (await made.verdict("e", BEN)).refusal is None
        assert [text for text, _ in made.found[1:]] == [regex(pattern) for pattern in "bdce"]

    run(tmp_path, test)


def test_a_client_with_many_configurations_makes_room_for_others(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        first = made.asks(made.waits("a"), client=ANNA)
        await made.begun("a")
        many = made.asks("b", "c", client=ANNA) + made.asks("d", client=ANNA_TOO)
        await asyncio.sleep(0)
        others = made.asks("e", "c", client=BEN)
        await asyncio.sleep(0)
        made.go("a")
        assert await refusals([*first, many[0], many[2], *others]) == {None}
        with pytest.raises(Unavailable, match="allowed are 4"):
            await many[1]

    run(tmp_path, test, most=4)
