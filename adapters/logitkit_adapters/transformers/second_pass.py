"""The second pass of `Guidance` in transformers: the same output after a negative prompt, with a cache of its own.

Beams change places between two steps, and a hook does not see how. But the tokens of a row say which row of the last step it
continues, so the cache follows them:

    last step       row 0: negative prompt, a, b        row 1: negative prompt, a, c
    this step       row 0: negative prompt, a, c, d     row 1: negative prompt, a, c, e
    so              both continue row 1: the cache gets its entries twice, and the model reads d and e

If a row continues none, as after a rejected draft, the pass begins again with all tokens.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor, batch_size_of, name_of, reads_guidance
from logitkit_adapters.transformers.cache_argument import (
    arguments_of,
    cache_argument,
    makes_own_cache,
    written_class,
)
from logitkit_adapters.transformers.guidance_pass import NONE, GuidancePass

__all__ = ["SecondPass"]


class SecondPass:
    """The second pass of one hook: the tokens that the model has read in each row, and its cache.

    Args:
        given: The argument `guidance` of `logits_processor`.
    """

    @classmethod
    def of(cls, given: Any, processor: Processor[Any], rows: int | None) -> SecondPass:
        """Return the second pass of a hook.

        Args:
            given: The argument `guidance` of `logits_processor`.
            processor: The processor of the hook.
            rows: The number of prompts, if it is known.

        Raises:
            ConfigurationError: It is given for a processor that does not read it, or is something else.
            BatchMismatch: The number of negative prompts is neither 1 nor that of the prompts.
        """
        if not isinstance(given, GuidancePass):
            raise ConfigurationError(f"guidance is of type {type(given).__name__}; give GuidancePass(model, ...)")
        if not reads_guidance(processor):
            raise ConfigurationError(
                f"guidance is given, but {name_of(processor)} reads no second pass; put logitkit.Guidance(scale) first: "
                "logitkit.chain(logitkit.Guidance(1.5), ...)"
            )
        # If it is not known, each multiple of the negative prompts may be their beams or samples.
        known = batch_size_of(processor) if rows is None else rows
        if given.prompts is not None and known is not None and len(given.prompts) not in (1, known):
            raise _wrong_count(len(given.prompts), known, "prompts")
        return cls(given)

    def __init__(self, given: GuidancePass) -> None:
        self._given, model = given, given.model
        self._name, self._takes = written_class(model).__name__, arguments_of(model)
        try:
            self._cache_name = cache_argument(model) if given.use_cache and not makes_own_cache(model) else None
        except ConfigurationError as error:
            raise ConfigurationError(
                f"the second pass of {self._name} cannot keep a cache; give GuidancePass(..., use_cache=False)"
            ) from error
        self.clear()

    def clear(self) -> None:
        """Forget all tokens, and release the cache."""
        # [R, W] ids, padded on the left, and the cache with the keys and values of all of them.
        self._read: Tensor | None = None
        self._cache: Any = None

    def logits(self, input_ids: Tensor, context: Context) -> Tensor:
        """Return the logits of the second pass after the last token of each row, [R, V] on the device of the ids.

        Args:
            input_ids: [R, L] the tokens of each row so far, with its prompt and left padding.
            context: The context of the rows.

        Raises:
            BatchMismatch: The number of rows is not a multiple of that of the negative prompts.
            ConfigurationError: The rows have different lengths, and the model counts padding; a prompt without ids has no
                negative prompt; or the model cannot read the tokens, or returns no logits.
        """
        ids = self._texts(input_ids, context)
        before = self._continued(ids)
        shown, cache = (ids, None) if before is None else (ids[:, before.shape[1] :], self._cache)
        # If the pass fails, what it has left in the cache is not used again.
        self.clear()
        found = self._run(shown, ids >= 0, cache)
        if self._cache_name is not None:
            self._read, self._cache = ids, getattr(found, self._cache_name, None)
        logits: Tensor | None = getattr(found, "logits", None)
        if logits is None:
            raise ConfigurationError(
                f"{self._name} returns no logits; give a model with a head, such as one of AutoModelForCausalLM"
            )
        return logits[:, -1]

    def _texts(self, input_ids: Tensor, context: Context) -> Tensor:
        """Return the tokens of the second pass, [R, W], padded on the left with -1: negative prompts and outputs."""
        counts, prompts = (context.lengths - context.prompt_lengths).tolist(), self._given.prompts
        width, rows = input_ids.shape[1], len(input_ids)
        if prompts is None:
            if width in counts:
                raise ConfigurationError(
                    "a prompt has no ids, as with inputs_embeds, so the second pass cannot begin with its last token; give "
                    "GuidancePass(model, negative_prompt_ids)"
                )
            # The last token of each prompt, and all that follows.
            texts = [row[width - count - 1 :] for row, count in zip(input_ids, counts, strict=True)]
            return self._padded(texts)
        if rows % len(prompts):
            raise _wrong_count(len(prompts), rows, "rows")
        own = [prompt[prompt >= 0] for prompt in prompts.to(input_ids.device)]
        texts = [
            torch.cat([own[row // (rows // len(own))], ids[width - count :]])
            for row, (ids, count) in enumerate(zip(input_ids, counts, strict=True))
        ]
        return self._padded(texts)

    def _padded(self, texts: list[Tensor]) -> Tensor:
        if len({len(text) for text in texts}) > 1:
            # Only such rows need it, and it imports what sessions need.
            from logitkit_adapters.transformers.model import reads_pads

            if not reads_pads(self._given.model):
                return pad_sequence(texts, batch_first=True, padding_value=NONE, padding_side="left")
            raise ConfigurationError(
                f"{self._name} counts padding as tokens, and the rows of the second pass have different "
                "lengths; give negative prompts of one length, or generate row by row"
            )
        return torch.stack(texts)

    def _continued(self, ids: Tensor) -> Tensor | None:
        """Return the tokens that the cache has of rows, in their order; None if one of them continues no row of the last step."""
        read = self._read
        if read is None or self._cache is None or ids.shape[1] <= read.shape[1]:
            return None
        begun = ids[:, : read.shape[1]]
        if torch.equal(begun, read):
            return read
        same = (begun[:, None] == read[None]).all(2)
        if not bool(same.any(1).all()):
            return None
        self._cache.reorder_cache(same.long().argmax(1))
        return begun

    def _run(self, shown: Tensor, mask: Tensor, cache: Any) -> Any:
        """Return the output of the model for the last tokens of each row, [R, T], given a mask of all, [R, W] bool."""
        count = shown.shape[1]
        arguments: dict[str, Any] = {}
        # Mamba would apply a mask of all tokens to the ones that it is shown.
        if "position_ids" in self._takes or not bool(mask.all()):
            arguments["attention_mask"] = mask.long()
        if "position_ids" in self._takes:
            arguments["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)[:, -count:]
        if "logits_to_keep" in self._takes:
            arguments["logits_to_keep"] = 1
        if "use_cache" in self._takes:
            arguments["use_cache"] = self._cache_name is not None
        if cache is not None and self._cache_name is not None:
            arguments[self._cache_name] = cache
        device = self._given.model.device
        moved = {name: _moved(given, device) for name, given in arguments.items()}
        try:
            with torch.no_grad():
                return self._given.model(shown.clamp(min=0).to(device), **moved)
        except IndexError as error:
            most = getattr(self._given.model.config.get_text_config(decoder=True), "max_position_embeddings", None)
            raise ConfigurationError(
                f"{self._name} cannot read the {mask.shape[1]} tokens of the second pass ({error}); its max_position_embeddings "
                f"are {most}. Give a shorter negative prompt or fewer max_new_tokens"
            ) from error


def _wrong_count(negatives: int, rows: int, what: str) -> BatchMismatch:
    return BatchMismatch(
        f"there are {negatives} negative prompts for {rows} {what}; give one for each prompt of the batch, or one for all"
    )


def _moved(given: Any, device: torch.device) -> Any:
    return given.to(device) if isinstance(given, Tensor) else given
