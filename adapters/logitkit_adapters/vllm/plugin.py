"""logitkit in vLLM: one plugin, `logitkit_adapters.vllm:LogitsProcessor`, for offline use and for servers.

vLLM discovers it automatically when logitkit is installed; you can also name it:
`LLM(model, logits_processors=["logitkit_adapters.vllm:LogitsProcessor"])`. Each request has its own configuration, in the format
of `logitkit.from_config`: `SamplingParams(extra_args={"logitkit": {"regex": "[0-9]+"}})`. The extra arguments of a server are
flat, so there it is JSON: `extra_body={"vllm_xargs": {"logitkit": '{"regex": "[0-9]+"}'}}`.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit_adapters.loaded_class import needed_for
from logitkit_adapters.vllm.admission import install
from logitkit_adapters.vllm.configurations import check_configuration, configurations_of
from logitkit_adapters.vllm.engine import check_is_not_called_by_vllm, drafts_of, engine_of_caller, has_other_plugins
from logitkit_adapters.vllm.internals import why_refused
from logitkit_adapters.vllm.mistakes import check_extra_args
from logitkit_adapters.vllm.modes import check_mode, hides_tokens
from logitkit_adapters.vllm.parameters import asked, prompt_length
from logitkit_adapters.vllm.settings import check_variables, settings
from logitkit_adapters.vllm.v1 import V1Rows
from logitkit_adapters.vllm.v2 import V2Slots

with needed_for("vllm", "vLLM", "vllm"):
    from vllm.v1.sample.logits_processor import LogitsProcessor as V1LogitsProcessor

try:
    from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as V2LogitsProcessor
except ImportError:
    # Releases before the V2 model runner.
    class V2LogitsProcessor:  # type: ignore[no-redef]
        """An empty stand-in for its base class."""


__all__ = ["LogitsProcessor"]

install()

# The plugin that works for each engine: vLLM creates two if the plugin is installed and also named.
_at_work: weakref.WeakValueDictionary[int, LogitsProcessor] = weakref.WeakValueDictionary()


class LogitsProcessor(V1LogitsProcessor, V2LogitsProcessor):  # type: ignore[misc]
    """The plugin, which vLLM creates.

    Args:
        vllm_config: The engine's configuration.
        device_or_req_states: V1: the device of the logits. V2: the tokens of all slots.
        is_pin_memory: Not used.

    Raises:
        VocabularyError: The bytes of the engine's tokens are unknown.
        ConfigurationError: A setting has a name or a value that is not allowed, or a registered processor cannot be loaded.
        ProcessorError: A registered processor breaks the protocol.
    """

    def __init__(self, vllm_config: Any, device_or_req_states: Any, is_pin_memory: bool | None = None) -> None:
        # Keeps the configuration alive, so that no other has the same address.
        self._vllm_config = vllm_config
        self._rows: V1Rows | None = None
        self._slots: V2Slots | None = None
        check_variables()
        if not settings().enabled:
            return
        configurations = configurations_of(vllm_config)
        first = _at_work.setdefault(id(vllm_config), self) is self
        if first:
            configurations.check_registered()
        if not isinstance(device_or_req_states, torch.device | str):
            if first:
                self._slots = V2Slots(configurations, device_or_req_states, drafts_of(vllm_config))
            return
        # Where vLLM hides tokens, all requests for processors are refused when they arrive.
        if first and not hides_tokens(vllm_config):
            self._rows = V1Rows(
                configurations, torch.device(device_or_req_states), vllm_config.model_config.max_model_len
            )

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Check the configuration of a request, and compile it if that has not been done.

        Args:
            sampling_params: The request's `SamplingParams`.

        Raises:
            LogitkitError: It is not allowed. The error is always a ValueError too, which a server answers with status 400.
        """
        extra_args = getattr(sampling_params, "extra_args", None)
        if not extra_args:
            return
        engine = engine_of_caller()
        if settings().enabled:
            check_extra_args(extra_args, has_other_plugins(engine))
        what = asked(sampling_params, engine)
        prompt_length(sampling_params)
        if what is None:
            return
        if engine is None:
            check_is_not_called_by_vllm()
        else:
            check_mode(engine, sampling_params)
            refused = why_refused()
            if refused is not None:
                raise ConfigurationError(refused)
        beside_grammar = getattr(sampling_params, "structured_outputs", None) is not None
        check_configuration(configurations_of(engine), what, beside_grammar=beside_grammar)

    def is_argmax_invariant(self) -> bool:
        """Return False: a processor may change which token is the most likely."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Apply the changes of the batch; V1 calls this before every step."""
        if self._rows is not None and batch_update is not None:
            self._rows.update(batch_update)

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Put a request into a slot of V2; return whether it has a configuration."""
        return self._slots is not None and self._slots.add(req_idx, sampling_params)

    def apply_staged_writes(self) -> None:
        """Begin a step of V2."""
        if self._slots is not None:
            self._slots.begin_step()

    def apply(self, logits: Tensor, ctx: Any = None) -> Tensor:
        """Process the logits, [N, V] float32, in place; only V2 passes `ctx`, which says whose they are."""
        if ctx is not None:
            return logits if self._slots is None else self._slots.process(logits, ctx)
        return logits if self._rows is None else self._rows.process(logits)
