"""Renders a chat template in a child process with limits.

The template is code of strangers, so it never runs in this process. The child is Python without the user's environment
(`python -I`), which limits its own CPU time, memory, files and processes before it compiles the template. This side limits the
time on the wall and the size of what it reads, and stops the child when it is done.
"""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from logitkit.errors import ConfigurationError

__all__ = ["RenderLimits", "Rendered", "TemplateRenderer"]

_CHILD = Path(__file__).with_name("render_process.py")


@dataclass(frozen=True)
class RenderLimits:
    """Limits of the process that renders a template.

    Args:
        cpu_seconds: CPU time of all renderings.
        seconds: Time on the wall of all renderings.
        memory: Address space, in bytes.
        characters: The longest rendering.
        output: All that is read from the process, in bytes.
        template: The longest template, in characters.
    """

    cpu_seconds: int = 5
    seconds: float = 20.0
    memory: int = 512 * 2**20
    characters: int = 200_000
    output: int = 64 * 2**20
    template: int = 500_000


@dataclass(frozen=True)
class Rendered:
    """The text that a template rendered, or why there is none."""

    text: str | None
    error: str = ""


class TemplateRenderer:
    """A template in a process of its own; used with `with`.

    Args:
        template: The text of the template.
        limits: Limits of the process.

    Raises:
        ConfigurationError: The template is too long or is not a template, jinja2 is not installed, or no process can be started.
    """

    def __init__(self, template: str, limits: RenderLimits | None = None) -> None:
        self._limits = limits or RenderLimits()
        if len(template) > self._limits.template:
            raise ConfigurationError(
                f"the chat template has {len(template)} characters; allowed are {self._limits.template}"
            )
        self._until = time.monotonic() + self._limits.seconds
        self._read = 0
        self._buffer = bytearray()
        # Whether a limit was reached.
        self.is_stopped = False
        if not sys.executable:
            raise ConfigurationError(
                "a chat template is rendered in a process of its own, but this Python does not know its program "
                "(sys.executable is empty); give a ToolFormat(...)"
            )
        try:
            # The folder is empty, so nothing in it can be imported or read.
            self._folder = tempfile.TemporaryDirectory(prefix="logitkit-template-")
        except OSError as error:
            raise ConfigurationError(
                f"a chat template is rendered in a temporary folder, which cannot be made ({error})"
            ) from None
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this Python, with a file of this package
                [sys.executable, "-I", "-X", "utf8", str(_CHILD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=self._folder.name,
                env={},
            )
        except OSError as error:
            self._folder.cleanup()
            raise ConfigurationError(f"the process that renders a chat template cannot be started ({error})") from None
        # A process that neither reads nor writes would keep this one waiting.
        self._alarm = threading.Timer(self._limits.seconds, self._process.kill)
        self._alarm.daemon = True
        self._alarm.start()
        try:
            self._start(template)
        except BaseException:
            self.close()
            raise

    def _start(self, template: str) -> None:
        said = self._ask(
            {
                "template": template,
                "cpu_seconds": self._limits.cpu_seconds,
                "memory": self._limits.memory,
                "most_characters": self._limits.characters,
            }
        )
        if not isinstance(said, dict) or "missing" in said:
            raise ConfigurationError(
                "a format is derived from a chat template with jinja2, which is not installed; run `pip install jinja2`, or give "
                "a ToolFormat(...)"
            )
        if "error" in said:
            raise ConfigurationError(f"the chat template cannot be read ({said['error']})")

    def render(self, given: Sequence[Mapping[str, Any]]) -> list[Rendered]:
        """Render the template several times.

        Args:
            given: The variables of each rendering, as JSON.

        Raises:
            ConfigurationError: The process takes too much time, memory or output.
        """
        found = self._ask(list(given))
        if not isinstance(found, list) or len(found) != len(given) or not all(isinstance(one, dict) for one in found):
            raise ConfigurationError(
                "the process that renders the chat template answered something else than renderings"
            )
        return [
            Rendered(one["text"]) if isinstance(one.get("text"), str) else Rendered(None, str(one.get("error")))
            for one in found
        ]

    def _ask(self, question: object) -> Any:
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(question).encode() + b"\n")
            stdin.flush()
        except OSError:
            raise self._stopped() from None
        try:
            line = self._line()
        except ConfigurationError:
            self.is_stopped = True
            raise
        try:
            return json.loads(line)
        except (ValueError, RecursionError):
            raise self._stopped() from None

    def _line(self) -> bytes:
        stdout = self._process.stdout
        assert stdout is not None
        if sys.platform == "win32":
            # No pipe can be waited for there; the alarm stops a process that does not answer.
            if not (line := stdout.readline(self._limits.output)):
                raise self._stopped()
            return line
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while True:
                left = self._until - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise self._stopped()
                # A pipe gives what it has.
                piece = stdout.read1(2**16)  # type: ignore[attr-defined]
                if not piece:
                    raise self._stopped()
                self._read += len(piece)
                if self._read > self._limits.output:
                    raise ConfigurationError(
                        f"the chat template renders more than {self._limits.output} bytes; give a ToolFormat(...)"
                    )
                self._buffer += piece
                if b"\n" in piece:
                    break
        line, _, more = self._buffer.partition(b"\n")
        if more:
            # One line answers a question.
            raise self._stopped()
        self._buffer = bytearray()
        return bytes(line)

    def _stopped(self) -> ConfigurationError:
        self.is_stopped = True
        if time.monotonic() >= self._until:
            return ConfigurationError(
                f"rendering the chat template takes more than {self._limits.seconds} seconds; give a ToolFormat(...)"
            )
        return ConfigurationError(
            f"the process that renders the chat template stopped; it may use {self._limits.cpu_seconds} seconds of CPU time and "
            f"{self._limits.memory >> 20} MiB of memory. Give a ToolFormat(...)"
        )

    def close(self) -> None:
        """Stop the process."""
        self._alarm.cancel()
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    # The rest of a question has no reader any more.
                    continue
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
