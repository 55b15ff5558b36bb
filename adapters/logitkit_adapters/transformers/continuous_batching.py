"""Processors in transformers' continuous batching, which takes no `logits_processor` argument.

There, a background thread schedules requests one by one. Each manager that a model makes inside a `with` block gets the
processors of `request_processors`, which find the state of each request in a bank.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
import transformers

from logitkit.composition.engine_vocabulary import check_ends
from logitkit.errors import ConfigurationError
from logitkit.protocol.guidance import refuse_guidance
from logitkit.protocol.processor import Processor, check_is_processor, is_processor
from logitkit_adapters.hooks.model_tokens import ends_of
from logitkit_adapters.transformers.engine_bans import warn_of_settings
from logitkit_adapters.transformers.known_processors import CONTINUOUS

if TYPE_CHECKING:
    from logitkit_adapters.transformers.request_slots import RequestSlots

__all__ = ["continuous_batching"]

# The methods of a model that are replaced: every kind of continuous batching creates its manager by the first, and a manager gets
# its processors from the second.
METHOD = "init_continuous_batching"
PROCESSORS = "_get_logits_processor"

# Settings of ContinuousBatchingConfig with which torch would compile the steps again whenever the processors change.
COMPILED = ("varlen_compile_config", "decode_compile_config", "default_compile_level")

# Where transformers has asynchronous batching.
ASYNCHRONOUS = ("cuda", "xpu")

Given = Processor[Any] | Mapping[str, Processor[Any] | None] | Callable[[str], Processor[Any] | None]


@contextmanager
def continuous_batching(model: Any, processor: Given) -> Iterator[None]:
    r"""Apply processors to everything that a model generates by continuous batching inside the `with` block.

    Inside, `model.generate_batch`, `model.continuous_batching_context_manager`, `model.init_continuous_batching` and
    `model.generate(cache_implementation="paged")` use the processors, after transformers' own ones and before temperature, top-k
    and top-p. The state of each request depends only on its own tokens, so chunked prefill, evicted requests and
    `num_return_sequences` do not change it.

    Asynchronous batching and CUDA graphs are off unless the configuration turns them on. With both, broken logits end their row
    instead of raising an error, so that no step waits for the host. With graphs, a processor of yours must use tensor operations
    only, as for `torch.compile`. Compiled steps are refused, because torch would compile them again for new processors.

    Args:
        model: A transformers model.
        processor: A processor for all requests; or a mapping from the id of each request to its processor, or None for a request
            without one; or a function that returns the processor of a request by its id, and is called once for each request.
            `generate_batch` names its requests `req_0`, `req_1` and so on.

    Yields:
        Nothing.

    Raises:
        ConfigurationError: The model is a wrapper, is already inside such a block, or still has a manager of earlier continuous
            batching, which would ignore the processors; the configuration asks for a mode that is refused or not available; or
            this version of transformers cannot run a processor per request.
        Exception: Any error of a processor or of the function, or of a request that is not in the mapping, at the end of the
            block, because transformers catches it. A request whose processor cannot be found or started ends at once.

    Example:
        >>> import re
        >>> import logitkit as lk
        >>> from transformers import AutoModelForCausalLM, AutoTokenizer, ContinuousBatchingConfig
        >>> from logitkit_adapters.demo import model_dir
        >>> from logitkit_adapters.transformers import continuous_batching, vocabulary
        >>> model = AutoModelForCausalLM.from_pretrained(model_dir())
        >>> tokenizer = AutoTokenizer.from_pretrained(model_dir())
        >>> date = lk.Regex(r" [0-9]{4}-[0-9]{2}-[0-9]{2}", vocabulary(tokenizer))
        >>> code = lk.Regex(r" [A-Z]{3}", vocabulary(tokenizer))
        >>> config = ContinuousBatchingConfig(num_blocks=8, max_batch_tokens=64)
        >>> prompt = tokenizer("The price of").input_ids
        >>> with continuous_batching(model, {"req_0": date, "req_1": code}):
        ...     done = model.generate_batch([prompt, prompt], continuous_batching_config=config, max_new_tokens=20)
        >>> texts = [
        ...     tokenizer.decode(done[name].generated_tokens, skip_special_tokens=True) for name in ("req_0", "req_1")
        ... ]
        >>> bool(re.fullmatch(r" [0-9]{4}-[0-9]{2}-[0-9]{2}", texts[0])), bool(re.fullmatch(r" [A-Z]{3}", texts[1]))
        (True, True)
    """
    _check_model(model)
    block = _Block(_processor_of(processor, model))
    setattr(model, METHOD, _manager_with(block, getattr(model, METHOD)))
    try:
        yield
    finally:
        delattr(model, METHOD)
        # A manager that was asked to persist would go on to apply the processors.
        model.destroy_cached_continuous_batching_manager()
    block.raise_error()


def _processor_of(given: Any, model: Any) -> Callable[[str], Processor[Any] | None]:
    """Return a function from the id of a request to its processor; what is known now is checked."""
    # A hook can be called too, and a list of hooks of llama.cpp.
    is_hook = isinstance(given, list) or is_processor(getattr(given, "processor", None))
    if callable(given) and not is_hook and not is_processor(given) and not isinstance(given, type):
        found: Callable[[str], Processor[Any] | None] = given
        return found
    if isinstance(given, Mapping):
        known = dict(given)
        for name, processor in known.items():
            if processor is not None:
                _check(processor, f"the processor of request {name!r}", model)
        return lambda request_id: _of_mapping(known, request_id)
    _check(given, "processor", model)
    return lambda _: given


def _check(processor: Any, name: str, model: Any) -> None:
    check_is_processor(processor, name, "a mapping from request ids to processors, or a function of the request id")
    refuse_guidance(processor, CONTINUOUS)
    check_ends(processor, ends_of(model))
    warn_of_settings(processor, model)


def _of_mapping(known: Mapping[str, Processor[Any] | None], request_id: str) -> Processor[Any] | None:
    if request_id not in known:
        raise ConfigurationError(
            f"request {request_id!r} is not in the mapping of processors, which has {', '.join(map(repr, [*known][:5]))}; add "
            "it, with None if it has no processor"
        )
    return known[request_id]


class _Block:
    """The managers that are made inside a `with` block.

    Args:
        processor_of: Returns the processor of a request by its id.
    """

    def __init__(self, processor_of: Callable[[str], Processor[Any] | None]) -> None:
        self.processor_of = processor_of
        self._all: list[RequestSlots] = []

    def slots(self, model: Any) -> RequestSlots:
        """Return the slots of a new manager."""
        # Only continuous batching needs it, and not a hook.
        from logitkit_adapters.transformers.request_slots import RequestSlots

        head = model.get_output_embeddings()
        columns = getattr(head, "out_features", None) or model.config.get_text_config().vocab_size
        made = RequestSlots(self.processor_of, model.device, columns, ends_of(model))
        self._all.append(made)
        return made

    def raise_error(self) -> None:
        """Raise the first error of a manager."""
        for slots in self._all:
            if slots.error is not None:
                raise slots.error
        for slots in self._all:
            slots.raise_broken()


def _check_model(model: Any) -> None:
    if not isinstance(model, transformers.PreTrainedModel) or not hasattr(model, METHOD):
        raise ConfigurationError(
            f"model is of type {type(model).__name__}; give a transformers model that supports continuous batching, or the model "
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


def _manager_with(block: _Block, make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement of `model.init_continuous_batching`, whose managers apply the processors."""

    def init_continuous_batching(
        generation_config: Any = None, continuous_batching_config: Any = None, **others: Any
    ) -> Any:
        from logitkit_adapters.transformers.request_processors import register, request_processors

        model = make.__self__  # type: ignore[attr-defined]
        register()
        if continuous_batching_config is None:
            generation = model.generation_config if generation_config is None else generation_config
            continuous_batching_config = getattr(generation, "continuous_batching_config", None)
        config = _with_requests(continuous_batching_config, model)
        slots = block.slots(model)
        own = getattr(model, PROCESSORS)
        ours = request_processors(slots)
        setattr(model, PROCESSORS, lambda generation: own(generation, logits_processor=ours))
        try:
            manager = make(generation_config=generation_config, continuous_batching_config=config, **others)
        finally:
            delattr(model, PROCESSORS)
        # A model's own configuration may ask for compiled steps too.
        _check_modes(manager.continuous_batching_config, model)
        slots.ahead = bool(manager.continuous_batching_config.use_async_batching)
        slots.graphs = any(manager.continuous_batching_config.cuda_graph_booleans)
        known = weakref.ref(manager)
        slots.drop_graphs = lambda: _drop_graphs(known())
        return manager

    return init_continuous_batching


def _with_requests(config: Any, model: Any) -> Any:
    """Return a configuration with processors per request, in which other modes are off unless they were turned on."""
    config = transformers.ContinuousBatchingConfig() if config is None else copy.copy(config)
    _check_modes(config, model)
    config.use_async_batching = bool(config.use_async_batching)
    if config.use_cuda_graph is None:
        config.use_cuda_graph = False
    config.per_request_processors = True
    return config


def _check_modes(config: Any, model: Any) -> None:
    asked = [name for name in COMPILED if getattr(config, name, None)]
    if asked:
        raise ConfigurationError(
            f"{' and '.join(asked)} of ContinuousBatchingConfig cannot be used with a processor, because torch would compile the "
            "steps again whenever the processors of the requests change; leave it out, and turn on use_cuda_graph instead"
        )
    if getattr(config, "use_async_batching", None) and model.device.type not in ASYNCHRONOUS:
        raise ConfigurationError(
            f"use_async_batching of ContinuousBatchingConfig needs a model on {' or '.join(ASYNCHRONOUS)}, but it is on "
            f"{model.device}; leave it out"
        )
    graphs = getattr(config, "use_cuda_graph", None)
    # One boolean, or one for prefill and one for decoding.
    if (any(graphs) if isinstance(graphs, tuple) else graphs) and not ends_of(model):
        raise ConfigurationError(
            "use_cuda_graph of ContinuousBatchingConfig needs an EOS id, with which a row can end that has no token left; set "
            "model.generation_config.eos_token_id, or leave use_cuda_graph out"
        )


def _drop_graphs(manager: Any) -> None:
    """Make transformers capture its graphs again, because tensors that they read have been replaced."""
    ios = getattr(getattr(manager, "batch_processor", None), "inputs_and_outputs", None)
    if ios is None:
        return
    if torch.cuda.is_available():
        # A graph that is running must not be released.
        torch.cuda.synchronize()
    for part in [pair.device_io for pair in ios.io_pairs] if hasattr(ios, "io_pairs") else [ios]:
        part.graphs = type(part.graphs)()
