"""Clients take turns, however many things one of them has in the queue, and however many keys."""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple

import pytest

from logitkit_adapters.admission.clients import Client
from logitkit_adapters.admission.jobs import Turns


class Job(NamedTuple):
    client: Client
    number: int
    size: float = 1.0


def queue(*clients: str) -> Turns[Job]:
    """Return a queue with a job for each client, of which the first character is the address, and the others are the key."""
    made = Turns[Job]()
    for number, name in enumerate(clients):
        made.put(Job(client(name), number))
    return made


def client(name: str) -> Client:
    return Client(name[0], name[1:].encode())


def order(turns: Turns[Job]) -> list[str]:
    taken = []
    while (job := turns.take()) is not None:
        taken.append(job.client.address + job.client.key.decode())
    assert len(turns) == 0
    return taken


@pytest.mark.parametrize(
    ("clients", "found"),
    [
        ("a a a b", "a b a a"),
        ("a1 a2 a3 a4 b", "a1 b a2 a3 a4"),
        ("a1 a1 a1 a2 b b", "a1 b a2 b a1 a1"),
        ("a a b b c c", "a b c a b c"),
    ],
)
def test_turns(clients: str, found: str) -> None:
    assert order(queue(*clients.split())) == found.split()


def test_nobody_waits_for_more_than_one_thing_of_each_other_address() -> None:
    draw = random.Random(3)
    for _ in range(200):
        turns = Turns[Job]()
        for number in range(draw.randrange(1, 40)):
            turns.put(Job(client(draw.choice("ab") + draw.choice("12")), number))
        turns.put(Job(Client("new"), 99))
        before: Counter[str] = Counter()
        while (job := turns.take()) is not None and job.client.address != "new":
            before[job.client.address] += 1
        assert max(before.values(), default=0) <= 1


def test_things_of_a_client_leave_in_order_also_if_only_some_suit() -> None:
    turns = queue(*"aababba")
    odd = []
    while (job := turns.take(lambda job: job.number % 2 == 1)) is not None:
        odd.append(job.number)
    assert sorted(odd) == [1, 3, 5]
    assert [job.number for job in sorted(turns)] == [0, 6, 2, 4]


def test_removal() -> None:
    turns = queue("a1", "a2", "b")
    for job in [*turns]:
        assert job in [*turns]
        turns.remove(job)
        assert job not in [*turns]
    assert turns.take() is None
    turns.put(Job(client("a1"), 7))
    assert order(turns) == ["a1"]


def test_who_has_most_gives_its_newest() -> None:
    turns = queue("a1", "a1", "a2", "b", "b")
    assert turns.last_of_largest(lambda job: job.size).number == 1
    turns.put(Job(client("c"), 5, size=10.0))
    assert turns.last_of_largest(lambda job: job.size).number == 5
    # Many keys of one address count together.
    turns = queue("a1", "a2", "a3", "a4", "b", "b", "b")
    assert turns.last_of_largest(lambda job: job.size).client.address == "a"
