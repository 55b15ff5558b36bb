"""Processors in transformers' continuous batching, which takes no `logits_processor` argument.

There, a background thread schedules requests one by one, and an ordinary processor sees only the logits and the last token of
each row. So states are computed from each request's own record of its prompt and output, which transformers shows to processors
of a special class before each forward pass. That record is complete only in synchronous batching.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from torch import Tensor

from logitkit.composition.engine_logits import EngineLogits
from logitkit.composition.engine_vocabulary import check_ends
from logitkit.errors import ConfigurationError
from logitkit.protocol.processor import Processor, check_is_processor
from logitkit.tracking import Request, RequestTracker
from logitkit_adapters.hooks.model_tokens import ends_of
from logitkit_adapters.transformers.engine_bans import warn_of_settings

__all__ = ["continuous_batching"]

# The methods of a model that are replaced: every kind of continuous batching creates its manager by the first, and a manager gets
# its processors from the second.
METHOD = "init_continuous_batching"
PROCESSORS = "_get_logits_processor"

# Settings of ContinuousBatchingConfig with which processors would run before the tokens are known, or not at all.
COMPILED = ("varlen_compile_config", "decode_compile_config", "default_compile_level")
REFUSED = ("use_async_batching", "use_cuda_graph", *COMPILED)


@contextmanager
def continuous_batching(model: Any, processor: Processor[Any]) -> Iterator[None]:
    r"""Apply a processor to everything that a model generates by continuous batching inside the `with` block.

    Inside, `model.generate_batch`, `model.continuous_batching_context_manager`, `model.init_continuous_batching` and
    `model.generate(cache_implementation="paged")` use the processor, after transformers' own processors and before temperature,
    top-k and top-p. The state of each request depends only on its own tokens, so chunked prefill, evicted requests and
    `num_return_sequences` do not change it. Asynchronous batching, CUDA graphs and compiled steps run processors before the
    tokens are known, or not at all. They are switched off by default, and refused if you ask for them.

    Args:
        model: A transformers model.
        processor: Any processor.

    Yields:
        Nothing.

    Raises:
        ConfigurationError: The model is a wrapper, is already inside such a block, or still has a manager of earlier continuous
            batching, which would ignore the processor; the configuration asks for a refused mode; or this version of transformers
            cannot run a processor per request.
        Exception: Any error of the processor, at the end of the block, because transformers catches it, fails the requests and
            returns.

    Example:
        >>> import re
        >>> import logitkit as lk
        >>> from transformers import AutoModelForCausalLM, AutoTokenizer, ContinuousBatchingConfig
        >>> from logitkit_adapters.demo import model_dir
        >>> from logitkit_adapters.transformers import continuous_batching, vocabulary
        >>> model = AutoModelForCausalLM.from_pretrained(model_dir())
        >>> tokenizer = AutoTokenizer.from_pretrained(model_dir())
        >>> date = lk.Regex(r" [0-9]{4}-[0-9]{2}-[0-9]{2}", vocabulary(tokenizer))
        >>> config = ContinuousBatchingConfig(num_blocks=8, max_batch_tokens=64)
        >>> prompt = tokenizer("The price of").input_ids
        >>> with continuous_batching(model, date):
        ...     done = model.generate_batch([prompt], continuous_batching_config=config, max_new_tokens=20)
        >>> text = tokenizer.decode(done["req_0"].generated_tokens, skip_special_tokens=True)
        >>> bool(re.fullmatch(r" [0-9]{4}-[0-9]{2}-[0-9]{2}", text))
        True
    """
    _check_model(model)
    check_ends(processor, ends_of(model))
    check_is_processor(processor)
    warn_of_settings(processor, model)
    hook = _Hook(processor, ends_of(model))
    setattr(model, METHOD, _manager_with(hook, getattr(model, METHOD)))
    try:
        yield
    finally:
        delattr(model, METHOD)
        # A manager that was asked to persist would go on to apply the processor.
        model.destroy_cached_continuous_batching_manager()
    if hook.error is not None:
        raise hook.error
    hook.process.raise_broken()


def _check_model(model: Any) -> None:
    if not isinstance(model, transformers.PreTrainedModel) or not hasattr(model, METHOD):
        raise ConfigurationError(
            f"model is a {type(model).__name__}; give a transformers model that supports continuous batching, or the model "
            "inside a wrapper"
        )
    if METHOD in vars(model):
        raise ConfigurationError(
            "the model is already in a continuous_batching block; use logitkit.chain for several processors"
        )
    if getattr(model, "_cached_continuous_batching_manager", None) is not None:
        raise ConfigurationError(
            "the model keeps a manager of earlier continuous batching, which would continue without the "
            "processor; call model.destroy_cached_continuous_batching_manager() first"
        )


def _manager_with(hook: _Hook, make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement of `model.init_continuous_batching`, whose managers apply the hook."""

    def init_continuous_batching(
        generation_config: Any = None, continuous_batching_config: Any = None, **others: Any
    ) -> Any:
        model = make.__self__  # type: ignore[attr-defined]
        _register()
        if continuous_batching_config is None:
            generation = model.generation_config if generation_config is None else generation_config
            continuous_batching_config = getattr(generation, "continuous_batching_config", None)
        config = _synchronous(continuous_batching_config)
        own = getattr(model, PROCESSORS)
        ours = transformers.LogitsProcessorList([hook])
        setattr(model, PROCESSORS, lambda generation: own(generation, logits_processor=ours))
        try:
            manager = make(generation_config=generation_config, continuous_batching_config=config, **others)
        finally:
            delattr(model, PROCESSORS)
        # A model's own configuration may ask for compiled steps too.
        _check_modes(manager.continuous_batching_config)
        return manager

    return init_continuous_batching


def _synchronous(config: Any) -> Any:
    """Return a configuration with which processors know every token, or raise `ConfigurationError`."""
    config = transformers.ContinuousBatchingConfig() if config is None else copy.copy(config)
    _check_modes(config)
    config.use_async_batching = False
    config.use_cuda_graph = False
    config.per_request_processors = True
    return config


def _check_modes(config: Any) -> None:
    values = {name: getattr(config, name, None) for name in REFUSED}
    # CUDA graphs are one boolean, or one for prefill and one for decoding.
    asked = [name for name, value in values.items() if (any(value) if isinstance(value, tuple) else value)]
    if asked:
        raise ConfigurationError(
            f"{' and '.join(asked)} of ContinuousBatchingConfig cannot be used with a processor, which would run before the "
            "tokens are known, or not at all; leave it out"
        )


def _register() -> None:
    """Register `_PerRequest` as the class that transformers makes of a `_Hook`: it refuses classes that it does not know."""
    try:
        from transformers.generation.continuous_batching import cb_logits_processors as known

        known.CLASSIC_TO_CB_PROCESSORS_MAP[_Hook] = _PerRequest  # type: ignore[assignment]
        known.ContinuousBatchingLogitsProcessor.register(_PerRequest)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"transformers {transformers.__version__} has no processors per request, which constraints need in continuous "
            "batching; upgrade it, or use "
            'model.generate(cache_implementation="dynamic")'
        ) from error


class _Hook(transformers.LogitsProcessor):
    """Stands for the processor until a manager makes its own `_PerRequest` from it."""

    def __init__(self, processor: Processor[Any], eos_ids: Sequence[int]) -> None:
        self.processor, self.eos_ids = processor, eos_ids
        self.process = EngineLogits(processor)
        self.error: Exception | None = None

    @property
    def supports_continuous_batching(self) -> bool:  # type: ignore[override]
        """Raise: transformers asks this only if it has made no `_PerRequest` from the hook, and would leave it out."""
        raise ConfigurationError(
            f"transformers {transformers.__version__} does not use the processor in continuous batching; "
            'use model.generate(cache_implementation="dynamic")'
        )


class _PerRequest:
    """The processor of one manager, called in its thread: first with the requests, then with their logits."""

    supported_kwargs: dict[str, type] = {}  # noqa: RUF012 - transformers reads it like this
    ignored_kwargs: tuple[str, ...] = ()

    def __init__(self, hook: _Hook) -> None:
        self._hook = hook
        self._tracker: RequestTracker[Any] = RequestTracker(hook.processor)
        self._requests: list[Request] = []

    def fill_defaults(self, int32_tensor: Tensor) -> None:
        """Write no argument: a request needs more than the single number that there is room for."""
        int32_tensor.zero_()

    def prepare_tensor_args(self, requests_with_new_token: list[Any]) -> Tensor:
        """Remember the requests that the next logits belong to, in their order."""
        with self._errors_kept():
            self._requests = [_request(future.state) for future in requests_with_new_token]
        return torch.empty(0, dtype=torch.int32)

    def __call__(self, scores: Tensor, tensor_arg: Tensor) -> Tensor:
        """Process the scores, [N, V], whose first rows belong to the requests; the others are unused."""
        rows = len(self._requests)
        if rows == 0:
            return scores
        with self._errors_kept():
            # On a device, broken scores of the last call are noticed only now.
            self._hook.process.raise_broken()
            state, context = self._tracker.resolve(self._requests, scores.shape[1], scores.device)
            processed = self._hook.process(state, scores[:rows], context, self._hook.eos_ids)
        # The scores were created for this call; nothing else reads them.
        return processed if rows == len(scores) else torch.cat([processed, scores[rows:]])

    @contextmanager
    def _errors_kept(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._hook.error = self._hook.error or error
            raise


def _request(state: Any) -> Request:
    """Return the tokens of a request, from its record in transformers."""
    tokens = [*state.initial_tokens, *state.generated_tokens]
    if state.position_offset != len(tokens):
        raise ConfigurationError(
            f"request {state.request_id} has {state.position_offset} tokens in its cache, but only "
            f"{len(tokens)} are known: processors need synchronous batching (use_async_batching=False)"
        )
    # An evicted request comes back with its output so far appended to its prompt.
    prompt = state._true_initial_tokens or len(state.initial_tokens)  # noqa: SLF001 - there is no public attribute
    # The remaining number of new tokens counts from that point.
    most = None if state.max_new_tokens is None else len(state.initial_tokens) + state.max_new_tokens
    return Request(state.request_id, tokens[:prompt], tokens[prompt:], most)
