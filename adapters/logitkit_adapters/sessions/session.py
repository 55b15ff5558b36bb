"""Independent calls that reuse what they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from torch import Tensor

from logitkit.integers import checked_integer
from logitkit.processor import Processor
from logitkit_adapters.sessions.cached_sequences import CachedSequences
from logitkit_adapters.sessions.generated import Generated, GeneratedRow
from logitkit_adapters.sessions.prompts import read_prompts
from logitkit_adapters.sessions.row_writer import RowWriter
from logitkit_adapters.sessions.sequences import engine_of
from logitkit_adapters.sessions.session_arguments import (
    MOST,
    check_open,
    checked_new_tokens,
    checked_position,
    checked_processor,
    checked_seed,
)

__all__ = ["Session"]

# Tokens that are kept where nothing else is said: some conversations of a few thousand.
KEPT = 32_768


class Session:
    r"""Calls of `generate` that are each as if they were alone, but reuse what earlier ones have computed.

    A prompt that begins as an earlier one, with its output, did is fed from where it differs on; of several conversations each
    finds its own. A cache that cannot be cut (of a sliding window, quantised) is gone on from where it can, or else computed
    anew: what comes out does not depend on it.

    Args:
        model: A decoder-only language model of transformers, a model of mlx-lm, or a `llama_cpp.Llama`. While the session
            lives, other uses of the model do no harm to it.
        tokenizer: Its tokenizer, for prompts that are texts; llama.cpp has its own.
        processor: What is applied to the logits of every call that names none of its own.
        max_length: Most tokens of a prompt and its output; None: as many as the model or its context has positions.
        max_cached_tokens: Most tokens that are kept cached between calls, those that conversations share counted once; the
            least recently used go first. None: 32,768, or `max_length` where that is given and more. In transformers and
            mlx-lm the last sequence and up to 4,096 tokens of others are held a second time, to go on without a copy.
        rolling: Whether a prompt may reuse cached tokens whose head it has dropped, by shifting their positions. What deeper
            layers saw of the head stays in them: a model of more than one layer may say something else then, and the result
            is flagged `approximate`.
        make_cache: Makes the empty cache of one sequence in transformers or mlx-lm, where the default is not wanted.

    Raises:
        ConfigurationError: The model is of no known engine, an argument is not allowed, or with `rolling` the positions cannot be
            shifted, as learned ones cannot.

    Example:
        >>> from transformers import AutoModelForCausalLM, AutoTokenizer
        >>> from logitkit_adapters.demo import model_dir
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
        self.processor = checked_processor(processor)
        self.max_length = self._engine.max_length
        if max_length is not None:
            self.max_length = checked_integer("max_length", max_length, 1, self._engine.max_length or MOST)
        if max_cached_tokens is None:
            max_cached_tokens = max(KEPT, max_length or 0)
        kept = checked_integer("max_cached_tokens", max_cached_tokens, 0, MOST)
        if rolling:
            self._engine.check_shift()
        self._cached = CachedSequences(self._engine, kept, rolling)
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all that is cached; a closed session generates no more."""
        self._cached.clear()
        self._closed = True

    @property
    def cached_tokens(self) -> int:
        """Tokens that are cached now, those that conversations share counted once."""
        return self._cached.tokens

    @property
    def position(self) -> int:
        """Cached tokens of the sequence that was generated last.

        Set it to a lower number to let go of those behind; where the cache cannot be cut, all go.
        """
        return self._cached.position

    @position.setter
    def position(self, position: int) -> None:
        self._cached.rewind(checked_position(position, self._cached.position))

    def generate(
        self,
        prompt: str | Sequence[str] | Sequence[int] | Sequence[Sequence[int]] | Tensor,
        *,
        max_new_tokens: int | None = None,
        processor: Processor[Any] | None = None,
        seed: int | None = None,
    ) -> Generated:
        """Continue one prompt or several.

        Args:
            prompt: A text, a list of token ids, or several of either, without pads. Rows of several may come in any order: each
                finds what is cached of it by its tokens. They run one after another; see `continuous` for rows that run together.
            max_new_tokens: Most new tokens of each row; it ends before if EOS comes. None: up to `max_length`.
            processor: What is applied to the logits, with the whole prompt as its history, whatever was cached of that. None:
                the session's.
            seed: Draw each token by its probability, from a stream of random numbers of this seed and the row's number; None:
                take the likeliest. To draw as with temperature 0.7, put `logitkit.Temperature(0.7)` into the processor.

        Returns:
            A row for each prompt.

        Raises:
            ConfigurationError: A prompt has no tokens, a prompt and its new tokens are more than `max_length`, or another
                argument is not allowed. Nothing was fed then.
            Exception: What the processor or the engine raises. The session can be used on, and still has what it had cached.
        """
        check_open(self._closed)
        used = self.processor if processor is None else checked_processor(processor)
        seed = checked_seed(seed)
        prompts = read_prompts(prompt, self._engine.encode if self._engine.has_text else None)
        counts = [checked_new_tokens(tokens, max_new_tokens, self.max_length, self._shared) for tokens in prompts]
        writers = [
            RowWriter(self._engine, used, tokens, count, seed, row)
            for row, (tokens, count) in enumerate(zip(prompts, counts, strict=True))
        ]
        return Generated(tuple(map(self._row, writers)))

    def _row(self, writer: RowWriter) -> GeneratedRow:
        sequence, reuse, approximate = self._cached.begin(writer.prompt)
        new, forced = writer.write(sequence)
        self._cached.keep(sequence, approximate)
        return GeneratedRow(
            token_ids=new,
            text=self._engine.decode(new) if self._engine.has_text else "",
            reuse=reuse,
            prompt_tokens=len(writer.prompt),
            positions_fed=sequence.positions_fed,
            forward_passes=sequence.forward_passes,
            forced_tokens=forced,
            approximate=approximate,
        )

    def _shared(self, prompt: list[int]) -> tuple[int, str]:
        return self._cached.shared(prompt), "cached tokens"
