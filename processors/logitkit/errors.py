"""The one exception tree of logitkit.

LogitkitError
├── VocabularyError (ValueError)         the token bytes are missing, malformed or do not fit
├── PatternSyntaxError (ValueError)      a pattern cannot be parsed; knows the position, shows a caret
├── PatternTooLarge (ValueError)         a pattern's automaton is over a limit; names the limit
├── UnsupportedSchema (ValueError)       a JSON Schema keyword cannot be honoured exactly
├── ConfigurationError (ValueError)      an argument of a processor, or a configuration, is wrong
├── ProcessorError (TypeError)           a processor broke the protocol (order, structure, dtype, shape)
├── StateFileError (ValueError)          a saved state is corrupt, foreign or of another processor
├── StaleAutomaton (RuntimeError)        a state outlived the processor that its automaton belongs to
├── BankFull (RuntimeError)              the automata in use take as much memory as they may
├── BatchMismatch (ValueError)           two batches that must agree have different sizes
├── SampleMismatch (ValueError)          two sample counts that must agree differ
├── SequenceIndexError (IndexError)      what stands in `state[...]` is out of range, or of the wrong form
└── SlicingError (ValueError)            a sequence cannot be sliced there
"""

from __future__ import annotations

__all__ = [
    "BankFull",
    "BatchMismatch",
    "ConfigurationError",
    "LogitkitError",
    "PatternSyntaxError",
    "PatternTooLarge",
    "ProcessorError",
    "SampleMismatch",
    "SequenceIndexError",
    "SlicingError",
    "StaleAutomaton",
    "StateFileError",
    "UnsupportedSchema",
    "VocabularyError",
]


class LogitkitError(Exception):
    """Base class of every error that logitkit raises on purpose."""


class VocabularyError(LogitkitError, ValueError):
    """The token bytes of a vocabulary are missing, malformed or do not fit the logits."""


class ConfigurationError(LogitkitError, ValueError):
    """An argument of a processor, or a configuration, is not allowed."""


class PatternSyntaxError(LogitkitError, ValueError):
    r"""A pattern cannot be parsed.

    Args:
        reason: What is wrong, and what to write instead where there is something.
        pattern: The whole pattern.
        position: Index into `pattern`, in characters, of what is wrong.

    Example:
        >>> print(PatternSyntaxError("unbalanced parenthesis", "ab)c", 2))
        unbalanced parenthesis at position 2
            ab)c
              ^
    """

    def __init__(self, reason: str, pattern: str, position: int) -> None:
        self.reason = reason
        self.pattern = pattern
        self.position = position
        super().__init__(reason, pattern, position)

    def __str__(self) -> str:
        # A pattern may span lines or be very long: show the line at fault, and of that a window around the fault.
        begin = self.pattern.rfind("\n", 0, self.position) + 1
        end = self.pattern.find("\n", self.position)
        end = len(self.pattern) if end < 0 else end
        window = max(begin, self.position - 60)
        shown = self.pattern[window : min(end, self.position + 20)].replace("\t", " ")
        caret = " " * (self.position - window) + "^"
        return f"{self.reason} at position {self.position}\n    {shown}\n    {caret}"


class PatternTooLarge(LogitkitError, ValueError):
    """The automaton of a pattern would exceed a limit; the message names the limit and how to raise it."""


class UnsupportedSchema(LogitkitError, ValueError):
    """A JSON Schema keyword cannot be honoured exactly.

    Args:
        reason: What cannot be done, and what to write instead where there is something.
        pointer: JSON pointer of the schema that the keyword stands in, as a URI fragment; None if not known here.
        keyword: The keyword.

    Example:
        >>> print(UnsupportedSchema("items of this array may be anything", "#/properties/tags", "uniqueItems"))
        'uniqueItems' at #/properties/tags: items of this array may be anything
    """

    def __init__(self, reason: str, pointer: str | None = None, keyword: str | None = None) -> None:
        self.reason = reason
        self.pointer = pointer
        self.keyword = keyword
        super().__init__(reason, pointer, keyword)

    def __str__(self) -> str:
        if self.pointer is None:
            return self.reason
        where = f"{self.keyword!r} at {self.pointer}" if self.keyword else f"the schema at {self.pointer}"
        return f"{where}: {self.reason}"


class ProcessorError(LogitkitError, TypeError):
    """A processor broke the protocol: wrong order of results, or another structure, dtype or shape."""


class StateFileError(LogitkitError, ValueError):
    """A saved state is corrupt, was not written by logitkit, or belongs to another processor."""


class BankFull(LogitkitError, RuntimeError):
    """The automata in use with a vocabulary take as much memory as they may."""


class StaleAutomaton(LogitkitError, RuntimeError):
    """A state refers to an automaton whose processors are all gone: keep the processor alive while its states are."""


class BatchMismatch(LogitkitError, ValueError):
    """Two batches that must agree have different sizes; the message names both."""


class SampleMismatch(LogitkitError, ValueError):
    """Two sample counts that must agree differ; the message names both."""


class SequenceIndexError(LogitkitError, IndexError, ValueError):
    """An index of a sequence is out of range, or there are too few or too many keys."""


class SlicingError(LogitkitError, ValueError):
    """A sequence cannot be sliced at that place."""
