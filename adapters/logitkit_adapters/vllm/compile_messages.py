"""What a server and the process that compiles for it write to each other, through pipes."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import IO, NamedTuple

from logitkit_adapters.vllm.configurations import Verdict
from logitkit_adapters.vllm.parameters import Asked

__all__ = ["FAILED", "READY", "Answer", "read_answer", "read_question", "write_answer", "write_question"]

# The length of a text in bytes, and how many new tokens a request has: one more than that, or 0 if that is not known.
_QUESTION = struct.Struct("!IQ")
_ANSWER = struct.Struct("!I")

# Answers that are not verdicts: the process has read the vocabulary; it met an error that is not the configuration's.
READY, FAILED = "ready", "failed"


class Answer(NamedTuple):
    """An answer of the process.

    Args:
        verdict: Whether the configuration is allowed, or None.
        notice: `READY`, or `FAILED` with what went wrong, or nothing.
    """

    verdict: Verdict | None
    notice: str = ""


def write_question(pipe: IO[bytes], what: Asked) -> None:
    """Ask for the verdict on a configuration that has a text."""
    assert what.text is not None
    text = what.text.encode("utf-8", "surrogatepass")
    pipe.write(_QUESTION.pack(len(text), 0 if what.tokens is None else what.tokens + 1))
    pipe.write(text)
    pipe.flush()


def read_question(pipe: IO[bytes]) -> Asked | None:
    """Return the next configuration, or None at the end."""
    head = pipe.read(_QUESTION.size)
    if len(head) < _QUESTION.size:
        return None
    length, tokens = _QUESTION.unpack(head)
    text = pipe.read(length).decode("utf-8", "surrogatepass")
    return Asked(text, text, tokens - 1 if tokens else None)


def write_answer(pipe: IO[bytes], answer: Answer) -> None:
    """Write an answer."""
    content = json.dumps([answer.verdict, answer.notice], default=str).encode()
    pipe.write(_ANSWER.pack(len(content)) + content)
    pipe.flush()


def read_answer(pipe: IO[bytes]) -> Answer | None:
    """Return the next answer, or None at the end."""
    head = pipe.read(_ANSWER.size)
    if len(head) < _ANSWER.size:
        return None
    content = pipe.read(*_ANSWER.unpack(head))
    verdict, notice = json.loads(content)
    if verdict is None:
        return Answer(None, notice)
    refusal, is_language, files = verdict
    return Answer(Verdict(refusal, is_language, tuple(map(Path, files))), notice)
