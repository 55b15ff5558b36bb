"""Sessions in vLLM, which has its own prefix cache: each call sends the whole prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.protocol.processor import Processor, check_is_processor
from logitkit_adapters.sessions.base_session import BaseSession
from logitkit_adapters.sessions.generated import GeneratedRow
from logitkit_adapters.sessions.shared_model import shared_by
from logitkit_adapters.vllm.parameters import KEY

__all__ = ["Session"]


class Session(BaseSession[Processor[Any] | Mapping[str, Any] | str]):
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
        self._config = llm.llm_engine.vllm_config
        longest = int(self._config.model_config.max_model_len)
        super().__init__(shared_by(llm).lock, processor, max_length, longest)
        # The prompt and output of each row of the last call.
        self._last: list[list[int]] = []
        self._cached_tokens = 0

    @property
    def cached_tokens(self) -> int:
        """The tokens of the last call's prompts that vLLM found in its cache; it does not report the size of the cache."""
        return self._cached_tokens

    def _checked(self, processor: Processor[Any] | Mapping[str, Any] | str | None) -> dict[str, Any] | None:
        """Return the extra arguments of requests."""
        if processor is None:
            return None
        if isinstance(processor, Mapping | str):
            return {KEY: processor}
        check_is_processor(processor, note='or its configuration, such as {"regex": "[0-9]+"}')
        return {KEY: lk.to_config(processor)}

    def _tokenizer(self) -> tuple[Any, Callable[[str], list[int]] | None]:
        tokenizer = self._llm.get_tokenizer()
        return tokenizer, None if tokenizer is None else tokenizer.encode

    def _shared(self, prompt: list[int]) -> tuple[int, str]:
        shared = max((lk.plan_reuse(row[:-1], prompt).length for row in self._last), default=0)
        return shared, "tokens of the last call"

    def _position(self) -> int:
        return len(self._last[-1]) - 1 if self._last else 0

    def _rewind(self, position: int) -> None:
        # vLLM's cache cannot be cut, so all tokens are dropped, also those of other callers.
        if not self._llm.reset_prefix_cache():
            raise ConfigurationError(
                f"position cannot be set to {position} while the engine runs requests, because they use its cache; set it "
                "when they are done"
            )
        self._forget()

    def _forget(self) -> None:
        self._last, self._cached_tokens = [], 0

    def _rows(
        self, prompts: list[list[int]], counts: list[int], used: dict[str, Any] | None, seed: int | None
    ) -> list[GeneratedRow]:
        outputs = self._run(prompts, counts, used, seed)
        rows = [_row(tokens, output) for tokens, output in zip(prompts, outputs, strict=True)]
        self._last = [[*tokens, *row.token_ids] for tokens, row in zip(prompts, rows, strict=True)]
        self._cached_tokens = sum(row.cached_tokens for row in rows)
        return rows

    def _run(
        self, prompts: list[list[int]], counts: list[int], used: dict[str, Any] | None, seed: int | None
    ) -> list[Any]:
        from vllm import SamplingParams

        params = [
            SamplingParams(
                max_tokens=count,
                temperature=0.0 if seed is None else 1.0,
                seed=None if seed is None else (seed + row) % 2**63,
                extra_args=used,
            )
            for row, count in enumerate(counts)
        ]
        engine = self._llm.llm_engine
        others = set(engine.output_processor.request_states)
        given = [{"prompt_token_ids": tokens} for tokens in prompts]
        groups = [slice(None)]
        if seed is not None and str(self._config.device_config.device_type) == "cpu":
            # One by one, because each must fit into a step.
            self._check_fits_step(max(map(len, prompts)))
            groups = [slice(row, row + 1) for row in range(len(prompts))]
        try:
            return [o for group in groups for o in self._llm.generate(given[group], params[group], use_tqdm=False)]
        except BaseException:
            # Otherwise they would go on, and appear among the outputs of the next call.
            engine.abort_request(
                [one for one in engine.output_processor.request_states if one not in others], internal=True
            )
            raise

    def _check_fits_step(self, longest: int) -> None:
        """Refuse prompts at which vLLM would crash: on a CPU it cannot prefill a prompt with a seed in chunks."""
        most = self._config.scheduler_config.max_num_batched_tokens
        if longest > most:
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
