"""The interface of sessions in all engines, and the checks of their arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, Self, TypeVar

from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.parameters.integers import checked_integer
from logitkit_adapters.sessions.generated import Generated, GeneratedRow
from logitkit_adapters.sessions.prompts import Prompt, read_prompts

__all__ = ["MOST", "BaseSession"]

MOST = 2**31 - 1

# The type of processors that a session takes.
P = TypeVar("P")


class BaseSession(ABC, Generic[P]):
    """The interface of the sessions of all engines.

    Args:
        lock: Held while the session is used.
        processor: The processor of every call that is not given another, or None.
        max_length: The maximum number of tokens of a prompt and its output, or None for the engine's.
        longest: The engine's own maximum, or None if it is unlimited.
    """

    def __init__(
        self, lock: AbstractContextManager[Any], processor: P | None, max_length: int | None, longest: int | None
    ) -> None:
        self._lock = lock
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
            self._forget()
            self._closed = True

    @property
    def position(self) -> int:
        """The number of computed tokens of the last generated sequence: all but its last token.

        Set it to a lower number to drop the tokens after it; if the cache cannot be cut, all are dropped. vLLM's cannot: there,
        the cached tokens of other callers are dropped too.

        Raises:
            ConfigurationError: It is set to a higher number; or in vLLM, while the engine runs requests of other callers.
        """
        return self._position()

    @position.setter
    def position(self, position: int) -> None:
        with self._lock:
            here = self._position()
            if checked_integer("position", position, 0, here, "a session can only be rewound") != here:
                self._rewind(position)

    def generate(
        self,
        prompt: Prompt,
        *,
        attention_mask: Tensor | None = None,
        max_new_tokens: int | None = None,
        processor: P | None = None,
        seed: int | None = None,
    ) -> Generated:
        """Continue one prompt or several.

        Args:
            prompt: A text, a list of token ids, a tensor or array of them [P] or [B, P], the output of a tokenizer, or a chat:
                a list of `{"role": ..., "content": ...}`, to which the tokenizer's chat template is applied. Or a list of
                texts, of lists of token ids, or of chats. Several prompts run one after another (in vLLM together), and each
                finds its cached prefix by its tokens, so their order does not matter; see `continuous` for rows that run
                together.
            attention_mask: 1 for a token and 0 for padding, in the shape of the token ids. None: the mask of the prompt, or no
                padding. A row that contains only padding has ended, and gets no tokens; vLLM refuses it.
            max_new_tokens: The maximum number of new tokens per row; a row ends earlier at EOS. None: up to `max_length`.
            processor: The processor for the logits (in vLLM, it may be a configuration). Its history is the whole prompt,
                whether or not that was cached. None: the session's processor.
            seed: Sample each token by its probability, with this seed and the row's index as random stream; None: greedy. To
                sample with temperature 0.7, include `logitkit.Temperature(0.7)` in the processor.

        Returns:
            One row per prompt. In vLLM, `positions_fed` and `forward_passes` are computed from the cached tokens that it
            reports, as if a prompt took one pass.

        Raises:
            ConfigurationError: A prompt has another type or no tokens, a prompt and its new tokens exceed `max_length`, or
                another argument is not allowed. Nothing has been fed to the model then.
            Exception: Any exception of the processor or the engine. The session remains usable and keeps its cache, if
                the engine does.
        """
        used = self._checked(self.processor if processor is None else processor)
        if seed is not None:
            seed = checked_integer("seed", seed, 0, 2**63 - 1)
        tokenizer, encode = self._tokenizer()
        prompts = read_prompts(prompt, encode, tokenizer, attention_mask)
        with self._lock:
            if self._closed:
                raise ConfigurationError("the session is closed; create another")
            counts = [self._new_tokens(tokens, max_new_tokens) for tokens in prompts]
            return Generated(tuple(self._rows(prompts, counts, used, seed)))

    def _new_tokens(self, prompt: list[int], asked: int | None) -> int:
        """Return the maximum number of tokens to add to a prompt."""
        limit = self.max_length
        if asked is None:
            if limit is None:
                raise ConfigurationError("max_new_tokens is None, and so is max_length; give one of them")
            asked = max(1, limit - len(prompt))
        count = checked_integer("max_new_tokens", asked, 1, MOST)
        if limit is not None and len(prompt) + count > limit:
            there, what = self._shared(prompt)
            rest = len(prompt) - there
            raise ConfigurationError(
                f"a prefix of {there} {what} and an addition of {rest + count}, {rest} of the prompt and {count} new ones, are "
                f"{len(prompt) + count} tokens: more than max_length={limit}; drop the head of the prompt, or ask for fewer new "
                "tokens"
            )
        return count

    @abstractmethod
    def _checked(self, processor: P | None) -> Any:
        """Return what `_rows` needs of a processor, or raise `ConfigurationError`."""

    @abstractmethod
    def _tokenizer(self) -> tuple[Any, Callable[[str], Sequence[int]] | None]:
        """Return the tokenizer, or None, and the function that encodes prompts, or None."""

    @abstractmethod
    def _shared(self, prompt: list[int]) -> tuple[int, str]:
        """Return how many tokens of a prompt already exist, and a description of them."""

    @abstractmethod
    def _rows(self, prompts: list[list[int]], counts: list[int], used: Any, seed: int | None) -> Iterable[GeneratedRow]:
        """Generate up to `counts` tokens after each prompt."""

    @abstractmethod
    def _position(self) -> int:
        """See `position`."""

    @abstractmethod
    def _rewind(self, position: int) -> None:
        """Drop the tokens after a position below the current one."""

    @abstractmethod
    def _forget(self) -> None:
        """Release all caches."""
