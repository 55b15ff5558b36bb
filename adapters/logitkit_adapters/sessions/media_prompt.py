"""Prompts with images or other media, whose tokens do not say everything that a model reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from logitkit.errors import ConfigurationError

__all__ = ["MediaPrompt", "cached_ids", "has_media", "media_parts", "refuse_media"]

# The types of parts of a chat message that are not text.
PARTS = frozenset(
    ("image", "image_url", "input_image", "audio", "audio_url", "input_audio", "video", "video_url", "input_video")
)


class MediaPrompt(list[int]):
    """The token ids of a prompt with media.

    Args:
        tokens: The token ids; those at the positions of an image are all the same.
        cached: The ids by which caches are found: the token ids, but at the positions of media others, which two prompts share
            only if their media are equal.
        media: The media, which the engine finds by these ids as long as the prompt lives.
    """

    def __init__(self, tokens: Iterable[int], cached: Iterable[int], media: object) -> None:
        super().__init__(tokens)
        self.cached, self.media = list(cached), media


def cached_ids(prompt: list[int]) -> list[int]:
    """Return the ids by which the caches of a prompt's positions are found."""
    return prompt.cached if isinstance(prompt, MediaPrompt) else prompt


def has_media(prompts: Iterable[Sequence[int]]) -> bool:
    """Whether one of several prompts has media."""
    return any(isinstance(prompt, MediaPrompt) for prompt in prompts)


def refuse_media(prompts: Iterable[Sequence[int]], what: str) -> None:
    """Check that no prompt has media.

    Args:
        prompts: The token ids of prompts.
        what: The subject of the error, which cannot take them.

    Raises:
        ConfigurationError: One has.
    """
    if has_media(prompts):
        raise ConfigurationError(
            f"{what} takes no images or other media; leave them out, or use generate or stream of a Session, or generate_typed"
        )


def media_parts(messages: Iterable[Any]) -> list[Mapping[str, Any]]:
    """Return the parts of the messages of a chat that are not text, in their order."""
    contents = [message.get("content") for message in messages if isinstance(message, Mapping)]
    parts = [part for content in contents if isinstance(content, list | tuple) for part in content]
    return [part for part in parts if isinstance(part, Mapping) and part.get("type") in PARTS]
