"""Chats with images: the text and the inputs that mlx-vlm makes of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlx_vlm.prompt_utils import apply_chat_template
from mlx_vlm.utils import prepare_inputs, should_add_special_tokens
from PIL import Image

from logitkit.errors import ConfigurationError
from logitkit_adapters.mlx_vlm.model import tokenizer_of
from logitkit_adapters.sessions.media_prompt import media_parts
from logitkit_adapters.sessions.prompts import check_messages, no_template

__all__ = ["inputs_of_chat", "with_special_tokens"]

IMAGES = ("image", "image_url", "input_image")


def with_special_tokens(model: Any, processor: Any) -> bool:
    """Whether mlx-vlm adds special tokens, such as BOS, to a text."""
    return bool(should_add_special_tokens(model.config.model_type, processor))


def inputs_of_chat(model: Any, processor: Any, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any] | str:
    """Return the inputs that a processor makes of a chat with images, or the text of a chat without any.

    Args:
        model: The model, whose type defines how the template is given images.
        processor: The processor of images and text.
        messages: The messages of the chat.

    Raises:
        ConfigurationError: A message is malformed, there is no template, or a part is not an image that can be read.
    """
    check_messages(messages)
    templates = (getattr(each, "chat_template", None) for each in (processor, tokenizer_of(processor)))
    if all(template is None for template in templates):
        raise no_template(processor)
    images = [_image(part) for part in media_parts(messages)]
    if images and not hasattr(processor, "image_processor"):
        raise ConfigurationError(
            f"a chat has {len(images)} images, and {type(processor).__qualname__} has no image_processor; give the "
            "processor that mlx_vlm.load returns, of a model that takes images"
        )
    text = apply_chat_template(processor, model.config, list(messages), num_images=len(images))
    if not images:
        return str(text)
    prepare: Any = prepare_inputs
    inputs: dict[str, Any] = prepare(
        processor,
        images=images,
        prompts=text,
        image_token_index=getattr(model.config, "image_token_index", None),
        add_special_tokens=with_special_tokens(model, processor),
    )
    return inputs


def _image(part: Mapping[str, Any]) -> Image.Image:
    """Return the image of a part of a message."""
    kind = part["type"]
    given = part.get("image", part.get(kind)) if kind in IMAGES else None
    if isinstance(given, Image.Image):
        return given.convert("RGB")
    if isinstance(given, Path):
        try:
            with Image.open(given) as opened:
                return opened.convert("RGB")
        except OSError as error:
            raise ConfigurationError(f"the image {given} of a chat cannot be read: {error}") from error
    if kind not in IMAGES:
        raise ConfigurationError(
            f"a chat has a part of the type {kind!r}, and a chat may have images only; for audio and video, give the output of "
            "mlx_vlm.utils.prepare_inputs as the prompt"
        )
    raise ConfigurationError(
        f"a chat has the image {given!r:.80}, of the type {type(given).__qualname__}; give a PIL.Image.Image or a pathlib.Path. "
        "An address or a path in a text is not followed, because a text may come from anyone"
    )
