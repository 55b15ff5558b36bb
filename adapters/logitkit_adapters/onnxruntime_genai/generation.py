"""The loop of ONNX Runtime GenAI, with a processor for the logits of every step.

The engine calls no hooks: a program reads the logits (`get_logits`), replaces them (`set_logits`), and lets the engine choose the
next tokens (`generate_next_token`), by its own search options. These functions are that loop. The engine copies the logits when
it returns them, and again when it takes them back; nothing here copies them in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from logitkit.composition.engine_vocabulary import check_ends, vocabulary_ends
from logitkit.errors import ConfigurationError
from logitkit.parameters.scalars import checked_integer
from logitkit.protocol.guidance import refuse_guidance
from logitkit.protocol.processor import Processor
from logitkit.sessions.reuse import Reuse
from logitkit_adapters.hooks.door import processor_for, processors_for
from logitkit_adapters.loaded_class import is_instance, needed_for
from logitkit_adapters.onnxruntime_genai.model_limits import limits_of
from logitkit_adapters.onnxruntime_genai.processed_rows import ProcessedRows
from logitkit_adapters.onnxruntime_genai.search_options import generator_with, search_parameters
from logitkit_adapters.onnxruntime_genai.vocabulary import vocabulary
from logitkit_adapters.sessions.end_of_row import end_of_row
from logitkit_adapters.sessions.generated import Generated, GeneratedRow
from logitkit_adapters.sessions.prompts import Prompt, read_prompts
from logitkit_adapters.sessions.rows_together import text_of
from logitkit_adapters.sessions.session_call import SessionCall
from logitkit_adapters.sessions.shared_model import shared_by

with needed_for("onnxruntime_genai", "onnxruntime-genai", "onnx"):
    import onnxruntime_genai as og

__all__ = ["generate", "generate_step"]


def generate(
    model: og.Model,
    tokenizer: Any,
    prompt: Prompt,
    processor: Any = None,
    *,
    max_new_tokens: int,
    **search_options: Any,
) -> Generated:
    r"""Continue one prompt, or several as one batch, with ONNX Runtime GenAI's own search and a processor.

    Args:
        model: The `onnxruntime_genai.Model`.
        tokenizer: Its `logitkit_adapters.onnxruntime_genai.Tokenizer`, or None if all prompts are token ids.
        prompt: A text, token ids or a chat, or a list of them: see `Session.generate`. Several run as one batch, of at most 32.
        processor: A processor; or a Python type, such as a pydantic model, a JSON Schema as a dict, `re.compile(...)`, a language
            or `logitkit.Tools`, which is compiled for the tokenizer. For prompts that differ, a list with one of these for each
            of them, or None for a prompt without a processor. None: the engine alone.
        max_new_tokens: The maximum number of new tokens per row.
        **search_options: Options of the engine, which come after the processor: `do_sample`, `temperature`, `top_k`, `top_p`,
            `random_seed`, `repetition_penalty`, `chunk_size` and `past_present_share_buffer`. Those that are not given have the
            values of the model's `genai_config.json`.

    Returns:
        One row per prompt.

    Raises:
        ConfigurationError: An argument is not allowed; or a search option does not work together with a processor, such as
            `num_beams`, for which the error says what to use instead.
        VocabularyError: The processor was built for another tokenizer, or does not know an EOS of the model.
        BrokenLogits: The logits of a row are broken.
        Exception: Any error of the processor. No token is generated in its place.

    Example:
        >>> import onnxruntime_genai
        >>> import logitkit as lk
        >>> from logitkit_adapters.demo import onnx_dir
        >>> from logitkit_adapters.onnxruntime_genai import Tokenizer, generate, vocabulary
        >>> model = onnxruntime_genai.Model(str(onnx_dir()))
        >>> tokenizer = Tokenizer(model, onnx_dir())
        >>> answer = lk.Choice([" yes", " no"], vocabulary(tokenizer))
        >>> prompts = [f"Question: Is {place}?\nAnswer:" for place in ("Paris in France", "Rome in Spain")]
        >>> generate(model, tokenizer, prompts, answer, max_new_tokens=8).texts
        [' yes', ' no']
    """
    encode = None if tokenizer is None else tokenizer.encode
    run = _BatchGeneration(
        model, tokenizer, read_prompts(prompt, encode, tokenizer), processor, max_new_tokens, search_options
    )
    for _ in run.steps():
        pass
    return run.result()


def generate_step(
    model: og.Model,
    tokenizer: Any,
    prompt: Prompt,
    processor: Any = None,
    *,
    max_new_tokens: int,
    **search_options: Any,
) -> Iterator[list[int | None]]:
    """Continue prompts as `generate` does, and yield the tokens of each step.

    Args:
        model: As in `generate`.
        tokenizer: As in `generate`.
        prompt: As in `generate`.
        processor: As in `generate`.
        max_new_tokens: As in `generate`.
        **search_options: As in `generate`.

    Returns:
        An iterator of one token per row, with EOS; None for a row that has ended before.

    Raises:
        ConfigurationError: As in `generate`.

    Example:
        >>> import onnxruntime_genai
        >>> import logitkit as lk
        >>> from logitkit_adapters.demo import onnx_dir
        >>> from logitkit_adapters.onnxruntime_genai import Tokenizer, generate_step, vocabulary
        >>> model = onnxruntime_genai.Model(str(onnx_dir()))
        >>> tokenizer = Tokenizer(model, onnx_dir())
        >>> stream = lk.TextStream(vocabulary(tokenizer))
        >>> colours = lk.Choice(["red", "green", "blue"], vocabulary(tokenizer))
        >>> steps = generate_step(model, tokenizer, "The lamp is ", colours, max_new_tokens=8)
        >>> [stream.feed(token) for (token,) in steps]
        ['re', 'd', '']
    """
    encode = None if tokenizer is None else tokenizer.encode
    prompts = read_prompts(prompt, encode, tokenizer)
    return _BatchGeneration(model, tokenizer, prompts, processor, max_new_tokens, search_options).steps()


def _processors(
    given: Any, rows: int, tokenizer: Any, model: Any
) -> tuple[Processor[Any] | None, list[Processor[Any] | None]]:
    """Return the processor that runs all rows, and that of each row.

    Raises:
        ConfigurationError: There is not one processor for each row, or one of them is something else.
    """
    seen = None if tokenizer is None else model
    if not isinstance(given, list | tuple):
        one = None if given is None else processor_for(given, tokenizer, seen, vocabulary, closing=True)
        return one, [one] * rows
    if len(given) != rows:
        raise ConfigurationError(
            f"there are {len(given)} processors for {rows} prompts; give one for each, or None for a prompt without one. "
            "logitkit.chain makes one processor of several"
        )
    each = processors_for(given, tokenizer, seen, vocabulary, closing=True)
    # Without any, the engine's own options stay allowed.
    return each if any(one is not None for one in given) else None, [*each.processors]


class _BatchGeneration:
    """A generation; see `generate` for its arguments.

    Args:
        prompts: The tokens of each prompt.
        options: The search options.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        prompts: list[list[int]],
        processor: Any,
        max_new_tokens: int,
        options: Mapping[str, Any],
    ) -> None:
        if not is_instance(model, "onnxruntime_genai", "Model"):
            raise ConfigurationError(f"model is of type {type(model).__name__}; give an onnxruntime_genai.Model")
        self.limits, self.tokenizer, self.prompts = limits_of(model), tokenizer, prompts
        found, self.processors = _processors(processor, len(prompts), tokenizer, model)
        for part in self.processors:
            refuse_guidance(part, "ONNX Runtime GenAI")
            check_ends(part, self.limits.eos_ids)
        self.count = checked_integer("max_new_tokens", max_new_tokens, 1, self.limits.max_length)
        # The ids that end each row.
        self.ends = [self.limits.eos_ids | vocabulary_ends(part) for part in self.processors]
        width = max(map(len, prompts))
        self._check(width)
        parameters = search_parameters(model, options, len(prompts), width + self.count, processed=found is not None)
        self.tokens: list[list[int]] = [[] for _ in prompts]
        self._lock = shared_by(model).lock
        self._generator: Any = generator_with(model, parameters)
        self._rows: ProcessedRows | None = None
        if found is not None:
            ends = sorted(self.limits.eos_ids)
            self._rows = ProcessedRows(found, prompts, self.limits.columns, self.count, ends)

    def steps(self) -> Iterator[list[int | None]]:
        """Generate the rows, and yield the new tokens of each step."""
        ended = [False] * len(self.prompts)
        for step in range(self.count):
            # Other users of the model may run between two steps.
            with self._lock:
                if step == 0:
                    self._append_prompts()
                chosen = self._choose()
            found = [None if over else token for token, over in zip(chosen, ended, strict=True)]
            for row, token in zip(self.tokens, found, strict=True):
                if token is not None:
                    row.append(token)
            ended = [over or token in ends for token, over, ends in zip(chosen, ended, self.ends, strict=True)]
            if self._rows is not None and not all(ended):
                self._rows.advance([-1 if token is None else token for token in found])
            yield found
            if all(ended):
                return

    def result(self) -> Generated:
        """Return the rows."""
        rows, columns = [], self.limits.columns
        for number, (prompt, new) in enumerate(zip(self.prompts, self.tokens, strict=True)):
            processor, ends = self.processors[number], self.ends[number]
            emptied = self._rows is not None and bool(self._rows.emptied[number])
            call = SessionCall(processor=processor, prompts=[prompt], counts=[self.count])
            rows.append(
                GeneratedRow(
                    token_ids=new,
                    text=text_of(self.tokenizer, call, prompt, new, ends),
                    reuse=Reuse(0, 0, prompt),
                    prompt_tokens=len(prompt),
                    positions_fed=len(prompt) + len(new) - 1,
                    forward_passes=len(new),
                    finished=end_of_row(processor, prompt, new, self.count, ends, columns, emptied=emptied),
                )
            )
        return Generated(tuple(rows))

    def _append_prompts(self) -> None:
        """Run the prompts; the engine finds the padding to their right by its id."""
        pad, width = self.limits.pad_id, max(map(len, self.prompts))
        ids = np.array([[*prompt, *[pad] * (width - len(prompt))] for prompt in self.prompts], np.int32)
        self._generator.append_tokens(ids.reshape(-1))

    def _choose(self) -> list[int]:
        """Process the logits, and return the tokens that the engine chooses."""
        generator = self._generator
        # [B, 1, V], which the engine does not keep.
        logits = generator.get_logits()
        if self._rows is not None:
            self._rows.process(logits[:, 0])
            generator.set_logits(logits)
        generator.generate_next_token()
        chosen: list[int] = generator.get_next_tokens().tolist()
        return chosen

    def _check(self, width: int) -> None:
        """Refuse prompts that the engine would misread."""
        for number, prompt in enumerate(self.prompts):
            if wrong := [token for token in prompt if token >= self.limits.columns]:
                raise ConfigurationError(
                    f"prompt {number} has the token id {wrong[0]}; allowed are ids below {self.limits.columns}, the number of "
                    "the model's tokens"
                )
            if not prompt or (prompt[-1] == self.limits.pad_id and width > 1):
                raise ConfigurationError(
                    f"prompt {number} ends with the id {self.limits.pad_id}, which ONNX Runtime GenAI takes for padding; use "
                    "Session, which feeds it by itself"
                )
        length, switch = width + self.count, self.limits.switches_at
        if length > self.limits.max_length:
            raise ConfigurationError(
                f"a prompt of {width} tokens and {self.count} new ones are more than the {self.limits.max_length} of "
                "search.max_length in the model's genai_config.json; ask for fewer, or raise it there"
            )
        if switch is not None and width < switch <= length:
            raise ConfigurationError(
                f"a prompt of {width} tokens and {self.count} new ones pass {switch} tokens, where ONNX Runtime GenAI computes "
                "logits of this model again without showing them; use Session, or ask for fewer new tokens"
            )
