"""The process that compiles the configurations of a server's requests, so that the server does not wait.

It receives a vocabulary and then configurations from the server, compiles them one by one, writes automata to the files that the
engine's workers read, and answers each with a verdict. It ends when the server closes the connection.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Hashable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from logitkit import JsonSchema
from logitkit.errors import LogitkitError
from logitkit.runtime.automaton_files import AutomatonFiles
from logitkit.runtime.shared import shared_by
from logitkit.vocabulary import Vocabulary
from logitkit_adapters.vllm.compiled import FILE_BYTES
from logitkit_adapters.vllm.configurations import Configurations, Verdict
from logitkit_adapters.vllm.parameters import Asked

__all__ = ["main"]

# If there are too few processors, the engine goes first.
NICENESS = 10

# Nearly all schemas share parts: any value, and strings of some length. They are compiled before the first request comes.
COMMON = {"type": "object", "properties": {"text": {"type": "string", "maxLength": 1000}}}


class NotedFiles(AutomatonFiles):
    """Files that note which of them are used."""

    def __init__(self, folder: Path, vocabulary_key: str, limit: int = FILE_BYTES) -> None:
        super().__init__(folder, vocabulary_key, limit)
        self.used: set[Path] = set()

    def path(self, key: Hashable) -> Path | None:
        """Return the path of the file for a key, and note that it is read or written."""
        found = super().path(key)
        if found is not None:
            self.used.add(found)
        return found


class Judge:
    """Compiles configurations, and keeps nothing but the files.

    Args:
        vocabulary: The engine's vocabulary.
        folder: The folder for automata, or None.
        device: The type of the engine's device, or None if unknown.
    """

    def __init__(self, vocabulary: Vocabulary, folder: Path | None, device: str | None = None) -> None:
        self._configurations = Configurations(vocabulary, processor_bytes=0, verdict_bytes=0, device=device)
        self._files = None if folder is None else NotedFiles(folder, vocabulary.content_key)
        shared = shared_by(vocabulary)
        shared.files = self._files
        # An automaton kept in memory would not be written again after its file was removed.
        shared.cached = 0

    def answer(self, what: Asked) -> Verdict | str:
        """Return the verdict on a configuration, or the text of an error that is not the configuration's fault."""
        if self._files is not None:
            self._files.used.clear()
        try:
            verdict = self._configurations.judge(what)
        except Exception as error:  # noqa: BLE001 - one configuration must not end the compiling of others
            traceback.print_exc()
            return f"{type(error).__name__}: {error}"[:500]
        used = () if self._files is None else self._files.used
        return verdict._replace(files=tuple(sorted(path for path in used if path.exists())))


def serve(connection: Connection) -> None:
    """Answer configurations until the server closes the connection."""
    vocabulary, folder, device = connection.recv()
    warm_up(vocabulary)
    judge = Judge(vocabulary, folder, device)
    connection.send("ready")
    with suppress(EOFError, ConnectionError):
        while True:
            text, tokens, bans = connection.recv()
            connection.send(judge.answer(Asked(text, text, tokens, bans)))


def warm_up(vocabulary: Vocabulary) -> None:
    """Compile what the schemas of requests share, for this process to keep."""
    with suppress(LogitkitError):
        JsonSchema(COMMON, vocabulary)


def main() -> None:
    """Compile for the server that started this process."""
    # Ctrl-C at the terminal is for the server, which ends this process by closing the connection.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    serve(Connection(int(sys.argv[2])))
