"""Sessions: independent calls that reuse each other's cached prefixes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from logitkit.composition.engine_ends import check_ends, vocabulary_ends
from logitkit.parameters.integers import checked_integer
from logitkit.protocol.processor import Processor, check_is_processor
from logitkit.sessions.reuse import Reuse
from logitkit.sessions.text_continuation import added_text
from logitkit.sessions.text_tokenizer import TextTokenizer
from logitkit_adapters.sessions.base_session import MOST, BaseSession
from logitkit_adapters.sessions.cached_sequences import CachedSequences
from logitkit_adapters.sessions.engines import engine_of
from logitkit_adapters.sessions.generated import GeneratedRow
from logitkit_adapters.sessions.row_writer import RowWriter

__all__ = ["Session"]

# The default limit of cached tokens: several conversations of a few thousand.
KEPT = 32_768


class Session(BaseSession[Processor[Any]]):
    r"""Independent calls of `generate` that reuse what earlier ones have computed.

    If a prompt starts with the same tokens as an earlier prompt and its output, only the rest is fed to the model; this works
    for several conversations at once. A cache that cannot be cut (sliding window, quantised) is reused as far as possible and
    otherwise recomputed, so the output does not depend on it.

    Several threads may share a session: each call waits for the one before. In mlx-lm and llama.cpp, where only one thread at a
    time may run a model, it waits for all sessions and generators of that model.

    Args:
        model: A decoder-only language model of transformers, a model of mlx-lm, or a `llama_cpp.Llama`. Other code may use the
            model while the session exists.
        tokenizer: Its tokenizer, for prompts given as text; llama.cpp has its own.
        processor: The processor for the logits of every call that is not given another.
        max_length: The maximum number of tokens of a prompt and its output; None: the number of positions of the model or its
            context.
        max_cached_tokens: The maximum number of tokens cached between calls; shared prefixes count once. The least recently
            used sequences are evicted first; of a longer conversation, the beginning is kept. None: 32,768, or `max_length` if
            that is given and larger. In transformers and mlx-lm, the last sequence and up to 4,096 tokens of others are stored
            twice, so that they can continue without a copy.
        rolling: Whether a prompt may reuse cached tokens whose head it has dropped, by shifting their positions. In deeper
            layers they still contain information about the head, so a model with more than one layer may give another output.
            The result is then flagged `approximate`.
        make_cache: Returns the empty cache of one sequence in transformers or mlx-lm, to replace the default.

    Raises:
        ConfigurationError: The model does not belong to a supported engine, an argument is not allowed, or with `rolling` the
            positions cannot be shifted, for example because they are learned.

    Example:
        >>> from transformers import AutoModelForCausalLM, AutoTokenizer
        >>> from logitkit_adapters.demo import model_dir
        >>> from logitkit_adapters.transformers import Session
        >>> model = AutoModelForCausalLM.from_pretrained(model_dir())
        >>> tokenizer = AutoTokenizer.from_pretrained(model_dir())
        >>> with Session(model, tokenizer, max_length=256) as session:
        ...     first = session.generate("The price of", max_new_tokens=4)
        ...     second = session.generate("The price of tea", max_new_tokens=4)
        >>> first.rows[0].cached_tokens, second.rows[0].cached_tokens
        (0, 3)
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        processor: Processor[Any] | None = None,
        *,
        max_length: int | None = None,
        max_cached_tokens: int | None = None,
        rolling: bool = False,
        make_cache: Callable[[], Any] | None = None,
    ) -> None:
        self._engine = engine_of(model, tokenizer, make_cache)
        super().__init__(self._engine.lock, processor, max_length, self._engine.max_length)
        if max_cached_tokens is None:
            max_cached_tokens = max(KEPT, max_length or 0)
        kept = checked_integer("max_cached_tokens", max_cached_tokens, 0, MOST)
        if rolling:
            self._engine.check_shift()
        self._cached = CachedSequences(self._engine, kept, rolling)

    @property
    def cached_tokens(self) -> int:
        """The number of cached tokens; shared prefixes count once."""
        return self._cached.tokens

    def _checked(self, processor: Processor[Any] | None) -> Processor[Any] | None:
        if processor is not None:
            check_is_processor(processor)
            check_ends(processor, self._engine.eos_ids)
        return processor

    def _tokenizer(self) -> tuple[Any, Callable[[str], list[int]] | None]:
        tokenizer = self._engine.tokenizer
        return tokenizer, None if tokenizer is None else self._engine.encode

    def _shared(self, prompt: list[int]) -> tuple[int, str]:
        return self._cached.shared(prompt), "cached tokens"

    def _position(self) -> int:
        return self._cached.position

    def _rewind(self, position: int) -> None:
        self._cached.rewind(position)

    def _forget(self) -> None:
        self._cached.clear()

    def _rows(
        self, prompts: list[list[int]], counts: list[int], used: Processor[Any] | None, seed: int | None
    ) -> Iterable[GeneratedRow]:
        ends = self._engine.eos_ids | vocabulary_ends(used)
        for row, (tokens, count) in enumerate(zip(prompts, counts, strict=True)):
            yield self._row(RowWriter(self._engine, used, ends, tokens, count, seed, row))

    def _row(self, writer: RowWriter) -> GeneratedRow:
        if not writer.prompt:
            # Only padding: the row has ended.
            return GeneratedRow([], "", Reuse(0, 0, []), prompt_tokens=0, positions_fed=0, forward_passes=0)
        sequence, reuse, approximate = self._cached.begin(writer.prompt)
        new, forced = writer.write(sequence)
        self._cached.keep(sequence, approximate)
        return GeneratedRow(
            token_ids=new,
            text=self._text(writer, new),
            reuse=reuse,
            prompt_tokens=len(writer.prompt),
            positions_fed=sequence.positions_fed,
            forward_passes=sequence.forward_passes,
            forced_tokens=forced,
            approximate=approximate,
        )

    def _text(self, writer: RowWriter, new: list[int]) -> str:
        if self._engine.tokenizer is None:
            return ""
        written = new[:-1] if new and new[-1] in writer.ends else new
        return added_text(writer.prompt, written, TextTokenizer(self._engine.tokenizer))
