"""Vocabularies for tests of the registry."""

from __future__ import annotations

import torch

import logitkit as lk

CPU = torch.device("cpu")


LETTERS: list[bytes | None] = [b"a", b"b", b"ab", None]


def vocabulary(tag: int = 0) -> lk.Vocabulary:
    """Return a small vocabulary; each tag is another content, so that no test meets the registry of another."""
    return lk.Vocabulary([*LETTERS, *(f"t{tag}-{i}".encode() for i in range(2))], eos_ids=[3])


def context(rows: int = 1) -> lk.Context:
    return lk.Context.of([[]] * rows, vocabulary_size=6)
