"""Configurations that wait are limited, clients take turns at them, and slow ones delay others by a short time only."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from logitkit_adapters.admission.asked import Asked
from logitkit_adapters.admission.bans import EngineBans
from logitkit_adapters.admission.clients import Client
from logitkit_adapters.admission.compile_process import NICENESS, SLOW_NICENESS
from logitkit_adapters.admission.jobs import Jobs, Unavailable
from tests.admission.faulty_compiler import Setting, refusals, regex, run

ANNA, ANNA_TOO, BEN = Client("1.1.1.1"), Client("1.1.1.1", b"another key"), Client("2.2.2.2")


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

    run(tmp_path, test, waiting=1)


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


def test_a_slow_configuration_does_not_keep_others_waiting(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        slow = made.asks(made.burns("a"))
        await made.begun("a")
        assert (await made.verdict("b+")).refusal is None
        made.go("a")
        assert await refusals(slow) == {None}
        # It was not begun again, and had a low priority.
        assert len((tmp_path / "a.begun").read_text().splitlines()) == 1

    run(tmp_path, test)


def test_a_slow_configuration_continues_with_low_priority(tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        own = os.getpriority(os.PRIO_PROCESS, 0)
        slow = made.asks(made.burns("a"))
        await made.begun("a")
        process, priority = map(int, (tmp_path / "a.begun").read_text().split())
        assert priority == own + NICENESS
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
        assert [len((tmp_path / f"{name}.begun").read_text().splitlines()) for name in names] == [1, 2, 2]

    run(tmp_path, test)


@pytest.mark.parametrize(
    ("pattern", "order"), [("e", "becd"), ("d", "bdc")], ids=["of its own", "of another client too, compiled once"]
)
def test_clients_take_turns(pattern: str, order: str, tmp_path: Path) -> None:
    async def test(made: Setting) -> None:
        first = made.asks(made.waits("a"), client=ANNA)
        await made.begun("a")
        many = made.asks("b", "c", "d", client=ANNA)
        await asyncio.sleep(0)
        one = made.asks(pattern, client=BEN)
        await asyncio.sleep(0)
        made.go("a")
        assert await refusals([*first, *many, *one]) == {None}
        assert (await made.verdict("last", BEN)).refusal is None
        assert [text for text, _ in made.found[1:]] == [regex(pattern) for pattern in (*order, "last")]

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

    run(tmp_path, test, waiting=4)


def test_banned_ids_of_waiting_configurations_count_too() -> None:
    async def whole() -> None:
        jobs = Jobs(most=9, most_characters=100, at_once=1)
        bans = [EngineBans(tuple(range(60))), EngineBans(None, ((*range(60),),))]
        places = [
            jobs.place(Asked("{}", "{}", None, one), client) for one, client in zip(bans, (ANNA, BEN), strict=True)
        ]
        errors = [place.verdict.exception() for place in places if place.verdict.done()]
        assert len(errors) == 1
        assert isinstance(errors[0], Unavailable)
        assert "with 124 characters" in str(errors[0])

    asyncio.run(whole())
