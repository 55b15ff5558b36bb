"""A sequence in mlx-vlm, and the model with its prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
from mlx_vlm.apc import multimodal_token_ids_from_config
from mlx_vlm.generate.common import _chunked_prefill_enabled
from mlx_vlm.models.cache import KVCache, RotatingKVCache, make_prompt_cache
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit_adapters.mlx.sequence import MlxEngine, MlxSequence
from logitkit_adapters.mlx_vlm.chats import inputs_of_chat, with_special_tokens
from logitkit_adapters.mlx_vlm.media import FIRST_ID, KnownMedia, Media, has_media_inputs
from logitkit_adapters.mlx_vlm.model import columns_of, ends_of, is_prefix_model, text_settings, tokenizer_of
from logitkit_adapters.sessions.media_prompt import MediaPrompt
from logitkit_adapters.sessions.prompts import Prompt, chats_of

__all__ = ["MlxVlmEngine", "MlxVlmSequence"]

# The attributes in which language models with multimodal rotary positions keep what a prompt adds to the positions after it.
POSITIONS = ("_rope_deltas", "_position_ids")


class MlxVlmSequence(MlxSequence):
    """A sequence in mlx-vlm; see `CachedSequence` for its methods.

    Its tokens are the ids by which caches are found; see `media`. A whole prompt is run as `generate_step` runs it. Later tokens
    are text, so they need only the position after the prompt.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._media: Media | None = self._engine.known.of(self._tokens)
        self._positions: dict[str, Any] = self._engine.positions_after(self._media) if self._tokens else {}

    def feed(self, tokens: Sequence[int], *, all_positions: bool = False) -> Tensor:
        """Run tokens through the model and return logits in the model's dtype."""
        with self._own_positions():
            return super().feed(tokens, all_positions=all_positions)

    def shift(self, drop: int) -> bool:
        """Drop the first positions, unless there are media, whose positions are not those of text."""
        return self._media is None and super().shift(drop)

    def _run(self, ids: list[int], all_positions: bool) -> tuple[Callable[[int, int], mx.array], bool]:
        engine = self._engine
        last: dict[str, Any] = {} if all_positions else {"logits_to_keep": 1}
        if not self._tokens:
            return self._run_prompt(ids, last)
        engine.check_ids(ids)
        later = {} if self._media is None else self._media.later
        return (
            lambda begin, end: engine.language(mx.array([ids[begin:end]]), cache=self.cache, **later, **last).logits,
            True,
        )

    def _run_prompt(self, ids: list[int], last: Mapping[str, Any]) -> tuple[Callable[[int, int], mx.array], bool]:
        """Return how a prompt is run, with its media, and whether it is run in steps."""
        engine = self._engine
        media = self._media = engine.known.of(ids)
        tokens = engine.known.tokens(ids)
        # The ids of media may be above those of text, since no embedding of theirs is used.
        engine.check_ids([i for i in ids if i < FIRST_ID])
        inputs = {} if media is None else media.inputs_for(ids)
        given = mx.array([tokens])
        found = engine.model.get_input_embeddings(
            given, inputs.pop("pixel_values", None), mask=mx.ones_like(given), **inputs
        ).to_dict()
        embedded = found.pop("inputs_embeds")
        inputs |= {name: value for name, value in found.items() if value is not None}
        in_steps = _chunked_prefill_enabled(
            engine.model,
            input_ids=given,
            inputs_embeds=embedded,
            prompt_cache=self.cache,
            prefill_kwargs=inputs,
        )
        if embedded.shape[1] != len(ids):
            raise ConfigurationError(
                f"{type(engine.model).__module__} embeds {len(ids)} tokens as {embedded.shape[1]} positions, so a session cannot "
                "count them; use generate of mlx-vlm with logits_processors=[logits_processor(...)]"
            )

        def run(begin: int, end: int) -> mx.array:
            step = {} if end == len(ids) else {"n_to_process": end - begin}
            output = engine.language(
                given[:, begin:end], inputs_embeds=embedded[:, begin:end], cache=self.cache, **step, **inputs, **last
            )
            if media is not None and output.cross_attention_states is not None:
                media.later = {"cross_attention_states": output.cross_attention_states}
            logits: mx.array = output.logits
            return logits

        return run, bool(in_steps)

    @contextmanager
    def _own_positions(self) -> Iterator[None]:
        """Let the language model know the positions of this sequence, and then again those that it knew before."""
        language = self._engine.language
        names = self._engine.position_names
        theirs = {name: getattr(language, name) for name in names}
        is_prompt = not self._tokens
        for name in names:
            setattr(language, name, self._positions.get(name))
        try:
            yield
            if is_prompt:
                self._positions = {name: getattr(language, name) for name in names}
                # Another thread may go on.
                mx.eval(list(self._positions.values()), [] if self._media is None else self._media.later)
                self._engine.remember_positions(self._media, self._positions)
        finally:
            for name, value in theirs.items():
                setattr(language, name, value)


class MlxVlmEngine(MlxEngine):
    """A model of mlx-vlm; see `ArrayEngine` for its methods.

    Args:
        model: The model.
        processor: Its processor of images and text or its tokenizer, or None if all prompts are token ids.
        make_cache: Returns the empty caches of the layers; default: mlx-vlm's own.
        language: The language model in it.
        known: The media of its prompts.
        position_names: The attributes of `POSITIONS` that the language model has.

    Raises:
        ConfigurationError: In the model, what a cache holds of a token depends on later tokens of the prompt.
    """

    all_positions, window = KVCache, RotatingKVCache
    sequence = MlxVlmSequence

    def __init__(self, model: Any, processor: Any = None, make_cache: Callable[[], list[Any]] | None = None) -> None:
        if is_prefix_model(model):
            raise ConfigurationError(
                f"in a model of {type(model).__module__}, each token of a prompt attends to all of the prompt, so a cache of its "
                "beginning serves no other prompt; use generate of mlx-vlm with logits_processors=[logits_processor(...)]"
            )
        self.language = model.language_model
        self.known = KnownMedia(multimodal_token_ids_from_config(model.config))
        self.position_names = [name for name in POSITIONS if hasattr(self.language, name)]
        self._processor = processor
        self._text_positions: dict[str, Any] | None = None
        super().__init__(
            model,
            None if processor is None else tokenizer_of(processor),
            make_cache or (lambda: make_prompt_cache(self.language)),
            layers=self.language.layers,
            vocabulary_size=columns_of(model) or 0,
            max_length=getattr(text_settings(model), "max_position_embeddings", None),
        )
        self.eos_ids = self.eos_ids | frozenset(ends_of(processor, model))

    def forward(self, ids: mx.array, cache: list[Any]) -> mx.array:
        """Run text through the language model, and return its logits."""
        logits: mx.array = self.language(ids, cache=cache).logits
        return logits

    def prompts(self, prompt: Prompt, attention_mask: Any = None) -> list[list[int]]:
        """Return the tokens of each prompt, which may also be a chat with images, or what a processor returns for media."""
        # Threads that share a session share its media.
        with self.lock:
            if isinstance(prompt, Mapping) and has_media_inputs(prompt):
                return [self.known.prompt(prompt)]
            if isinstance(prompt, MediaPrompt):
                return [self.known.adopted(prompt)]
            if self._processor is not None and attention_mask is None and (chats := chats_of(prompt)):
                return [self._chat(messages) for messages in chats]
            return super().prompts(prompt, attention_mask)

    def _chat(self, messages: list[Any]) -> list[int]:
        made = inputs_of_chat(self.model, self._processor, messages)
        return super().prompts(made)[0] if isinstance(made, str) else self.known.prompt(made)

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a prompt, as `generate` encodes it."""
        special = with_special_tokens(self.model, self._processor)
        return list(self.tokenizer.encode(text, add_special_tokens=special))

    def reusable(self, ids: Sequence[int], length: int) -> int:
        """Return 0 if media follow, since a prompt is run with all its media at once."""
        return 0 if any(i >= FIRST_ID for i in ids[length:]) else length

    def positions_after(self, media: Media | None) -> dict[str, Any]:
        """Return what the language model must know of a prompt with some media, or of text."""
        if media is not None or not self.position_names:
            return {} if media is None else media.positions
        if self._text_positions is None:
            # Any text will do: its positions are counted from 0.
            self.new().feed([0])
        return self._text_positions or {}

    def remember_positions(self, media: Media | None, positions: dict[str, Any]) -> None:
        """Remember what the language model knew after a prompt."""
        if media is None:
            self._text_positions = positions
        else:
            media.positions = positions
