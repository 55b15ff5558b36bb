"""Configurations compile in another process, each once, and all who wait get an answer, whatever becomes of that process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import logitkit as lk
from logitkit import Regex
from logitkit.compiler.tokens.fragments import fragment_tokens
from logitkit.limits import DEFAULT_LIMITS
from logitkit.runtime.automaton_files import AutomatonFiles
from logitkit_adapters.admission.asked import Asked
from logitkit_adapters.admission.compile_process import Setup, warm_up
from logitkit_adapters.admission.compiler import CompileFailed
from logitkit_adapters.admission.fork_server import ForkServer, NotStarted
from logitkit_adapters.admission.jobs import Unavailable
from logitkit_adapters.admission.settings import server_settings
from tests.admission.faulty_compiler import VOCABULARY, Setting, regex, run


def test_what_most_schemas_share_is_compiled_before_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    warm_up(lk.Vocabulary([b"a"], eos_ids=[]))
    warm_up(VOCABULARY)

    def again(*_: Any) -> None:
        raise AssertionError("the tokens of a leaf were looked at again")

    monkeypatch.setattr(fragment_tokens, "_made", again)
    for schema in ({}, {"properties": {"a": {"type": "string", "maxLength": 77}, "b": {"type": "array"}}}):
        lk.JsonSchema(schema, VOCABULARY)


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


def test_what_takes_too_long_is_refused_and_others_go_on(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        late, other = await asyncio.gather(made.verdict(made.waits("never")), made.verdict("b+"))
        assert "more than 3 seconds" in str(late.refusal)
        assert other.refusal is None
        assert len(made.found) == 2

    run(tmp_path, test, seconds=3)


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


def test_processes_that_are_killed_while_they_start_are_not_started_again() -> None:
    # A pipe has no room for so much, and this process reads nothing.
    many = lk.Vocabulary([*VOCABULARY.tokens, *(str(number).encode() for number in range(100_000))], eos_ids=[257])
    forks = ForkServer((sys.executable, "-c", "import time; time.sleep(600)"))

    async def whole() -> None:
        starting = [asyncio.create_task(forks.fork(Setup(many, None, None, 1.0, server_settings()))) for _ in range(2)]
        await asyncio.sleep(0.5)  # the first one writes, and the second waits for it
        forks.kill()
        for task in starting:
            with pytest.raises(NotStarted):
                await asyncio.wait_for(task, 60)
        assert forks._process is None

    asyncio.run(whole())
