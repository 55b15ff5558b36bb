"""A generated row as a typed output, or the reason why it is incomplete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from logitkit.configuration.reading import from_config
from logitkit.errors import IncompleteOutput, InvalidOutput, OutputError
from logitkit.explaining.explain import explain
from logitkit.explaining.explanation import Explanation
from logitkit.explaining.reason import reason_lines
from logitkit.output_types import OutputType
from logitkit.protocol.processor import Processor
from logitkit.vocabulary.vocabulary import Vocabulary
from logitkit_adapters.sessions.end_of_row import end_of_row
from logitkit_adapters.sessions.generated import GeneratedRow

__all__ = ["OutputReader", "TypedOutput", "located"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TypedOutput(Generic[T]):
    """A value that a model wrote.

    Args:
        value: The value: an instance of the type, the data of a schema, a turn with tool calls, or the text of a pattern or
            language. None if there is an error.
        text: Its text.
        token_ids: Its tokens, including a final EOS.
        log_prob: The log-probability of these tokens after the processors; None in a vLLM engine that does not report it.
        finished: Why it ended, as in `GeneratedRow`: `"eos"`, `"closed"`, `"stop: X"` or `"loop"`; of an incomplete output
            also `"conflict"` or `"length"`.
        error: With `errors="return"`, the reason why the output is not a value; otherwise None.
    """

    value: T
    text: str
    token_ids: list[int]
    log_prob: float | None
    finished: str
    error: OutputError | None = None


@dataclass(frozen=True)
class OutputReader:
    """Reads generated rows as values of a type.

    Args:
        kind: The type.
        vocabulary: The tokens.
        constraint: The constraint of the type.
        request: All processors of the generation, as a processor or as a configuration.
    """

    kind: OutputType
    vocabulary: Vocabulary
    constraint: Processor[Any]
    request: Any

    def check_limit(self, limit: int, is_given: bool) -> None:
        """Check that the shortest text, without EOS, takes no more tokens than are allowed, as far as that is known.

        Args:
            limit: How many are allowed.
            is_given: Whether that is `max_new_tokens`; otherwise, it is the room that the prompt leaves.

        Raises:
            IncompleteOutput: It takes more.
        """
        automaton: Any = getattr(self.constraint, "automaton", None)
        needed = 0 if getattr(automaton, "cost", None) is None else int(automaton.cost[automaton.start])
        if limit < needed:
            where, remedy = "", f"give max_new_tokens={needed} or more"
            if not is_given:
                where = " after this prompt"
                remedy = "give a shorter prompt, or a session or model with room for more tokens"
            raise IncompleteOutput(
                f"the limit is {limit} new tokens{where}, but the shortest output of this type takes {needed}; {remedy}",
                limit,
                needed,
            )

    def read(self, row: GeneratedRow, prompt: list[int], limit: int) -> TypedOutput[Any]:
        """Return the output of a row, after its prompt and with its limit of new tokens; it has an error if it is not a value."""
        value, error = None, self._incomplete(row, prompt, limit)
        if error is None:
            try:
                value = self.kind.value(row.text, row.token_ids, self.vocabulary)
            except Exception as refused:  # noqa: BLE001 - a validator may raise anything, and the other rows are not lost
                error = InvalidOutput(
                    f"a validator of the type refuses the output {row.text!r:.200}: {refused}", row.text
                )
                error.__cause__ = refused
        return TypedOutput(value, row.text, row.token_ids, row.log_prob, row.finished, error)

    def _incomplete(self, row: GeneratedRow, prompt: list[int], limit: int) -> OutputError | None:
        """Return the error of a row that was cut off, or ended by a stop or a loop before it was complete."""
        if row.finished == "length":
            return self._why_incomplete(row, prompt, limit, "was cut off at the token limit")
        if row.finished == "conflict":
            reason = "is incomplete, because the processors together allowed no further token; change the processor"
            return self._why_incomplete(row, prompt, limit, reason)
        if self._ends_early(row, prompt, limit):
            by = f"a {row.finished}" if _is_stopped(row) else "EOS"
            return self._why_incomplete(row, prompt, limit, f"was ended by {by} before it was complete")
        return None

    def _ends_early(self, row: GeneratedRow, prompt: list[int], limit: int) -> bool:
        """Whether the constraint of the type by itself does not allow the end of a row, which a stop or EOS has ended."""
        ends, tokens = self.vocabulary.eos_ids, row.token_ids
        # Some stops end a row without EOS, as does the token limit, and a row of padding has no tokens.
        if not tokens or tokens[-1] not in ends:
            tokens = [*tokens, ends[0]]
        return end_of_row(self.constraint, prompt, tokens, limit, ends, self.vocabulary.size) == "conflict"

    def _explained(self, processor: Processor[Any], row: GeneratedRow, prompt: list[int], limit: int) -> Explanation:
        """Return what a processor says of the tokens of a row; the EOS after a stop or loop is not of the type."""
        tokens, ends = row.token_ids, self.vocabulary.eos_ids
        if _is_stopped(row) and tokens[-1:] and tokens[-1] in ends:
            tokens = tokens[:-1]
        return explain(processor, self.vocabulary, prompt, tokens, max_length=len(prompt) + limit)

    def _why_incomplete(self, row: GeneratedRow, prompt: list[int], limit: int, reason: str) -> IncompleteOutput:
        """Return the error for an incomplete output, with the least limit that would do, or the token that was refused."""
        known = isinstance(self.request, Mapping)
        processor = from_config(self.request, self.vocabulary) if known else self.request
        found = self._explained(processor, row, prompt, limit)
        needed = len(row.token_ids) + len(found.completion) if found.completion else None
        if row.finished == "length":
            reason += f"; give {'a larger max_new_tokens' if needed is None else f'max_new_tokens={needed} or more'}"
        elif row.finished == "conflict" and found.refused_at is not None:
            effects = found.steps[found.refused_at].effects
            banned = ", ".join(f"{effect.processor} bans {effect.banned:,}" for effect in effects if effect.banned)
            reason += f". {next(reason_lines(found))}" + (f" There, {banned}" if banned else "")
        return IncompleteOutput(f"the output {row.text!r:.200} {reason}", limit, needed, row.text)


def _is_stopped(row: GeneratedRow) -> bool:
    """Whether a stop or a loop has ended a row."""
    return row.finished == "loop" or row.finished.startswith("stop: ")


def located(outputs: Sequence[TypedOutput[Any]]) -> list[OutputError]:
    """Tell the errors of outputs their rows and all outputs, and return them."""
    found = []
    for row, output in enumerate(outputs):
        if output.error is not None:
            output.error.row, output.error.outputs = row, tuple(outputs)
            found.append(output.error)
    return found
