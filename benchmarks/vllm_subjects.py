"""One interface for logitkit's plugin and vLLM's own structured output: admit requests, mask them, and pass on their tokens.

vLLM's parts are its own classes, called as its engine core and model runners call them.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from benchmarks.vllm_config import LONGEST, SIZE
from tests.adapters_vllm.slots import Runner

Backend = Literal["xgrammar", "guidance"]
BACKENDS: tuple[Backend, ...] = ("xgrammar", "guidance")
PROMPT = [1, 1784, 4672]


@dataclass(eq=False)
class Running:
    """A request.

    Args:
        pattern: The pattern that its text must match.
        own: A subject's own data for it.
        output: Its tokens.
    """

    pattern: str
    own: Any
    output: list[int] = field(default_factory=list)


class Subject(abc.ABC):
    """Something that masks the logits of requests.

    Args:
        config: The engine's configuration.
    """

    name: str

    def __init__(self, config: Any) -> None:
        # The plugin is made once for a configuration, and looks for it in the attributes of who calls.
        self.vllm_config = copy.copy(config)

    @abc.abstractmethod
    def admit(self, pattern: str) -> Running:
        """Check and compile what a request asks for, as the front end and the engine do before the request runs."""

    @abc.abstractmethod
    def mask(self, arrived: dict[int, Running], running: Sequence[Running], logits: Tensor) -> None:
        """Let requests enter the batch at places, and mask the logits of all, in place."""

    @abc.abstractmethod
    def commit(self, running: Sequence[Running], tokens: Sequence[int]) -> None:
        """Tell what was sampled; the engine has written it into the outputs."""

    @abc.abstractmethod
    def leave(self, count: int) -> None:
        """Let all requests leave, which had the places below `count`."""

    def touch(self) -> Subject:
        """Run a request, so that all is there that the first one needs."""
        request = self.admit("[ab]+")
        self.mask({0: request}, [request], torch.zeros(1, SIZE))
        self.leave(1)
        return self


class Plugin(Subject):
    """The plugin in the V1 model runner: `update_state`, then `apply`."""

    runner = "V1"
    name = "logitkit"

    def __init__(self, config: Any) -> None:
        from logitkit_adapters.vllm import LogitsProcessor

        super().__init__(config)
        self.plugin = LogitsProcessor(self.vllm_config, torch.device("cpu"))

    @staticmethod
    def params(pattern: str) -> Any:
        """Return the parameters of a request."""
        from vllm import SamplingParams

        return SamplingParams(extra_args={"logitkit": {"regex": pattern}}, max_tokens=LONGEST // 2, seed=0)

    def admit(self, pattern: str) -> Running:
        params = self.params(pattern)
        self.plugin.validate_params(params)
        return Running(pattern, params)

    def mask(self, arrived: dict[int, Running], running: Sequence[Running], logits: Tensor) -> None:
        from vllm.v1.sample.logits_processor import BatchUpdate

        added = [(place, request.own, PROMPT, request.output) for place, request in arrived.items()]
        self.plugin.update_state(BatchUpdate(len(running), [], added, []) if added else None)
        self.plugin.apply(logits)

    def commit(self, running: Sequence[Running], tokens: Sequence[int]) -> None:
        """Do nothing: the plugin reads the outputs."""

    def leave(self, count: int) -> None:
        from vllm.v1.sample.logits_processor import BatchUpdate

        self.plugin.update_state(BatchUpdate(0, [*range(count)], [], []))


class PluginV2(Plugin):
    """The plugin as the V2 model runner calls it, on a CPU: the runner's own classes want a GPU."""

    runner = "V2"

    def __init__(self, config: Any) -> None:
        from logitkit_adapters.vllm import LogitsProcessor

        Subject.__init__(self, config)
        requests = config.scheduler_config.max_num_seqs
        self.tokens = Runner(slots=requests, longest=LONGEST)
        self.plugin = LogitsProcessor(self.vllm_config, self.tokens.states)
        self.slots = torch.arange(requests)

    def mask(self, arrived: dict[int, Running], running: Sequence[Running], logits: Tensor) -> None:
        count = len(running)
        for place, request in arrived.items():
            self.tokens.enter(place, PROMPT, request.output)
            self.plugin.add_request(place, request.own)
        self.tokens.write()
        self.plugin.apply_staged_writes()
        last = torch.tensor([len(PROMPT) + len(request.output) - 1 for request in running])
        context = SimpleNamespace(
            expanded_idx_mapping=self.slots[:count].to(torch.int32),
            idx_mapping_np=np.arange(count, dtype=np.int32),
            expanded_local_pos=torch.zeros(count, dtype=torch.int32),
            pos=last,
            input_ids=self.tokens.tokens.gpu[self.slots[:count], last],
        )
        found = self.plugin.apply(logits, context)
        if found is not logits:
            logits.copy_(found)

    def commit(self, running: Sequence[Running], tokens: Sequence[int]) -> None:
        places = [len(PROMPT) + len(request.output) - 1 for request in running]
        self.tokens.tokens.gpu[range(len(running)), places] = torch.tensor(tokens, dtype=torch.int32)

    def leave(self, count: int) -> None:
        from vllm import SamplingParams

        for place in range(count):
            self.plugin.add_request(place, SamplingParams())
        self.plugin.apply_staged_writes()


class StructuredOutput(Subject):
    """vLLM's own: its manager fills a bit mask, which `apply_grammar_bitmask` applies; the manager takes the tokens.

    Args:
        config: The engine's configuration.
        backend: Which compiler and matcher.
    """

    def __init__(self, config: Any, backend: Backend) -> None:
        from vllm.v1.structured_output import StructuredOutputManager

        super().__init__(config)
        self.name = f"vLLM, {'XGrammar' if backend == 'xgrammar' else 'LLGuidance'}"
        self.vllm_config.structured_outputs_config = copy.copy(config.structured_outputs_config)
        self.vllm_config.structured_outputs_config.backend = backend
        self.manager = StructuredOutputManager(self.vllm_config)
        self._count = 0

    def admit(self, pattern: str) -> Running:
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams
        from vllm.v1.request import Request

        params = SamplingParams(structured_outputs=StructuredOutputsParams(regex=pattern), max_tokens=LONGEST // 2)
        settings = self.vllm_config.structured_outputs_config
        params._validate_structured_outputs(self.vllm_config.model_config, settings, self.manager.tokenizer)
        params._all_stop_token_ids = {self.manager.tokenizer.eos_token_id}
        self._count += 1
        request = Request(str(self._count), PROMPT, params, None)
        self.manager.grammar_init(request)
        compiling = request.structured_output_request._grammar
        compiling.result()
        assert request.structured_output_request.grammar is not None
        return Running(pattern, request)

    def mask(self, arrived: dict[int, Running], running: Sequence[Running], logits: Tensor) -> None:
        from vllm.v1.core.sched.output import GrammarOutput
        from vllm.v1.structured_output.utils import apply_grammar_bitmask

        requests = {request.own.request_id: request.own for request in running}
        ids = [*requests]
        bits = self.manager.grammar_bitmask(requests, ids, {})
        scheduled: Any = SimpleNamespace(scheduled_spec_decode_tokens={})
        batch: Any = SimpleNamespace(req_ids=ids)
        apply_grammar_bitmask(scheduled, GrammarOutput(ids, bits), batch, logits)

    def commit(self, running: Sequence[Running], tokens: Sequence[int]) -> None:
        for request, token in zip(running, tokens, strict=True):
            assert self.manager.accept_tokens(request.own, [token])

    def leave(self, count: int) -> None:
        """Do nothing: grammars go with their requests."""
