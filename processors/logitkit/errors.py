"""The exception tree of logitkit.

LogitkitError
├── VocabularyError (ValueError)         the token bytes are missing, malformed or do not fit
├── PatternSyntaxError (ValueError)      a pattern cannot be parsed; knows the position, shows a caret
├── GrammarError (ValueError)            a grammar cannot be read or used; knows line and column, shows a caret
├── PatternTooLarge (ValueError)         a pattern's automaton is over a limit; names the limit
├── UnsupportedSchema (ValueError)       a JSON Schema keyword cannot be honoured exactly
├── ConfigurationError (ValueError)      an argument of a processor, or a configuration, is wrong
│   └── ArgumentTypeError (TypeError)    an argument has a type that is not allowed
├── OutputError (ValueError)             an output is not a value of its type; knows the text, and the other outputs of a list
│   ├── IncompleteOutput                 a model could not complete it; knows the token limit
│   └── InvalidOutput                    a validator of the type refuses it
├── ToolResultError (ValueError)         what a tool returned is not of its declared type; knows tool and path
├── BrokenLogits (RuntimeError)          the logits of a model have NaN or +inf, or no finite number; knows row and step
├── NoParticleLeft (RuntimeError)        all particles have left their language; knows how many, and after how many tokens
├── IllegalToken (ValueError)            a token to replay is forbidden; knows row, step and token
├── ProcessorError (TypeError)           a processor violates the protocol (order, structure, dtype, shape)
├── StateFileError (ValueError)          a saved state is corrupt, foreign, or belongs to another processor
├── StaleAutomaton (RuntimeError)        a state outlived the processor that owns its automaton
├── BankFull (RuntimeError)              the automata in use have reached the memory limit
├── BatchMismatch (ValueError)           rows cannot share a batch, or batches that must agree differ in size
├── SampleMismatch (ValueError)          two sample counts that must agree differ
├── SequenceIndexError (IndexError)      the index in `state[...]` is out of range, or has the wrong form
└── SlicingError (ValueError)            a sequence cannot be sliced at that point
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "ArgumentTypeError",
    "BankFull",
    "BatchMismatch",
    "BrokenLogits",
    "ConfigurationError",
    "GrammarError",
    "IllegalToken",
    "IncompleteOutput",
    "InvalidOutput",
    "LogitkitError",
    "NoParticleLeft",
    "OutputError",
    "PatternSyntaxError",
    "PatternTooLarge",
    "ProcessorError",
    "SampleMismatch",
    "SequenceIndexError",
    "SlicingError",
    "StaleAutomaton",
    "StateFileError",
    "ToolResultError",
    "UnsupportedSchema",
    "VocabularyError",
]


# The maximum length of a message in characters, and how many characters of a longer one are kept at its beginning and its end.
LONGEST_MESSAGE, BEGINNING, END = 2000, 1300, 600


class LogitkitError(Exception):
    r"""Base class of all errors that logitkit raises deliberately.

    The message is safe to log and to send: it is valid UTF-8, with lone surrogates written as `\ud800`, and has at most 2,000
    characters, not counting such escapes. A longer message loses its middle. `args` and attributes keep the original values.

    Example:
        >>> from logitkit.errors import ConfigurationError
        >>> print(ConfigurationError("the name '\ud800' is unknown"))
        the name '\ud800' is unknown
    """

    def __str__(self) -> str:
        text = self._message()
        if len(text) > LONGEST_MESSAGE:
            left_out = len(text) - BEGINNING - END
            text = f"{text[:BEGINNING]} [... {left_out} characters left out ...] {text[-END:]}"
        return text.encode("utf-8", "backslashreplace").decode()

    def _message(self) -> str:
        """Return the whole message. Subclasses may override it; `__str__` shortens and escapes the result."""
        return super().__str__()


class VocabularyError(LogitkitError, ValueError):
    """The token bytes of a vocabulary are missing, malformed or do not fit the logits."""


class ConfigurationError(LogitkitError, ValueError):
    """An argument of a processor, or a configuration, is not allowed."""


class ArgumentTypeError(ConfigurationError, TypeError):
    """An argument has a type that is not allowed."""


class OutputError(LogitkitError, ValueError):
    """An output of a model is not a value of the requested type.

    Args:
        reason: The problem, and what to change if something helps.
        text: The output; "" if nothing was generated.

    Attributes:
        row: The index of the output among those of its call.
        outputs: All outputs of its call, in order; each that is not a value has its error. Empty if nothing was generated.
    """

    def __init__(self, reason: str, text: str = "") -> None:
        self.reason = reason
        self.text = text
        self.row = 0
        self.outputs: Sequence[Any] = ()
        super().__init__(reason, text)

    def _message(self) -> str:
        return f"output {self.row} of {len(self.outputs)}: {self.reason}" if len(self.outputs) > 1 else self.reason


class IncompleteOutput(OutputError):
    """A model could not complete an output of the requested type.

    Args:
        reason: The problem, and what to change.
        limit: The maximum number of new tokens.
        needed: The number of tokens of the shortest output, without EOS; None if it is unknown.
        text: The incomplete output; "" if nothing was generated.
    """

    def __init__(self, reason: str, limit: int, needed: int | None = None, text: str = "") -> None:
        self.limit = limit
        self.needed = needed
        super().__init__(reason, text)
        self.args = (reason, limit, needed, text)


class InvalidOutput(OutputError):
    """A validator of the requested type refuses an output; `__cause__` is the validator's error."""


class PatternSyntaxError(LogitkitError, ValueError):
    r"""A pattern cannot be parsed.

    Args:
        reason: The problem, and what to write instead if there is a replacement.
        pattern: The whole pattern.
        position: Index of the problem in `pattern`, in characters.

    Example:
        >>> from logitkit.errors import PatternSyntaxError
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

    def _message(self) -> str:
        # A pattern may have several lines or be very long: show a window of the line that has the problem.
        begin = self.pattern.rfind("\n", 0, self.position) + 1
        end = self.pattern.find("\n", self.position)
        end = len(self.pattern) if end < 0 else end
        window = max(begin, self.position - 60)
        shown = self.pattern[window : min(end, self.position + 20)].replace("\t", " ")
        caret = " " * (self.position - window) + "^"
        return f"{self.reason} at position {self.position}\n    {shown}\n    {caret}"


class GrammarError(LogitkitError, ValueError):
    r"""A grammar cannot be read, or cannot be used.

    Args:
        reason: The problem, and what to write instead if there is a replacement.
        grammar: The whole text of the grammar; "" if it is unknown.
        position: Index of the problem in `grammar`, in characters; None if the problem has no place.

    Attributes:
        line: The number of the line, from 1; None without a position.
        column: The number of the character in the line, from 1; None without a position.

    Example:
        >>> from logitkit.errors import GrammarError
        >>> print(GrammarError("the rule 'b' is not defined", 'root ::= "a"\n       | b', 22))
        line 2, column 10: the rule 'b' is not defined
            2 |        | b
              |          ^
    """

    def __init__(self, reason: str, grammar: str = "", position: int | None = None) -> None:
        self.reason = reason
        self.grammar = grammar
        self.position = position
        self.line = None if position is None else grammar.count("\n", 0, position) + 1
        self.column = None if position is None else position - grammar.rfind("\n", 0, position)
        super().__init__(reason, grammar, position)

    def _message(self) -> str:
        if self.position is None or self.column is None:
            return self.reason
        # A line may be very long: show a window of it.
        begin = self.position - self.column + 1
        end = self.grammar.find("\n", self.position)
        window = max(begin, self.position - 60)
        shown = self.grammar[window : min(len(self.grammar) if end < 0 else end, self.position + 20)]
        shown = shown.replace("\t", " ").replace("\r", " ").rstrip()
        number = str(self.line)
        caret = " " * (self.position - window) + "^"
        return (
            f"line {number}, column {self.column}: {self.reason}\n"
            f"    {number} | {shown}\n"
            f"    {' ' * len(number)} | {caret}"
        )


class PatternTooLarge(LogitkitError, ValueError):
    """The automaton of a pattern would exceed a limit; the message names the limit and says how to raise it."""


class UnsupportedSchema(LogitkitError, ValueError):
    """A keyword of a JSON Schema cannot be enforced exactly.

    Args:
        reason: The problem, and what to write instead if there is a replacement.
        pointer: JSON pointer of the schema that contains the keyword, as a URI fragment; None if unknown.
        keyword: The keyword; None stands for the whole schema.

    Attributes:
        left_out_by_lax: Whether `lax=True` would leave out the keyword, or the negation of the whole schema; the message says so.
            None if it is unknown, or if there is no such option.

    Example:
        >>> from logitkit.errors import UnsupportedSchema
        >>> error = UnsupportedSchema("items of this array may be anything", "#/properties/tags", "uniqueItems")
        >>> print(error)
        'uniqueItems' at #/properties/tags: items of this array may be anything
        >>> error.left_out_by_lax = True
        >>> print(str(error).split("; ")[1])
        lax=True would leave out 'uniqueItems' at #/properties/tags
    """

    def __init__(self, reason: str, pointer: str | None = None, keyword: str | None = None) -> None:
        self.reason = reason
        self.pointer = pointer
        self.keyword = keyword
        self.left_out_by_lax: bool | None = None
        super().__init__(reason, pointer, keyword)

    def _message(self) -> str:
        if self.pointer is None:
            return self.reason
        where = f"{self.keyword!r} at {self.pointer}" if self.keyword else f"the schema at {self.pointer}"
        if not self.left_out_by_lax:
            return f"{where}: {self.reason}"
        # The picture of a pattern ends a line.
        separator = "\n" if "\n" in self.reason else "; "
        what = where if self.keyword else f"the negation of {where}"
        return f"{where}: {self.reason}{separator}lax=True would leave out {what}"


class IllegalToken(LogitkitError, ValueError):
    """A token of an output to replay is forbidden by the processor with which it is replayed, or is not among the kept ones.

    Args:
        reason: The problem, with the token, its text and the processor that forbids it, and what to give instead.
        row: The row of the batch, from 0.
        step: The number of output tokens before it.
        token: The token id.

    Example:
        >>> from logitkit.errors import IllegalToken
        >>> print(IllegalToken("token 7 ('x') is forbidden by Regex", row=0, step=3, token=7))
        row 0, step 3: token 7 ('x') is forbidden by Regex
    """

    def __init__(self, reason: str, row: int, step: int, token: int) -> None:
        self.reason = reason
        self.row = row
        self.step = step
        self.token = token
        super().__init__(reason, row, step, token)

    def _message(self) -> str:
        return f"row {self.row}, step {self.step}: {self.reason}"


class ToolResultError(LogitkitError, ValueError):
    """A value that a tool returned is not of the type that the tool declares.

    Args:
        reason: The value, and what is allowed.
        tool: The name of the tool.
        path: JSON pointer of the value in the result; "" for the whole result.

    Attributes:
        __cause__: The error of pydantic, if the type is a Python type.

    Example:
        >>> from logitkit.errors import ToolResultError
        >>> print(ToolResultError("it is 'warm'; Input should be a valid number", "get_weather", "/celsius"))
        the result of the tool 'get_weather' is wrong at /celsius: it is 'warm'; Input should be a valid number
    """

    def __init__(self, reason: str, tool: str, path: str = "") -> None:
        self.reason = reason
        self.tool = tool
        self.path = path
        super().__init__(reason, tool, path)

    def _message(self) -> str:
        where = f" at {self.path}" if self.path else ""
        return f"the result of the tool {self.tool!r} is wrong{where}: {self.reason}"


class BrokenLogits(LogitkitError, RuntimeError):
    """The logits of a model have NaN or +inf, or no finite number, so they say nothing about the next token.

    Args:
        reason: The problem, such as `"3 of 1,280 are NaN"`.
        row: The row of the batch, from 0; None if it is unknown.
        step: The number of tokens after the prompt; None if it is unknown.

    Example:
        >>> from logitkit.errors import BrokenLogits
        >>> print(str(BrokenLogits("3 of 1,280 are NaN", row=0, step=7)).split(". ")[0])
        the model returned broken logits for row 0 at step 7: 3 of 1,280 are NaN
    """

    def __init__(self, reason: str, row: int | None = None, step: int | None = None) -> None:
        self.reason = reason
        self.row = row
        self.step = step
        super().__init__(reason, row, step)

    def _message(self) -> str:
        row = "" if self.row is None else f" for row {self.row}"
        step = "" if self.step is None else f" at step {self.step}"
        return (
            f"the model returned broken logits{row}{step}: {self.reason}. If it runs in float16, try bfloat16 or float32, which "
            "do not overflow; otherwise check its weights, the attention mask, and other processors of the engine"
        )


class NoParticleLeft(LogitkitError, RuntimeError):
    """All particles have weight 0, so no text can be sampled. In a mean of estimates, the probability of such a run counts as 0.

    Args:
        particles: The number of particles.
        step: The number of tokens after the prompt.
        limit: The maximum number of tokens of a text.

    Example:
        >>> from logitkit.errors import NoParticleLeft
        >>> print(str(NoParticleLeft(16, step=5, limit=20)).split("; ")[0])
        all 16 particles have weight 0 after 5 tokens: no token that the constraints allow has a probability there
    """

    def __init__(self, particles: int, step: int, limit: int) -> None:
        self.particles = particles
        self.step = step
        self.limit = limit
        super().__init__(particles, step, limit)

    def _message(self) -> str:
        if self.step == self.limit:
            return (
                f"all {self.particles} particles have weight 0: no text is complete after at most {self.limit} tokens; give more "
                "max_new_tokens, more particles, or a constraint with closing=True, which completes texts in time"
            )
        return (
            f"all {self.particles} particles have weight 0 after {self.step} tokens: no token that the constraints allow has a "
            "probability there; give more particles, or check that the constraints have a text in common"
        )


class ProcessorError(LogitkitError, TypeError):
    """A processor violates the protocol: wrong order of results, or a changed structure, dtype or shape."""


class StateFileError(LogitkitError, ValueError):
    """A saved state is corrupt, was not written by logitkit, or belongs to another processor."""


class BankFull(LogitkitError, RuntimeError):
    """The automata in use with a vocabulary have reached the memory limit."""


class StaleAutomaton(LogitkitError, RuntimeError):
    """A state refers to an automaton whose processors no longer exist: keep the processor alive as long as its states."""


class BatchMismatch(LogitkitError, ValueError):
    """Rows cannot share a batch, or two batches that must have the same size do not; the message says which."""


class SampleMismatch(LogitkitError, ValueError):
    """Two numbers of samples that must be equal differ; the message names both."""


class SequenceIndexError(LogitkitError, IndexError, ValueError):
    """An index of a sequence is out of range, or there are too few or too many keys."""


class SlicingError(LogitkitError, ValueError):
    """A sequence cannot be sliced at that point."""
