"""The interface of sessions in all engines, and the checks of their arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, Self, TypeVar

from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.parameters.scalars import checked_integer
from logitkit_adapters.sessions.generated import Generated, GeneratedRow
from logitkit_adapters.sessions.generation_stream import GenerationStream
from logitkit_adapters.sessions.prompts import Prompt, read_prompts
from logitkit_adapters.sessions.sampling_options import refuse_sampling_options
from logitkit_adapters.sessions.session_call import SessionCall

__all__ = ["CREATION", "MOST", "BaseSession", "SessionCache"]

MOST = 2**31 - 1
# The options of a session itself, and of a call.
CREATION = ("processor", "max_length", "max_cached_tokens", "rolling", "make_cache")
FOR_SEVERAL = ("num_samples", "num_beams", "length_penalty")
OPTIONS = ("attention_mask", "max_new_tokens", "processor", "seed", "log_probs", "record_kept", *FOR_SEVERAL)

# The type of processors that a session takes.
P = TypeVar("P")


class SessionCache(Protocol):
    """The tokens that a session has computed, and may reuse."""

    # The name of these tokens, for errors.
    name: str

    @property
    def tokens(self) -> int:
        """The number of cached tokens."""

    @property
    def position(self) -> int:
        """The number of computed tokens of the last generated sequence."""

    def shared(self, prompt: list[int]) -> int:
        """Return how many tokens of a prompt already exist."""

    def rewind(self, length: int) -> None:
        """Drop the tokens of the last sequence after a position below the current one."""

    def clear(self) -> None:
        """Release all caches."""


class BaseSession(ABC, Generic[P]):
    """The interface of the sessions of all engines.

    Args:
        lock: Held while the session is used.
        cache: The tokens that the session may reuse.
        processor: The processor of every call that is not given another, or None.
        max_length: The maximum number of tokens of a prompt and its output, or None for the engine's.
        longest: The engine's own maximum, or None if it is unlimited.
    """

    # The engine's model, set by each session before anything else.
    _model: Any

    def __init__(
        self,
        lock: AbstractContextManager[Any],
        cache: SessionCache,
        processor: P | None,
        max_length: int | None,
        longest: int | None,
    ) -> None:
        self._lock, self._cache = lock, cache
        self.processor = processor
        self._checked(processor)
        self.max_length = longest
        if max_length is not None:
            self.max_length = checked_integer("max_length", max_length, 1, longest or MOST)
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the session, which can no longer generate, and release what it keeps; vLLM keeps its cache."""
        with self._lock:
            self._cache.clear()
            self._closed = True

    def check_serves(self, model: Any) -> None:
        """Check that the session runs a model, and returns text.

        Raises:
            ConfigurationError: It runs another model, or has no tokenizer.
        """
        if self._model is not model or self._tokenizer()[0] is None:
            what = "has no tokenizer" if self._model is model else "runs another model"
            raise ConfigurationError(
                f"session {what}; give a session of this model with its tokenizer, or leave it out"
            )

    @property
    def cached_tokens(self) -> int:
        """The number of cached tokens; shared prefixes count once.

        vLLM does not report the size of its cache: there, the tokens of the last call's prompts that it found in it.
        """
        return self._cache.tokens

    @property
    def position(self) -> int:
        """The number of computed tokens of the last generated sequence: all but its last token.

        Set it to a lower number to drop the tokens after it; if the cache cannot be cut, all are dropped. vLLM's cannot: there,
        the cached tokens of other callers are dropped too.

        Raises:
            ConfigurationError: It is set to a higher number; or in vLLM, while the engine runs requests of other callers.
        """
        return self._cache.position

    @position.setter
    def position(self, position: int) -> None:
        with self._lock:
            here = self._cache.position
            if checked_integer("position", position, 0, here, "a session can only be rewound") != here:
                self._cache.rewind(position)

    def generate(
        self,
        prompt: Prompt,
        *,
        attention_mask: Tensor | None = None,
        max_new_tokens: int | None = None,
        processor: P | None = None,
        seed: int | None = None,
        num_samples: int = 1,
        num_beams: int = 1,
        length_penalty: float = 1.0,
        log_probs: bool = False,
        record_kept: bool = False,
        **others: Any,
    ) -> Generated:
        """Continue one prompt or several.

        Args:
            prompt: A text, a list of token ids, a tensor or array of them [P] or [B, P], the output of a tokenizer, or a chat:
                a list of `{"role": ..., "content": ...}`, to which the tokenizer's chat template is applied. Or a list of
                texts, of lists of token ids, or of chats. In mlx-vlm, a chat may have images, `{"type": "image", "image": ...}`,
                and a prompt may be the output of a processor. Several prompts run one after another (in vLLM together), and each
                finds its cached prefix by its tokens, so their order does not matter; see `continuous` for rows that run
                together.
            attention_mask: 1 for a token and 0 for padding, in the shape of the token ids. None: the mask of the prompt, or no
                padding. A row that contains only padding has ended, and gets no tokens; vLLM refuses it.
            max_new_tokens: The maximum number of new tokens per row; a row ends earlier at EOS. None: up to `max_length`.
            processor: The processor for the logits (in vLLM, it may be a configuration). Its history is the whole prompt,
                whether or not that was cached. None: the session's processor.
            seed: Sample each token by its probability, with this seed and the row's index as random stream; None: greedy. To
                sample with temperature 0.7, include `logitkit.Temperature(0.7)` in the processor.
            num_samples: The number of rows per prompt, each with its own random stream. If it is above 1 and there is no seed,
                the seed comes from torch's random numbers. Each sample after the first finds the prompt in the cache.
            num_beams: The number of beams per prompt, best first, the same as `continuous` finds; vLLM refuses it. The prompt
                is fed once for all beams, without the session's cache.
            length_penalty: Beams are compared by their weight divided by this power of their length.
            log_probs: Whether to return the log-probabilities of the new tokens.
            record_kept: Whether to return the tokens that the processor kept at each step, for `logitkit.training.replay`; not
                for beams. vLLM refuses it.
            **others: None are allowed; the error names the processor or argument to use instead.

        Returns:
            One row per prompt and sample or beam. In vLLM, `positions_fed` and `forward_passes` are computed from the cached
            tokens that it reports, as if a prompt took one pass; those of beams, from the beams that are returned.

        Raises:
            ConfigurationError: A prompt has another type or no tokens, a prompt and its new tokens exceed `max_length`, or
                another argument is not allowed. Nothing has been fed to the model then.
            Exception: Any exception of the processor or the engine. The session remains usable and keeps its cache, if
                the engine does.
        """
        options = {"num_samples": num_samples, "num_beams": num_beams, "length_penalty": length_penalty, **others}
        options |= {"seed": seed, "log_probs": log_probs, "record_kept": record_kept}
        return self.run(self.prepare(prompt, attention_mask, max_new_tokens, processor, **options))

    def run(self, call: SessionCall) -> Generated:
        """Return the result of a call."""
        with self._lock:
            self._check_open()
            return Generated(tuple(self._rows(call)))

    def stream(self, prompt: Prompt, **options: Any) -> GenerationStream:
        """Continue one prompt, and return its text in pieces as they are generated.

        The pieces join to the `text` of the result. A piece contains no incomplete character, no stop, and nothing that may be
        the beginning of one. Between two pieces, other calls of sessions and generators may use the model; in vLLM, they wait
        for the end of the stream, since its engine runs all requests together. Other code must not use a `Llama` meanwhile.

        Args:
            prompt: One prompt, as in `generate`.
            **options: `attention_mask`, `max_new_tokens`, `processor`, `seed`, `log_probs` and `record_kept`, as in `generate`.

        Returns:
            An iterator of pieces, whose `generated` is the result after the last piece. Generation starts with the first piece;
            `close`, or the end of a `with` block, ends it early.

        Raises:
            ConfigurationError: There are several prompts, there is no tokenizer, or an argument is not allowed.
        """
        refuse_sampling_options(options, [name for name in OPTIONS if name not in FOR_SEVERAL])
        return GenerationStream(self.pieces(self.prepare(prompt, **options)))

    def pieces(self, call: SessionCall) -> Generator[str, None, Generated]:
        """Return a generator of the pieces of text of the only row of a call, which returns the result.

        Raises:
            ConfigurationError: There are several rows, or there is no tokenizer.
        """
        if len(call.rows) != 1:
            raise ConfigurationError(
                f"{len(call.rows)} prompts, samples or beams are given to stream, which returns the text of one; use generate"
            )
        if self._tokenizer()[0] is None:
            raise ConfigurationError(
                "the session has no tokenizer, so it cannot stream text; give it one, or use generate"
            )
        return self._pieces(call)

    def _check_open(self) -> None:
        if self._closed:
            raise ConfigurationError("the session is closed; create another")

    def prepare(
        self,
        prompt: Prompt,
        attention_mask: Tensor | None = None,
        max_new_tokens: int | None = None,
        processor: P | None = None,
        **options: Any,
    ) -> SessionCall:
        """Return the checked arguments of a call; see `generate`."""
        refuse_sampling_options(options, OPTIONS)
        used = self._checked(self.processor if processor is None else processor)
        prompts = self._prompts(prompt, attention_mask)
        with self._lock:
            self._check_open()
            counts = [self._new_tokens(tokens, max_new_tokens) for tokens in prompts]
        return SessionCall(processor=used, prompts=prompts, counts=counts, **options)

    def _new_tokens(self, prompt: list[int], asked: int | None) -> int:
        """Return the maximum number of tokens to add to a prompt."""
        limit = self.max_length
        if asked is None:
            if limit is None:
                raise ConfigurationError("max_new_tokens is None, and so is max_length; give one of them")
            asked = max(1, limit - len(prompt))
        count = checked_integer("max_new_tokens", asked, 1, MOST)
        if limit is not None and len(prompt) + count > limit:
            there = self._cache.shared(prompt)
            rest = len(prompt) - there
            raise ConfigurationError(
                f"a prefix of {there} {self._cache.name} and an addition of {rest + count}, {rest} of the prompt and {count} new "
                f"ones, are {len(prompt) + count} tokens: more than max_length={limit}; drop the head of the prompt, or ask for "
                "fewer new tokens"
            )
        return count

    def _prompts(self, prompt: Prompt, attention_mask: Any) -> list[list[int]]:
        """Return the tokens of each prompt."""
        tokenizer, encode = self._tokenizer()
        return read_prompts(prompt, encode, tokenizer, attention_mask)

    @abstractmethod
    def _checked(self, processor: P | None) -> Any:
        """Return what `_rows` needs of a processor, or raise `ConfigurationError`."""

    @abstractmethod
    def _tokenizer(self) -> tuple[Any, Callable[[str], Sequence[int]] | None]:
        """Return the tokenizer, or None, and the function that encodes prompts, or None."""

    @abstractmethod
    def _rows(self, call: SessionCall) -> Iterable[GeneratedRow]:
        """Generate the rows of a call."""

    @abstractmethod
    def _pieces(self, call: SessionCall) -> Generator[str, None, Generated]:
        """Generate the only row of a call, yield its text in pieces, and return it."""
