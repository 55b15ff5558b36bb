"""Sessions: independent calls that reuse each other's cached prefixes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from logitkit.composition.engine_vocabulary import check_ends, vocabulary_ends
from logitkit.parameters.scalars import checked_integer
from logitkit.protocol.guidance import refuse_guidance
from logitkit.protocol.processor import Processor, check_is_processor
from logitkit_adapters.sessions.base_session import CREATION, MOST, BaseSession
from logitkit_adapters.sessions.cached_sequences import Begun, CachedSequences
from logitkit_adapters.sessions.engines import check_tokens, engine_of
from logitkit_adapters.sessions.generated import Generated, GeneratedRow
from logitkit_adapters.sessions.generation_stream import TextPieces
from logitkit_adapters.sessions.generator import continuous
from logitkit_adapters.sessions.media_prompt import refuse_media
from logitkit_adapters.sessions.prompts import Prompt
from logitkit_adapters.sessions.row_writer import RowWriter
from logitkit_adapters.sessions.rows_together import NOTHING, generated_rows, text_of
from logitkit_adapters.sessions.sampling_options import refuse_sampling_options
from logitkit_adapters.sessions.session_call import SessionCall
from logitkit_adapters.sessions.text_before_stop import TextBeforeStop

__all__ = ["Session"]

# The default limit of cached tokens: several conversations of a few thousand.
KEPT = 32_768


class Session(BaseSession[Processor[Any]]):
    r"""Independent calls of `generate` that reuse what earlier ones have computed.

    If a prompt starts with the same tokens as an earlier prompt and its output, only the rest is fed to the model; this works
    for several conversations at once. A cache that cannot be cut (sliding window, quantised) is reused as far as possible and
    otherwise recomputed, so the output does not depend on it.

    Several threads may share a session: each call waits for the one before. In mlx-lm, mlx-vlm, llama.cpp and ONNX Runtime
    GenAI, where only one thread at a time may run a model, it waits for all sessions and generators of that model.

    Args:
        model: A decoder-only language model of transformers, a model of mlx-lm or mlx-vlm, a `llama_cpp.Llama` or an
            `onnxruntime_genai.Model`. Other code may use the model between the calls of the session.
        tokenizer: Its tokenizer, for prompts given as text, or in mlx-vlm its processor; llama.cpp has its own.
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
        **others: None are allowed; the error names the processor or argument to use instead.

    Raises:
        ConfigurationError: The model does not belong to a supported engine, an argument is not allowed, or with `rolling` the
            positions cannot be shifted, for example because they are learned.
        VocabularyError: The processor was built for another tokenizer.

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
        **others: Any,
    ) -> None:
        refuse_sampling_options(others, CREATION)
        self._model, self._given_tokenizer = model, tokenizer
        # The last processor whose tokens were compared with those of the model.
        self._compared: Processor[Any] | None = None
        self._engine = engine_of(model, tokenizer, make_cache)
        self._continuous = partial(continuous, model, tokenizer, make_cache=make_cache)
        if max_cached_tokens is None:
            max_cached_tokens = max(KEPT, max_length or 0)
        kept = checked_integer("max_cached_tokens", max_cached_tokens, 0, MOST)
        if rolling:
            self._engine.check_shift()
        self._cached = CachedSequences(self._engine, kept, rolling)
        super().__init__(self._engine.lock, self._cached, processor, max_length, self._engine.max_length)

    def _checked(self, processor: Processor[Any] | None) -> Processor[Any] | None:
        if processor is not None:
            check_is_processor(processor)
            refuse_guidance(processor, "a session")
            check_ends(processor, self._engine.eos_ids)
            if processor is not self._compared and self._engine.tokenizer is not None:
                check_tokens(processor, self._model, self._given_tokenizer)
                self._compared = processor
        return processor

    def _tokenizer(self) -> tuple[Any, Callable[[str], list[int]] | None]:
        tokenizer = self._engine.tokenizer
        return tokenizer, None if tokenizer is None else self._engine.encode

    def _prompts(self, prompt: Prompt, attention_mask: Any) -> list[list[int]]:
        return self._engine.prompts(prompt, attention_mask)

    def _rows(self, call: SessionCall) -> Iterable[GeneratedRow]:
        if call.num_beams > 1:
            refuse_media(call.prompts, f"beam search, num_beams={call.num_beams},")
            for tokens, count in zip(call.prompts, call.counts, strict=True):
                yield from self._beams(call, tokens, count) if tokens else [NOTHING] * call.num_beams
            return
        for row, (tokens, count) in enumerate(call.rows):
            if not tokens:
                yield NOTHING
            else:
                writer, begun = self._begun(call, tokens, count, row)
                try:
                    for _ in writer.steps(begun.sequence):
                        pass
                    found = self._written(writer, begun)
                finally:
                    self._leave(begun)
                yield found

    def _begun(self, call: SessionCall, tokens: list[int], count: int, row: int) -> tuple[RowWriter, Begun]:
        ends = self._engine.eos_ids | vocabulary_ends(call.processor)
        return RowWriter(self._engine, call, ends, tokens, count, row), self._cached.begin(tokens)

    def _leave(self, begun: Begun) -> None:
        """Leave nothing to other users of the model that they could mistake for the cache of the same tokens."""
        if begun.approximate and not self._engine.is_busy:
            self._engine.forget()

    def _written(self, writer: RowWriter, begun: Begun) -> GeneratedRow:
        sequence, reuse, approximate = begun
        self._cached.keep(sequence, approximate)
        return GeneratedRow(
            token_ids=writer.tokens,
            text=text_of(self._engine.tokenizer, writer.call, writer.prompt, writer.tokens, writer.ends),
            reuse=reuse,
            prompt_tokens=len(writer.prompt),
            positions_fed=sequence.positions_fed,
            forward_passes=sequence.forward_passes,
            forced_tokens=writer.forced_tokens,
            approximate=approximate,
            finished=writer.finished,
            log_probs=writer.log_probs if writer.call.log_probs else None,
            log_prob=sum(writer.log_probs) if writer.call.log_probs else None,
            kept=torch.stack(writer.kept) if writer.call.record_kept and writer.kept else None,
        )

    def _pieces(self, call: SessionCall) -> Generator[str, None, Generated]:
        tokens, count = call.rows[0]
        if not tokens:
            return Generated((NOTHING,))
        written = TextPieces(tokens, self._engine.tokenizer)
        shown = TextBeforeStop(None if call.whole_text else call.processor, tokens)
        with self._lock:
            self._check_open()
            writer, begun = self._begun(call, tokens, count, 0)
        steps, done = writer.steps(begun.sequence), False
        try:
            while not done:
                before = len(writer.tokens)
                with self._lock:
                    self._check_open()
                    done = next(steps, self) is self
                written.feed([i for i in writer.tokens[before:] if i not in writer.ends])
                if piece := shown.feed(writer.tokens[before:], written.text):
                    yield piece
            with self._lock:
                row = self._written(writer, begun)
        except GeneratorExit:
            with self._lock:
                # The garbage collector may close a stream while another sequence is fed.
                if not (self._closed or self._engine.is_busy):
                    self._cached.keep(begun.sequence, begun.approximate)
            raise
        finally:
            with self._lock:
                self._leave(begun)
        if rest := shown.rest(row.text):
            yield rest
        return Generated((replace(row, text=shown.text),))

    def _beams(self, call: SessionCall, tokens: list[int], count: int) -> Iterable[GeneratedRow]:
        find = self._continuous(
            call.processor, max_new_tokens=count, num_beams=call.num_beams, length_penalty=call.length_penalty
        )
        return generated_rows(find(tokens), self._engine, call, [tokens], count)
