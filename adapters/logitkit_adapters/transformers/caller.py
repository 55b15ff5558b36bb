"""Whether `generate` of transformers has just begun, which it does not tell hooks."""

from __future__ import annotations

import sys
from types import FrameType

__all__ = ["begins_generation"]

MODULE = "transformers.generation.utils"


def begins_generation() -> bool:
    """Return whether the hook is called for the first token of greedy search or sampling, and not for drafts.

    Only warnings may depend on it: in other versions of transformers, the variables may have other names.
    """
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - the public way, inspect.stack, reads source files
    first = None
    while frame is not None:
        if frame.f_globals.get("__name__") == MODULE:
            if frame.f_code.co_name == "_assisted_decoding":
                return False
            first = first or frame
        frame = frame.f_back
    return first is not None and first.f_code.co_name == "_sample" and "next_tokens" not in first.f_locals
