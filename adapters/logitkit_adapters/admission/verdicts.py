"""Verdicts on configurations, and which of them are known."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from logitkit_adapters.admission.asked import Asked
from logitkit_adapters.hooks.recent import Recent

__all__ = ["VERDICT_BYTES", "Verdict", "Verdicts"]

# The maximum size of the verdicts that a process keeps.
VERDICT_BYTES = 32 * 2**20

# The digest of a text of up to this many characters takes some microseconds.
SHORT = 4096

# The part of it that is for refusals. They are quickly found again, so they must not push out other verdicts.
REFUSED = 1 / 4


class Verdict(NamedTuple):
    """Whether a configuration is allowed.

    Args:
        refusal: The reason why it is not, or None if it is.
        forces_text: Whether it says which text must come, or where the text ends, as a grammar does.
        may_end_early: Whether a text may end before a constraint allows it, because several masks together leave no token.
        files: The files from which its automata were read, or to which they were written.
    """

    refusal: str | None = None
    forces_text: bool = False
    may_end_early: bool = False
    files: tuple[Path, ...] = ()


class Verdicts:
    """The recent verdicts, by the SHA-256 of the text of a configuration, so that long texts do not take the place of others.

    Args:
        limit: The maximum size of all of them in bytes.
    """

    def __init__(self, limit: int = VERDICT_BYTES) -> None:
        self.limit = limit
        self._refused = Recent[bytes, Verdict](int(limit * REFUSED))
        self._allowed = Recent[bytes, Verdict](limit - self._refused.limit)

    @property
    def nbytes(self) -> int:
        """The size of all verdicts, in bytes."""
        return self._refused.nbytes + self._allowed.nbytes

    def get(self, what: Asked) -> Verdict | None:
        """Return the verdict on a configuration, or None if it is not known."""
        key = _key(what)
        return None if key is None else self._allowed.get(key) or self._refused.get(key)

    def put(self, what: Asked, verdict: Verdict) -> None:
        """Store a verdict; not the refusal of a mapping, because the JSON of an allowed mapping may be the same."""
        key = _key(what)
        if key is None or (verdict.refusal is not None and not isinstance(what.given, str)):
            return
        kept = self._allowed if verdict.refusal is None else self._refused
        kept.put(key, verdict, 4 * len(verdict.refusal or "") + 500 * len(verdict.files))


def _key(what: Asked) -> bytes | None:
    if what.text is None:
        return None
    _, *others = what.key
    digest = _digest(what.text) if len(what.text) <= SHORT else _digest_of_long(what.text)
    return hashlib.sha256(digest + repr(others).encode()).digest()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


# A request with many prompts asks for the same text many times.
_digest_of_long = lru_cache(maxsize=4)(_digest)
