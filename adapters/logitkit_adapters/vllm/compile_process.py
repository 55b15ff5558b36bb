"""The process that compiles what the requests of a server ask for, so that the server does not wait meanwhile.

It gets a vocabulary and configurations through its standard input, compiles them one after the other, writes automata to the
files that the engine's workers read, and answers through its standard output. It ends when its input does.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import traceback
from collections.abc import Hashable
from pathlib import Path
from typing import IO

from logitkit.compiler.tokens.token_automaton import TokenAutomaton
from logitkit.runtime.automaton_files import AutomatonFiles
from logitkit.runtime.shared import shared_by
from logitkit.vocabulary import Vocabulary
from logitkit_adapters.vllm.compile_messages import FAILED, READY, Answer, read_question, write_answer
from logitkit_adapters.vllm.configurations import Configurations
from logitkit_adapters.vllm.parameters import Asked

__all__ = ["main"]

# The engine goes first where there are not enough processors.
NICENESS = 10

# Files of the engine that this process keeps.
FILE_BYTES = 256 * 2**20


class NotedFiles(AutomatonFiles):
    """Files that note which of them are used."""

    def __init__(self, folder: Path, vocabulary_key: str, limit: int = FILE_BYTES) -> None:
        super().__init__(folder, vocabulary_key, limit)
        self.used: set[Path] = set()

    def read(self, key: Hashable) -> TokenAutomaton | None:
        """Return the automaton that was written for a key, or None."""
        found = super().read(key)
        if found is not None:
            self._note(key)
        return found

    def write(self, key: Hashable, automaton: TokenAutomaton) -> None:
        """Write an automaton."""
        super().write(key, automaton)
        self._note(key)

    def _note(self, key: Hashable) -> None:
        path = self.path(key)
        if path is not None and path.exists():
            self.used.add(path)


class Judge:
    """Compiles configurations, and keeps nothing but the files.

    Args:
        vocabulary: The engine's.
        folder: Where automata go, or None.
        device: The type of the engine's device, or None if it is not known.
    """

    def __init__(self, vocabulary: Vocabulary, folder: Path | None, device: str | None = None) -> None:
        self._configurations = Configurations(vocabulary, processor_bytes=0, verdict_bytes=0, device=device)
        self._files = None if folder is None else NotedFiles(folder, vocabulary.content_key)
        shared = shared_by(vocabulary)
        shared.files = self._files
        # Else an automaton that is in memory would not be written again when its file has gone.
        shared.cached = 0

    def answer(self, what: Asked) -> Answer:
        """Return the verdict on a configuration."""
        if self._files is not None:
            self._files.used.clear()
        try:
            verdict = self._configurations.judge(what)
        except Exception as error:  # noqa: BLE001 - one configuration must not end the compiling of others
            traceback.print_exc()
            return Answer(None, f"{FAILED}: {type(error).__name__}: {error}"[:500])
        if self._files is None:
            return Answer(verdict)
        return Answer(verdict._replace(files=tuple(sorted(self._files.used))))


def serve(questions: IO[bytes], answers: IO[bytes]) -> None:
    """Answer questions until there are no more."""
    # From the server that started this process, whose child it is.
    vocabulary, folder, device = pickle.load(questions)  # noqa: S301
    judge = Judge(vocabulary, folder, device)
    assert vocabulary.trie.depth
    write_answer(answers, Answer(None, READY))
    while (what := read_question(questions)) is not None:
        write_answer(answers, judge.answer(what))


def main() -> None:
    """Compile for the process that started this one."""
    # An interrupt at the terminal is the server's, which ends this process by closing its input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    answers = os.fdopen(os.dup(1), "wb")
    # What else is printed goes to the server's log.
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers)
