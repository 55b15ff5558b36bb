"""Sessions in vLLM, which has its own prefix cache: each call sends the whole prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

from torch import Tensor

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.parameters.integers import checked_integer
from logitkit.protocol.processor import Processor
from logitkit_adapters.sessions.generated import Generated, GeneratedRow
from logitkit_adapters.sessions.prompts import Prompt, read_prompts
from logitkit_adapters.sessions.session_arguments import (
    check_open,
    checked_new_tokens,
    checked_position,
    checked_processor,
    checked_seed,
)
from logitkit_adapters.sessions.shared_model import shared_by
from logitkit_adapters.vllm.parameters import KEY

__all__ = ["Session"]


class Session:
    r"""Independent calls of `generate`; vLLM finds what they share in its own prefix cache.

    Use it like the `Session` of the other engines. vLLM caches whole blocks of tokens (`block_size`) of all callers, and evicts
    them as it needs to; `enable_prefix_caching=False` turns that off. A row's `cached_tokens` are those that vLLM reports.
    Several threads may use it: a call waits for the one before, in any session of the same `LLM`.

    Args:
        llm: vLLM's `LLM`.
        tokenizer: Not used, because the engine has its own.
        processor: The processor for the logits of every call that is not given another: a processor, or its configuration.
        max_length: The maximum number of tokens of a prompt and its output; None: the engine's limit (`max_model_len`).
        max_cached_tokens: None, because the engine limits its cache.
        rolling: False, because vLLM cannot shift positions.
        make_cache: None, because vLLM creates its cache itself.

    Raises:
        ConfigurationError: An argument is not allowed, or the processor has no configuration.

    Example:
        >>> llm = LLM(model, logits_processors=["logitkit_adapters.vllm:LogitsProcessor"])  # doctest: +SKIP
        >>> with Session(llm) as session:  # doctest: +SKIP
        ...     said = session.generate(conversation, max_new_tokens=60).text
        ...     row = session.generate(conversation + said + question, max_new_tokens=60).rows[0]
        >>> row.cached_tokens, row.positions_fed  # doctest: +SKIP
        (512, 103)
    """

    def __init__(
        self,
        llm: Any,
        tokenizer: Any = None,
        processor: Processor[Any] | Mapping[str, Any] | str | None = None,
        *,
        max_length: int | None = None,
        max_cached_tokens: int | None = None,
        rolling: bool = False,
        make_cache: Callable[[], Any] | None = None,
    ) -> None:
        _check_own_cache(max_cached_tokens, rolling, make_cache)
        self._llm = llm
        self._lock = shared_by(llm).lock
        self._config = llm.llm_engine.vllm_config
        self.processor = processor
        self._ours = _extra_args(processor)
        longest = int(self._config.model_config.max_model_len)
        self.max_length = longest if max_length is None else checked_integer("max_length", max_length, 1, longest)
        # The prompt and output of each row of the last call.
        self._rows: list[list[int]] = []
        self._cached_tokens = 0
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the session, which can no longer generate; the engine keeps its cache."""
        with self._lock:
            self._forget()
            self._closed = True

    @property
    def cached_tokens(self) -> int:
        """The tokens of the last call's prompts that vLLM found in its cache; it does not report the size of the cache."""
        return self._cached_tokens

    @property
    def position(self) -> int:
        """The number of computed tokens of the last generated sequence: all but its last token.

        Set it to a lower number to drop the later ones. vLLM's cache cannot be cut, so all are dropped, also those of other
        callers.

        Raises:
            ConfigurationError: It is set to a higher number, or while the engine runs requests of other callers.
        """
        return len(self._rows[-1]) - 1 if self._rows else 0

    @position.setter
    def position(self, position: int) -> None:
        with self._lock:
            here = self.position
            if checked_position(position, here) == here:
                return
            if not self._llm.reset_prefix_cache():
                raise ConfigurationError(
                    f"position cannot be set to {position} while the engine runs requests, because they use its cache; set it "
                    "when they are done"
                )
            self._forget()

    def generate(
        self,
        prompt: Prompt,
        *,
        attention_mask: Tensor | None = None,
        max_new_tokens: int | None = None,
        processor: Processor[Any] | Mapping[str, Any] | str | None = None,
        seed: int | None = None,
    ) -> Generated:
        """Continue one prompt or several.

        Args:
            prompt: A text, a list of token ids, a tensor or array of them [P] or [B, P], what a tokenizer returns for texts, or a
                chat: a list of `{"role": ..., "content": ...}`, to which the tokenizer's chat template is applied. Or a list of
                texts, of lists of token ids, or of chats.
            attention_mask: 1 for a token and 0 for padding, in the shape of the token ids. None: the mask of the prompt, or no
                padding.
            max_new_tokens: The maximum number of new tokens of each row, which EOS ends earlier. None: up to `max_length`.
            processor: The processor for the logits, or its configuration; its history is the whole prompt, cached or not. None:
                the session's processor.
            seed: Sample from the probabilities, with this seed and the row's number. None: greedy decoding. To sample with a
                temperature of 0.7, put `logitkit.Temperature(0.7)` into the processor.

        Returns:
            A row for each prompt. Its `positions_fed` and `forward_passes` are computed from the cached tokens that vLLM reports,
            as if a prompt took one pass.

        Raises:
            ConfigurationError: A prompt is something else or has no tokens, a prompt and its new tokens exceed `max_length`, or
                another argument is not allowed. Nothing has been sent then.
            Exception: Any error of vLLM, such as VLLMValidationError. The session remains usable if the engine does.
        """
        seed = checked_seed(seed)
        ours = self._ours if processor is None else _extra_args(processor)
        tokenizer = self._llm.get_tokenizer()
        prompts = read_prompts(prompt, None if tokenizer is None else tokenizer.encode, tokenizer, attention_mask)
        with self._lock:
            check_open(self._closed)
            counts = [checked_new_tokens(tokens, max_new_tokens, self.max_length, self._shared) for tokens in prompts]
            if seed is not None:
                self._check_seeds(prompts)
            outputs = self._run(prompts, counts, ours, seed)
            rows = tuple(_row(tokens, output) for tokens, output in zip(prompts, outputs, strict=True))
            self._rows = [[*tokens, *row.token_ids] for tokens, row in zip(prompts, rows, strict=True)]
            found = Generated(rows)
            self._cached_tokens = found.cached_tokens
            return found

    def _forget(self) -> None:
        self._rows, self._cached_tokens = [], 0

    def _run(
        self, prompts: list[list[int]], counts: list[int], ours: dict[str, Any] | None, seed: int | None
    ) -> list[Any]:
        from vllm import SamplingParams

        params = [
            SamplingParams(
                max_tokens=count,
                temperature=0.0 if seed is None else 1.0,
                seed=None if seed is None else (seed + row) % 2**63,
                extra_args=ours,
            )
            for row, count in enumerate(counts)
        ]
        engine = self._llm.llm_engine
        others = set(engine.output_processor.request_states)
        given = [{"prompt_token_ids": tokens} for tokens in prompts]
        # One by one if each must fit into a step: see `_check_seeds`.
        size = 1 if seed is not None and self._is_cpu() else len(prompts)
        groups = [slice(start, start + size) for start in range(0, len(prompts), size)]
        try:
            return [o for group in groups for o in self._llm.generate(given[group], params[group], use_tqdm=False)]
        except BaseException:
            # Otherwise they would go on, and appear among the outputs of the next call.
            engine.abort_request(
                [one for one in engine.output_processor.request_states if one not in others], internal=True
            )
            raise

    def _shared(self, prompt: list[int]) -> tuple[int, str]:
        shared = max((lk.plan_reuse(row[:-1], prompt).length for row in self._rows), default=0)
        return shared, "tokens of the last call"

    def _is_cpu(self) -> bool:
        return str(self._config.device_config.device_type) == "cpu"

    def _check_seeds(self, prompts: list[list[int]]) -> None:
        """Refuse prompts at which vLLM would crash: on a CPU it cannot prefill a prompt with a seed in chunks."""
        most = self._config.scheduler_config.max_num_batched_tokens
        longest = max(map(len, prompts))
        if self._is_cpu() and longest > most:
            raise ConfigurationError(
                f"a prompt has {longest} tokens, but on a CPU vLLM takes a seed only with prompts that fit into one step, here "
                f"{most} tokens; create it with LLM(..., max_num_batched_tokens={longest}), or leave the seed out"
            )


def _check_own_cache(max_cached_tokens: object, rolling: object, make_cache: object) -> None:
    """Refuse arguments that vLLM decides itself."""
    if max_cached_tokens is not None:
        raise ConfigurationError(
            f"max_cached_tokens is {max_cached_tokens!r}, but vLLM bounds its cache by itself; give LLM(..., "
            "num_gpu_blocks_override=...), or leave max_cached_tokens out"
        )
    if rolling:
        raise ConfigurationError(
            "rolling=True is not possible: vLLM's cached blocks depend on their whole prefix, so they cannot be "
            "shifted; leave rolling=False"
        )
    if make_cache is not None:
        raise ConfigurationError(
            "make_cache is given, but vLLM makes its cache by itself; give LLM(..., kv_cache_dtype=...)"
        )


def _extra_args(processor: Processor[Any] | Mapping[str, Any] | str | None) -> dict[str, Any] | None:
    if processor is None:
        return None
    if isinstance(processor, Mapping | str):
        return {KEY: processor}
    checked_processor(processor, 'or its configuration, such as {"regex": "[0-9]+"}')
    return {KEY: lk.to_config(processor)}


def _row(prompt: list[int], output: Any) -> GeneratedRow:
    (sample,) = output.outputs
    tokens, cached = list(sample.token_ids), output.num_cached_tokens or 0
    return GeneratedRow(
        token_ids=tokens,
        text=sample.text,
        reuse=lk.Reuse(0, cached, prompt[cached:]),
        prompt_tokens=len(prompt),
        positions_fed=len(prompt) - cached + len(tokens) - 1,
        forward_passes=len(tokens),
    )
