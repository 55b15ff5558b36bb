"""The processes that compile the configurations of a server's requests, so that the server does not wait.

The server starts the first one, which reads the vocabulary and compiles what schemas share. It compiles no requests, but forks
for each socket that the server sends. A fork compiles the configurations that come through its socket one by one, writes automata
to the files that the engine's workers read, and answers each with a verdict. It ends when the server closes the socket.

A configuration that takes longer than most would make others wait. Its process says so, and continues only if the server agrees:
with low priority, and another process takes its place.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import socket
import sys
import traceback
from collections.abc import Hashable
from contextlib import suppress
from io import BufferedRWPair
from pathlib import Path
from typing import Any, NamedTuple

from logitkit import JsonSchema
from logitkit.errors import LogitkitError
from logitkit.runtime.automaton_files import AutomatonFiles
from logitkit.runtime.shared import shared_by
from logitkit.vocabulary import Vocabulary
from logitkit_adapters.admission.asked import Asked
from logitkit_adapters.admission.configurations import Configurations
from logitkit_adapters.admission.settings import ServerSettings
from logitkit_adapters.admission.verdicts import Verdict

__all__ = ["Setup", "main"]

# If there are too few processors, the engine goes first, then configurations that compile quickly, then slow ones.
NICENESS = 2
SLOW_NICENESS = 10

# Nearly all schemas share parts: any value, strings of some length, numbers within bounds. They are compiled before the first
# request comes.
COMMON = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "maxLength": 1000},
        "word": {"enum": ["a", "b", None]},
        "count": {"type": "integer", "minimum": 0},
        "share": {"type": "number"},
        "some": {"type": "array", "items": {"type": ["boolean", "string"]}, "maxItems": 5},
    },
    "required": ["text"],
    "additionalProperties": False,
}


# The bytes of the length of a message.
LENGTH = 8


class Setup(NamedTuple):
    """The setup of all processes that compile for a server.

    Args:
        vocabulary: The engine's vocabulary.
        folder: The folder for automata, or None.
        device: The type of the engine's device, or None if unknown.
        quick: The processor time after which a configuration counts as slow, in seconds.
        settings: The limits of the server; after their time, a process ends itself.
    """

    vocabulary: Vocabulary
    folder: Path | None
    device: str | None
    quick: float
    settings: ServerSettings


class NotedFiles(AutomatonFiles):
    """Files that note which of them are used. The server counts and deletes them, because it knows what is used."""

    def __init__(self, folder: Path, vocabulary_key: str) -> None:
        super().__init__(folder, vocabulary_key, limit=sys.maxsize)
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
        setup: The vocabulary, and where automata go.
    """

    def __init__(self, setup: Setup) -> None:
        vocabulary = setup.vocabulary
        self._configurations = Configurations(
            vocabulary, processor_bytes=0, verdict_bytes=0, device=setup.device, settings=lambda: setup.settings
        )
        self._files = None if setup.folder is None else NotedFiles(setup.folder, vocabulary.content_key)
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


def send(stream: BufferedRWPair, *message: Any) -> None:
    """Write a message: its length in 8 bytes, and its pickle."""
    content = pickle.dumps(message)
    stream.write(len(content).to_bytes(LENGTH) + content)
    stream.flush()


def received(stream: BufferedRWPair) -> Any:
    """Read a message.

    Raises:
        EOFError: The other side has closed the connection.
    """
    length = stream.read(LENGTH)
    if len(length) < LENGTH:
        raise EOFError
    return pickle.loads(stream.read(int.from_bytes(length)))  # noqa: S301 - from the server


def serve(setup: Setup, with_server: socket.socket) -> None:
    """Answer configurations until the server closes the connection."""
    judge = Judge(setup)
    stream = with_server.makefile("rwb")

    def ask_to_continue(*_: object) -> None:
        os.nice(SLOW_NICENESS - NICENESS)
        send(stream, "slow", None)
        try:
            received(stream)
        except EOFError:
            os._exit(0)

    signal.signal(signal.SIGPROF, ask_to_continue)
    with suppress(EOFError, ConnectionError):
        send(stream, "ready", None)
        while True:
            what, slow = received(stream)
            # Ends this process, even if it no longer runs any Python code.
            signal.setitimer(signal.ITIMER_REAL, setup.settings.seconds)
            if slow:
                os.nice(SLOW_NICENESS - NICENESS)
            else:
                signal.setitimer(signal.ITIMER_PROF, setup.quick)
            answer = judge.answer(what)
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            send(stream, "error" if isinstance(answer, str) else "verdict", answer)


def warm_up(vocabulary: Vocabulary) -> None:
    """Compile what the schemas of requests share, for this process to keep."""
    with suppress(LogitkitError):
        JsonSchema(COMMON, vocabulary)


def main() -> None:
    """Compile for the server that started this process."""
    # Ctrl-C at the terminal is for the server, which ends this process by closing the connection.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # No process waits for its forks.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.nice(NICENESS)
    try:
        setup: Setup = pickle.load(sys.stdin.buffer)  # noqa: S301 - the server is trusted
    except EOFError:  # it has ended before it served
        return
    warm_up(setup.vocabulary)
    gc.collect()
    # A collection would write to all objects, and so copy the memory that forks share.
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[2])) as server:
        while True:
            _, numbers, _, _ = socket.recv_fds(server, 1, 1)
            if not numbers:
                return
            with socket.socket(fileno=numbers[0]) as with_server:
                if _forked():
                    continue
                server.close()
                try:
                    serve(setup, with_server)
                except BaseException:  # noqa: BLE001 - nothing of this process may run twice
                    traceback.print_exc()
                os._exit(0)


def _forked() -> bool:
    """Fork; return False in the new process. If there are too many processes, the server finds the socket closed."""
    try:
        return os.fork() != 0
    except OSError:
        traceback.print_exc()
        return True
