"""The results of one call of `generate_typed`: its outputs, sampled again if they are not values, or a stream."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, Generic, Literal, TypeVar

import torch

from logitkit.errors import BrokenLogits
from logitkit_adapters.sessions.generated import Generated, GeneratedRow
from logitkit_adapters.sessions.generation_stream import GenerationStream
from logitkit_adapters.sessions.session_call import SessionCall
from logitkit_adapters.sessions.typed_output import OutputReader, TypedOutput, located

__all__ = ["TypedStream", "typed_outputs"]

V = TypeVar("V")

# One more than the greatest seed.
SEEDS = 2**63


def typed_outputs(
    call: SessionCall, generate: Callable[[SessionCall], Sequence[GeneratedRow]], reader: OutputReader, retries: int
) -> list[TypedOutput[Any]]:
    """Return the outputs of a call; those that are not values have their error.

    Args:
        call: The call.
        generate: Returns the rows of a call.
        reader: Reads the rows.
        retries: How many times an output that is not a value is sampled again. Each time has another seed.
    """

    def written(call: SessionCall) -> list[TypedOutput[Any]]:
        return [reader.read(row, *pair) for row, pair in zip(generate(call), call.rows, strict=True)]

    outputs = written(call)
    seed = int(torch.randint(2**62, ())) if call.seed is None and retries else call.seed or 0
    for attempt in range(1, retries + 1):
        refused = [row for row, output in enumerate(outputs) if output.error is not None]
        if not refused:
            break
        pairs = [call.rows[row] for row in refused]
        prompts, counts = [prompt for prompt, _ in pairs], [count for _, count in pairs]
        again = replace(call, prompts=prompts, counts=counts, seed=(seed + attempt) % SEEDS, num_samples=1, num_beams=1)
        try:
            sampled = written(again)
        except BrokenLogits as error:
            row = None if error.row is None else refused[error.row]
            raise BrokenLogits(error.reason, row, error.step) from None
        for row, output in zip(refused, sampled, strict=True):
            outputs[row] = output
    return outputs


class TypedStream(GenerationStream, Generic[V]):
    """The pieces of the text of a value, and the value after the last piece.

    Args:
        pieces: Yields the pieces and returns the result.
        read: Returns the output of a row.
        read_partial: Returns the value of the beginning of a text.
        errors: Whether an output that is not a value raises its error, or is returned.
    """

    def __init__(
        self,
        pieces: Generator[str, None, Generated],
        read: Callable[[GeneratedRow], TypedOutput[V]],
        read_partial: Callable[[str], Any],
        errors: Literal["raise", "return"] = "raise",
    ) -> None:
        super().__init__(pieces)
        self._read, self._read_partial, self._errors = read, read_partial, errors
        self._text = ""

    def __next__(self) -> str:
        piece = super().__next__()
        self._text += piece
        return piece

    @property
    def partial(self) -> Any:
        """The value of the text so far, which may be read after each piece: it is read from the beginning of the text each time.

        Of JSON, half of a string is shown, but not half of a name, number, `true`, `false` or `null`. For a pydantic model, the
        value is an instance in which members that have not been written have their defaults or None; it is not validated. For
        other types and schemas it is plain data, and None before a value begins. For a pattern or language it is the text.

        Raises:
            ConfigurationError: The type is `Tools`.
        """
        return self._read_partial(self._text)

    @property
    def output(self) -> TypedOutput[V]:
        """The output, after the last piece.

        Raises:
            ConfigurationError: The generation has not ended.
            OutputError: The output was cut off, or a validator refuses it.
        """
        output = self._read(self.generated.rows[0])
        for error in located([output]):
            if self._errors == "raise":
                raise error
        return output

    @property
    def value(self) -> V:
        """The value, after the last piece; see `output`."""
        return self.output.value
