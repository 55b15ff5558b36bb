"""The flags of compiled patterns, written into the pattern."""

from __future__ import annotations

import re

from logitkit.errors import ConfigurationError

__all__ = ["with_flags"]

# The flags of compiled patterns that patterns here know, by inline letter. Unicode is the default.
FLAGS = {"a": re.ASCII, "i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
INLINE = re.compile(r"\(\?([aimsux]+)\)")


def with_flags(pattern: re.Pattern[str], name: str) -> str:
    """Return a pattern with its flags written inline.

    Args:
        pattern: The compiled pattern.
        name: The argument's name, for the error.

    Raises:
        ConfigurationError: It is a pattern of bytes.

    Example:
        >>> with_flags(re.compile("[a-z]+", re.IGNORECASE), "pattern")
        '(?i)[a-z]+'
    """
    if not isinstance(pattern.pattern, str):
        raise ConfigurationError(
            f"{name} is the pattern {pattern.pattern!r:.60} of bytes; compile a str, and bytes are matched as UTF-8"
        )
    written = INLINE.match(pattern.pattern)
    letters = "".join(
        letter for letter, flag in FLAGS.items() if pattern.flags & flag and not (written and letter in written[1])
    )
    return f"(?{letters}){pattern.pattern}" if letters else pattern.pattern
