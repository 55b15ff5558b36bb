"""Sessions in vLLM, which has its own prefix cache: each call sends the whole prompt."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from threading import get_ident
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import logitkit as lk
from logitkit.composition.engine_vocabulary import check_tokens_agree
from logitkit.errors import ConfigurationError
from logitkit.protocol.guidance import refuse_guidance
from logitkit.protocol.processor import Processor, check_is_processor
from logitkit_adapters.admission.asked import KEY
from logitkit_adapters.sessions.base_session import CREATION, BaseSession
from logitkit_adapters.sessions.end_of_row import end_of_row
from logitkit_adapters.sessions.generated import Generated, GeneratedRow
from logitkit_adapters.sessions.sampling_options import refuse_sampling_options
from logitkit_adapters.sessions.session_call import SessionCall
from logitkit_adapters.sessions.shared_model import shared_by
from logitkit_adapters.sessions.text_before_stop import TextBeforeStop
from logitkit_adapters.vllm.configurations import configurations_of
from logitkit_adapters.vllm.last_call import LastCall
from logitkit_adapters.vllm.parameters import asked

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
        **others: None are allowed; the error names the processor or argument to use instead.

    Raises:
        ConfigurationError: An argument is not allowed, or the processor has no configuration.
        VocabularyError: The processor was built for another tokenizer.

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
        **others: Any,
    ) -> None:
        refuse_sampling_options(others, CREATION)
        _check_own_cache(max_cached_tokens, rolling, make_cache)
        self._model = llm
        self._config = llm.llm_engine.vllm_config
        longest = int(self._config.model_config.max_model_len)
        self._engine = shared_by(llm)
        self._last = LastCall(llm)
        super().__init__(self._engine.lock, self._last, processor, max_length, longest)

    def _checked(self, processor: Processor[Any] | Mapping[str, Any] | str | None) -> dict[str, Any] | None:
        """Return the extra arguments of requests."""
        if processor is None:
            return None
        if isinstance(processor, Mapping | str):
            return {KEY: processor}
        check_is_processor(processor, note='or its configuration, such as {"regex": "[0-9]+"}')
        refuse_guidance(processor, "vLLM")
        check_tokens_agree(processor, configurations_of(self._config).vocabulary)
        return {KEY: lk.to_config(processor)}

    def _tokenizer(self) -> tuple[Any, Callable[[str], list[int]] | None]:
        tokenizer = self._model.get_tokenizer()
        return tokenizer, None if tokenizer is None else tokenizer.encode

    def _rows(self, call: SessionCall) -> list[GeneratedRow]:
        self._check(call)
        with self._engine.without_stream():
            outputs = self._run(call)
            rows = [self._row(call, *pair, output) for pair, output in zip(call.rows, outputs, strict=True)]
            self._last.remember([tokens for tokens, _ in call.rows], rows)
        return rows

    def _pieces(self, call: SessionCall) -> Generator[str, None, Generated]:
        engine, shared, fed = self._model.llm_engine, self._engine, 0
        ((tokens, count),) = call.rows
        self._check(call)
        shown = TextBeforeStop(None if call.whole_text else self._processor(call, count), tokens)
        with shared.without_stream():
            self._check_open()
            others = set(engine.output_processor.request_states)
            shared.stream_thread = get_ident()
        try:
            name = engine.add_request(f"logitkit-{uuid4()}", {"prompt_token_ids": tokens}, self._params(call)[0])
            output: Any = None
            while output is None or not output.finished:
                with self._lock:
                    self._check_open()
                    shared.stream_thread = get_ident()
                    # The engine may also run requests that the caller added to it.
                    found = [one for one in engine.step() if name.startswith(one.request_id)]
                for output in found:
                    (sample,) = output.outputs
                    if piece := shown.feed(list(sample.token_ids[fed:]), sample.text):
                        yield piece
                    fed = len(sample.token_ids)
        except BaseException:
            with self._lock:
                self._abort(others)
            raise
        finally:
            with self._lock:
                shared.stream_thread = None
                shared.stream_ended.notify_all()
        row = self._row(call, tokens, count, output)
        self._last.remember([tokens], [row])
        if rest := shown.rest(row.text):
            yield rest
        return Generated((row,))

    def _check(self, call: SessionCall) -> None:
        """Refuse what the engine cannot do."""
        config = self._config.model_config
        if call.num_beams > 1:
            raise ConfigurationError(
                f"num_beams is {call.num_beams}, but vLLM has no beam search inside of its engine; use "
                "logitkit_adapters.vllm.beam_search, which sends the beams of every step as requests"
            )
        if call.record_kept:
            raise ConfigurationError(
                "record_kept=True, but vLLM takes only logits from a processor, so it cannot return kept sets; see the limits of "
                "the page on training for a way with logprobs"
            )
        if call.log_probs and config.logprobs_mode != "processed_logprobs":
            raise ConfigurationError(
                f"log_probs=True, but the engine has logprobs_mode={config.logprobs_mode!r}, which ignores processors; create "
                'it with LLM(..., logprobs_mode="processed_logprobs")'
            )
        if call.seed is not None and self._is_on_cpu:
            self._check_fits_step(max(map(len, call.prompts)))

    @property
    def _is_on_cpu(self) -> bool:
        return str(self._config.device_config.device_type) == "cpu"

    def _params(self, call: SessionCall) -> list[Any]:
        from vllm import SamplingParams

        return [
            SamplingParams(
                max_tokens=count,
                temperature=0.0 if call.seed is None else 1.0,
                seed=None if call.seed is None else (call.seed + row) % 2**63,
                logprobs=0 if call.log_probs else None,
                extra_args=call.processor,
            )
            for row, (_, count) in enumerate(call.rows)
        ]

    def _run(self, call: SessionCall) -> list[Any]:
        params = self._params(call)
        others = set(self._model.llm_engine.output_processor.request_states)
        given = [{"prompt_token_ids": tokens} for tokens, _ in call.rows]
        groups = [slice(None)]
        if call.seed is not None and self._is_on_cpu:
            # One by one, because each must fit into a step.
            groups = [slice(row, row + 1) for row in range(len(given))]
        try:
            return [o for group in groups for o in self._model.generate(given[group], params[group], use_tqdm=False)]
        except BaseException:
            self._abort(others)
            raise

    def _abort(self, others: set[Any]) -> None:
        """Abort our requests; otherwise they would go on, and appear among the outputs of the next call."""
        engine = self._model.llm_engine
        engine.abort_request(
            [one for one in engine.output_processor.request_states if one not in others], internal=True
        )

    def _row(self, call: SessionCall, prompt: list[int], count: int, output: Any) -> GeneratedRow:
        (sample,) = output.outputs
        tokens, cached = list(sample.token_ids), output.num_cached_tokens or 0
        log_probs = None
        if call.log_probs:
            log_probs = [found[token].logprob for token, found in zip(tokens, sample.logprobs, strict=True)]
        processor, ends = self._processor(call, count), configurations_of(self._config).vocabulary.eos_ids
        text = sample.text if call.whole_text else TextBeforeStop(processor, prompt).before_stop(tokens, sample.text)
        return GeneratedRow(
            token_ids=tokens,
            text=text,
            reuse=lk.Reuse(0, cached, prompt[cached:]),
            prompt_tokens=len(prompt),
            positions_fed=len(prompt) - cached + len(tokens) - 1,
            forward_passes=len(tokens),
            finished=end_of_row(processor, prompt, tokens, count, ends, self._config.model_config.get_vocab_size()),
            log_probs=log_probs,
            log_prob=None if log_probs is None else sum(log_probs),
        )

    def _processor(self, call: SessionCall, count: int) -> Processor[Any] | None:
        """Return the processor of a call with a maximum number of new tokens."""
        what = asked(SimpleNamespace(extra_args=call.processor, max_tokens=count))
        return None if what is None else configurations_of(self._config).processor(what)

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
