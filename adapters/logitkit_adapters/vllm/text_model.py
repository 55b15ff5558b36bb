"""An engine of vLLM with its tokenizer, as typed output, traces and probabilities use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

import logitkit as lk
from logitkit.composition.engine_vocabulary import check_tokens_agree
from logitkit.errors import ConfigurationError
from logitkit.output_types import OutputType
from logitkit.protocol.guidance import refuse_guidance
from logitkit.protocol.processor import Processor, check_is_processor
from logitkit.sessions.tokenizations import Row
from logitkit.vocabulary.vocabulary import Vocabulary
from logitkit_adapters.sessions.base_session import BaseSession
from logitkit_adapters.sessions.generated import GeneratedRow
from logitkit_adapters.sessions.prompts import Prompt, read_prompts
from logitkit_adapters.sessions.session_call import SessionCall
from logitkit_adapters.sessions.shared_model import shared_by
from logitkit_adapters.sessions.text_model import TextModel
from logitkit_adapters.vllm.configurations import configurations_of
from logitkit_adapters.vllm.session import Session

__all__ = ["VllmTextModel"]


class VllmTextModel(TextModel):
    """vLLM's `LLM`; see `TextModel` for its methods.

    Args:
        model: The `LLM`.
        tokenizer: The tokenizer of prompts; None: the engine's.

    Raises:
        VocabularyError: The bytes of the tokens are unknown.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.config = model.llm_engine.vllm_config
        self.log_probs = self.config.model_config.logprobs_mode == "processed_logprobs"
        super().__init__(model, tokenizer)

    def _vocabulary(self) -> Vocabulary:
        return configurations_of(self.config).vocabulary

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """None, because the engine runs whole requests."""
        return nullcontext()

    @property
    def longest(self) -> int:
        """The maximum number of tokens; at least one more is generated."""
        return int(self.config.model_config.max_model_len) - 1

    @property
    def bound(self) -> str:
        """The condition for the number of tokens of a prompt and a text after it, in words."""
        return f"fewer than max_model_len, which is {self.longest + 1}"

    def check_logits(self) -> None:
        """Check that the engine reports the log-probabilities of all tokens.

        Raises:
            ConfigurationError: It reports fewer.
        """
        reported, size = self.config.model_config.max_logprobs, self.vocabulary.size
        if reported != -1 and reported < size:
            raise ConfigurationError(
                f"the engine reports at most {reported} log-probabilities per token, but trace needs those of all {size} "
                "tokens; create it with LLM(..., max_logprobs=-1)"
            )

    def session(self) -> Session:
        """Return a new session."""
        return Session(self.model)

    def generated(self, session: BaseSession[Any], call: SessionCall, batch_size: int) -> Sequence[GeneratedRow]:
        """Return the rows of a call; the engine decides how many run together."""
        return session.run(call).rows

    def request(
        self, kind: OutputType, constraint: Processor[Any], closing: bool, processor: Processor[Any] | None = None
    ) -> dict[str, Any]:
        """Return the configuration of an output type and another processor.

        Raises:
            ConfigurationError: One of them has no configuration, or both have the same kind.
            VocabularyError: The processor was built for another tokenizer.
        """
        request, more = kind.config(closing=closing), {}
        if processor is not None:
            check_is_processor(processor)
            refuse_guidance(processor, "vLLM")
            check_tokens_agree(processor, self.vocabulary)
            more = lk.to_config(processor)
        if both := sorted({*request} & {*more}):
            raise ConfigurationError(
                f"processor has {both[0]}, and so does the type; a request has one of each kind: combine them into one"
            )
        return {**request, **more}

    def prompts(self, prompt: Prompt) -> list[list[int]]:
        """Return the tokens of prompts."""
        own = self.model.get_tokenizer() if self.tokenizer is None else self.tokenizer
        return read_prompts(prompt, None if own is None else own.encode, own)

    rows = prompts

    def logits(self, prompt: Sequence[int], output: Sequence[int]) -> Iterator[Tensor]:
        """Return the log-probabilities of all tokens in the place of each token of an output, [V]."""
        (found,) = self._reported([[*prompt, *output]], -1)
        return (_row(one, self.vocabulary.size) for one in found[len(prompt) :])

    def log_probs_of(self, prompt: Row, rows: Sequence[Row]) -> list[float]:
        """Return the log-probability of each of several rows of tokens after a prompt."""
        if not any(rows):
            return [0.0] * len(rows)
        pairs = zip(rows, self._reported([[*prompt, *row] for row in rows], 0), strict=True)
        return [_sum(row, found[len(prompt) :]) for row, found in pairs]

    def _reported(self, texts: list[list[int]], count: int) -> list[Any]:
        """Return what the engine reports of the tokens of texts: their log-probabilities, and those of `count` others."""
        from vllm import SamplingParams

        params = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=count, detokenize=False)
        with shared_by(self.model).without_stream():
            outputs = self.model.generate([{"prompt_token_ids": text} for text in texts], params, use_tqdm=False)
        return [output.prompt_logprobs for output in outputs]


def _row(found: Mapping[int, Any], size: int) -> Tensor:
    row = torch.full((size,), -torch.inf)
    row[[*found]] = torch.tensor([one.logprob for one in found.values()])
    return row


def _sum(row: Row, found: Sequence[Any]) -> float:
    return sum(float(likely[token].logprob) for token, likely in zip(row, found, strict=True))
