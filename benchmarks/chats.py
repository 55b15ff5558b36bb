"""Chats with the shipped demo model: ways to answer a growing conversation, with and without a cache.

A way gets the whole conversation at each turn and generates the greedy answer. How it uses a cache is up to the way.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from typing import Any

import logitkit as lk
from tests.sessions.engines import watched

# Libraries are imported where they are used: run as a program, a benchmark is read before pytest, which must see plugins first.
POSITIONS = 2048
LIMIT = 24  # tokens of an answer
NAMES = ["Emma Brown", "Noah Miller", "Olivia Davis", "Liam Wilson", "Ava Moore"]
ASKED = [
    "Name: {}\nAs JSON: ",
    "Question: Is {} at home?\nAnswer:",
    "The invoice for {} is dated",
    "Contact: {}\nEmail: ",
]


def message(turn: int) -> str:
    """Return the user's message at a turn."""
    return f"\n{turn + 1}. " + ASKED[turn % len(ASKED)].format(NAMES[turn % len(NAMES)])


class Mark:
    """A hook of any engine, or the function of a processor, that notes the time of the first logits."""

    def __init__(self) -> None:
        self.first: float | None = None

    def __call__(self, one: Any, other: Any) -> Any:
        if self.first is None:
            self.first = time.perf_counter()
        return other

    def processor(self) -> lk.Processor[Any]:
        """Return a processor that notes it too."""
        return lk.Stateless(lambda logits, context: self(context, logits))


class Way:
    """One way to answer.

    Args:
        model: The model whose positions are counted.
        answer: Called with the value of the scope, the number of the chat, its tokens and a mark; returns the answer without EOS.
        scope: A context manager that is open during a run.
    """

    def __init__(
        self,
        model: Any,
        answer: Callable[[Any, int, list[int], Mark], list[int]],
        scope: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self.model, self.answer, self.scope = model, answer, scope

    def talk(
        self, encode: Callable[[str], list[int]], turns: int, chats: int
    ) -> Iterator[tuple[list[int], float, float]]:
        """Yield each answer, and the seconds until its first and its last token; chats take turns."""
        with self.scope() as scope:
            said: list[list[int]] = [[] for _ in range(chats)]
            for turn in range(turns):
                for chat in range(chats):
                    said[chat] += encode(f"Chat {chat}." * (turn == 0) + message(turn))
                    mark = Mark()
                    begin = time.perf_counter()
                    written = self.answer(scope, chat, said[chat], mark)
                    end = time.perf_counter()
                    assert mark.first is not None
                    said[chat] += written
                    yield written, mark.first - begin, end - begin

    def positions(self, encode: Callable[[str], list[int]], turns: int, chats: int) -> tuple[list[list[int]], int]:
        """Return the answers, and how many positions went through the model."""
        with watched(self.model) as fed:
            answers = [written for written, *_ in self.talk(encode, turns, chats)]
        return answers, sum(fed)


class Chats:
    """An engine, and the ways to answer in it.

    Args:
        model: The session's model.
        tokenizer: The session's tokenizer.
        encode: Converts text to tokens, without special tokens.
        ends: Tokens that end a text.
        ways: The engine's own ways, by name.
        session: The way with a session; by default, a session of the model and the tokenizer, with the mark as its processor.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        encode: Callable[[str], list[int]],
        ends: AbstractSet[int],
        ways: dict[str, Way],
        session: Way | None = None,
    ) -> None:
        self.encode = encode

        def opened() -> AbstractContextManager[Any]:
            from logitkit_adapters.sessions import Session

            return Session(model, tokenizer, max_length=POSITIONS)

        def answer(session: Any, chat: int, ids: list[int], mark: Mark) -> list[int]:
            found = session.generate(ids, processor=mark.processor(), max_new_tokens=LIMIT)
            return until(found.token_ids[0], ends)

        self.ways = {**ways, "logitkit Session": session or Way(model, answer, opened)}


def until(tokens: Iterable[int], ends: AbstractSet[int]) -> list[int]:
    """Return the tokens before the first one that ends a text."""
    return list(itertools.takewhile(lambda token: token not in ends, tokens))
