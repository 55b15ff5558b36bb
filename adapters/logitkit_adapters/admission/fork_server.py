"""The processes that compile for a server, as the server sees them."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any

from logitkit_adapters.admission import compile_process
from logitkit_adapters.admission.asked import Asked
from logitkit_adapters.admission.compile_process import LENGTH, Setup
from logitkit_adapters.admission.verdicts import Verdict

__all__ = ["COMMAND", "CompileProcess", "Ended", "ForkServer", "NotStarted", "Slow"]

# Its `sys.path` is that of this process, which may differ from the environment's.
COMMAND = (
    sys.executable,
    "-c",
    f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {compile_process.__name__} import main; main()",
)

# The maximum time for a process to start, in seconds.
START_PATIENCE = 180.0


class NotStarted(Exception):
    """A process does not start."""


class Ended(Exception):
    """A process has ended before its answer.

    Args:
        seconds: How long it worked on the configuration.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the process ended after {seconds:.1f} seconds")
        self.seconds = seconds


class Slow(Exception):
    """A process needs more time for its configuration than most. It waits for `CompileProcess.go_on` or `close`."""


class CompileProcess:
    """A process that compiles one configuration at a time.

    Args:
        reader: Receives its messages.
        writer: Sends messages to it.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._begin = 0.0

    async def answer(self, what: Asked, slow: bool) -> Verdict | str:
        """Return the verdict on a configuration, or the text of an error that is not its fault.

        Args:
            what: The configuration.
            slow: Whether it is known to take long. Then the process has low priority from now on.

        Raises:
            Slow: It takes longer than most.
            Ended: The process has ended.
        """
        self._begin = time.monotonic()
        return await self._asked(what._replace(given=what.text or ""), slow)

    async def go_on(self) -> Verdict | str:
        """Let a process continue after `Slow`, with low priority, and return as `answer` does."""
        return await self._asked()

    async def _asked(self, *question: Any) -> Verdict | str:
        content = pickle.dumps(question)
        try:
            self._writer.write(len(content).to_bytes(LENGTH) + content)
            word, answer = await self.received()
        except (OSError, EOFError):
            raise Ended(time.monotonic() - self._begin) from None
        if word == "slow":
            raise Slow
        found: Verdict | str = answer
        return found

    async def received(self) -> Any:
        """Return what the process sends next.

        Raises:
            EOFError: It has ended.
        """
        length = int.from_bytes(await self._reader.readexactly(LENGTH))
        return pickle.loads(await self._reader.readexactly(length))  # noqa: S301 - from a process of this one

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended, as far as this is known."""
        return self._reader.at_eof()

    def close(self) -> None:
        """Let the process end as soon as it is ready."""
        self._writer.close()


class ForkServer:
    """Starts the process that reads the vocabulary, and forks it. Starts it again if it has ended.

    Args:
        command: Its command without its arguments: the paths of modules, and the number of its socket.
    """

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = [*command, json.dumps(sys.path)]
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._starting = asyncio.Lock()
        self._closed = False

    def start(self) -> None:
        """Start the first process, unless it runs or was killed. It waits for its setup, which the first `fork` sends."""
        if self._closed:
            return
        if self._socket is not None and self._process is not None and self._process.poll() is None:
            return
        self._end()
        self._socket, other = socket.socketpair()
        with other:
            # In its own group, because signals from the terminal are for the server. Not in its own session, because the kernel
            # may share out the processors between sessions regardless of priorities (autogroup).
            self._process = subprocess.Popen(  # noqa: S603 - this Python
                [*self._command, str(other.fileno())],
                stdin=subprocess.PIPE,
                stdout=sys.__stderr__,
                pass_fds=[other.fileno()],
                process_group=0,
                # Threads of libraries would not survive a fork.
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )

    async def fork(self, setup: Setup) -> CompileProcess:
        """Return a new process, once it is ready.

        Args:
            setup: The setup of all processes, the same in all calls.

        Raises:
            NotStarted: It does not start; the message says why.
        """
        ours, theirs = socket.socketpair()
        process = CompileProcess(*await asyncio.open_unix_connection(sock=ours))
        try:
            with theirs:
                async with self._starting:
                    connection = await self._set_up(setup)
                    socket.send_fds(connection, [b"f"], [theirs.fileno()])
            await asyncio.wait_for(process.received(), START_PATIENCE)
        except BaseException as error:
            process.close()
            if not isinstance(error, OSError | EOFError):
                raise
            if isinstance(error, TimeoutError):
                self._end()
            raise NotStarted(
                f"the process that compiles configurations does not start ({type(error).__name__}: {error}); see its output in "
                "the server's log"
            ) from None
        return process

    async def _set_up(self, setup: Setup) -> socket.socket:
        self.start()
        stream = None if self._process is None else self._process.stdin
        if stream is not None and not stream.closed:
            # Not in this thread, which must not wait until the process reads. Not by `multiprocessing`, which would share tensors
            # between the processes if `torch.multiprocessing` is in use.
            await asyncio.to_thread(_write, stream, setup)
        if self._socket is None:
            raise EOFError("it was killed")
        return self._socket

    def kill(self) -> None:
        """End all processes now, and start none again. Any thread may call this."""
        self._closed = True
        self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        connection, self._socket = self._socket, None
        # Once a process has been waited for, its number may be that of others.
        if process is not None and process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process is not None and process.stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.close()
        if connection is not None:
            connection.close()


def _write(stream: IO[bytes], setup: Setup) -> None:
    # A ValueError if the stream is closed by now.
    with suppress(BrokenPipeError, ValueError), stream:
        pickle.dump(setup, stream)
