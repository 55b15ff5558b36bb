"""Images and other media of prompts, as a processor of mlx-vlm prepares them, and the ids by which their caches are found.

All positions of an image have the same token id, whichever image it is. So a prefix of token ids does not say which keys and
values belong to it. Here, the positions of media have ids of their own, above all token ids:

    token ids     12  7  1280  1280  1280  9        an image of three positions in a text
    cached ids    12  7  M+0   M+1   M+2   9        M is the first id of this image, which no other image has

Two prompts have the same ids for their media only if what the model reads of them is equal, value by value. The media of a prompt
count as one, so a prompt with a second image shares nothing with the one before. The last of them are remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import mlx.core as mx
import numpy as np
import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions.media_prompt import MediaPrompt
from logitkit_adapters.sessions.prompts import NO_MATTER

__all__ = ["FIRST_ID", "KnownMedia", "Media", "has_media_inputs"]

# Above all token ids, which are below 2^31.
FIRST_ID = 2**31

# The most bytes of media that are remembered, besides those of the last prompt.
MOST_BYTES = 2**28

# The inputs that have a value for each position of a prompt, and depend only on the kind of its token.
BY_TOKEN = ("token_type_ids", "mm_token_type_ids")
# Those of text, which are not inputs of media.
OF_TEXT = ("input_ids", "attention_mask", *BY_TOKEN)
WITHOUT_MEANING = NO_MATTER - {*BY_TOKEN}


@dataclass(eq=False)
class Media:
    """The media of a prompt.

    Args:
        inputs: The inputs of the model, by name, without those of text.
        kinds: For each input of `BY_TOKEN` that the model takes, the value of text, and those of the positions of media.
        tokens: The token ids of the positions of media.
        first: The first of the ids by which caches of these positions are found.
        positions: The attributes by which the language model knows the position after a prompt; set when one has been run.
        later: The inputs of the language model after a prompt; set when one has been run.
    """

    inputs: dict[str, Any]
    kinds: dict[str, tuple[int, list[int]]]
    tokens: list[int]
    first: int
    positions: dict[str, Any] = field(default_factory=dict)
    later: dict[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The number of bytes of the inputs."""
        return _size(self.inputs)

    def equals(self, inputs: Mapping[str, Any], kinds: Mapping[str, Any], tokens: list[int]) -> bool:
        """Whether these are the media of a prompt with the given inputs and token ids of media."""
        return (
            self.tokens == tokens
            and self.kinds == kinds
            and self.inputs.keys() == inputs.keys()
            and all(_equal(value, inputs[name]) for name, value in self.inputs.items())
        )

    def inputs_for(self, ids: Sequence[int]) -> dict[str, Any]:
        """Return the inputs for a prompt, from the ids by which its caches are found."""
        found = dict(self.inputs)
        for name, (text, of_media) in self.kinds.items():
            found[name] = mx.array([[of_media[i - self.first] if i >= self.first else text for i in ids]])
        return found


class KnownMedia:
    """The media of the last prompts.

    Args:
        token_ids: The token ids that stand for media.
    """

    def __init__(self, token_ids: set[int]) -> None:
        self._token_ids = token_ids
        self._next = FIRST_ID
        # All that a prompt or a sequence needs, by their first ids.
        self._alive: WeakValueDictionary[int, Media] = WeakValueDictionary()
        # Those that are remembered, the last used at the end.
        self._known: OrderedDict[int, Media] = OrderedDict()

    def prompt(self, given: Mapping[str, Any]) -> MediaPrompt:
        """Return a prompt with media, from what the processor returned.

        Args:
            given: `input_ids`, [1, P], the inputs of media, and possibly `attention_mask`.

        Raises:
            ConfigurationError: There are several prompts, padding, no positions for media, or an unsupported input.
        """
        kept = {name: value for name, value in given.items() if value is not None and name not in WITHOUT_MEANING}
        inputs = {name: _as_input(value) for name, value in kept.items()}
        tokens = _row(inputs, "input_ids")
        if "attention_mask" in inputs and not all(_row(inputs, "attention_mask")):
            raise ConfigurationError("a prompt with media has padding, attention_mask 0; leave the padding out")
        places = [place for place, token in enumerate(tokens) if token in self._token_ids]
        if not places:
            raise ConfigurationError(
                f"a prompt has media, but none of the tokens that stand for them ({sorted(self._token_ids)}), so the model would "
                'not read them; give a chat whose message has the part {"type": "image", "image": ...}, or put the image token '
                "of the model into the text"
            )
        kinds = {name: _kinds(name, _row(inputs, name), places) for name in BY_TOKEN if name in inputs}
        media = self._found({n: v for n, v in inputs.items() if n not in OF_TEXT}, kinds, [tokens[i] for i in places])
        return _prompt(tokens, places, media)

    def adopted(self, prompt: MediaPrompt) -> MediaPrompt:
        """Return a prompt that another session of the model has read."""
        media = prompt.media
        assert isinstance(media, Media)
        places = [place for place, i in enumerate(prompt.cached) if i >= FIRST_ID]
        return _prompt(list(prompt), places, self._found(media.inputs, media.kinds, media.tokens))

    def of(self, ids: Sequence[int]) -> Media | None:
        """Return the media of a prompt or of the beginning of one, from the ids by which its caches are found."""
        last = max(ids, default=0)
        if last < FIRST_ID:
            return None
        (media,) = (each for each in self._alive.values() if each.first <= last < each.first + len(each.tokens))
        return media

    def tokens(self, ids: Sequence[int]) -> list[int]:
        """Return the token ids of a prompt, from the ids by which its caches are found."""
        media = self.of(ids)
        if media is None:
            return list(ids)
        return [media.tokens[i - media.first] if i >= media.first else i for i in ids]

    def _found(self, inputs: dict[str, Any], kinds: dict[str, Any], tokens: list[int]) -> Media:
        for media in reversed(self._known.values()):
            if media.equals(inputs, kinds, tokens):
                self._known.move_to_end(media.first)
                return media
        media = Media(inputs, kinds, tokens, self._next)
        self._next += len(tokens)
        self._known[media.first] = self._alive[media.first] = media
        total = sum(each.size for each in self._known.values())
        while total > MOST_BYTES and len(self._known) > 1:
            total -= self._known.popitem(last=False)[1].size
        return media


def has_media_inputs(given: Mapping[str, Any]) -> bool:
    """Whether what a processor returned has more than text."""
    return "input_ids" in given and any(name not in WITHOUT_MEANING for name in given.keys() - {*OF_TEXT})


def _prompt(tokens: list[int], places: list[int], media: Media) -> MediaPrompt:
    """Return a prompt with media in some places."""
    cached = list(tokens)
    for number, place in enumerate(places):
        cached[place] = media.first + number
    return MediaPrompt(tokens, cached, media)


def _as_input(value: Any) -> Any:
    """Return an array of any kind as one of mlx; other values as they are."""
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    return mx.array(value) if isinstance(value, np.ndarray) else value


def _row(inputs: Mapping[str, Any], name: str) -> list[int]:
    """Return an input with one value for each position of one prompt."""
    value = inputs.get(name)
    rows: Any = value.tolist() if isinstance(value, mx.array) else value
    if isinstance(rows, list) and rows and not isinstance(rows[0], list):
        rows = [rows]
    if not isinstance(rows, list) or len(rows) != 1 or not isinstance(rows[0], list) or not rows[0]:
        shape = list(value.shape) if isinstance(value, mx.array) else type(value).__qualname__
        raise ConfigurationError(
            f"prompt has media, and its {name} are {shape}; give the tokens of one prompt, [1, P], in a mapping, or several chats"
        )
    return [int(i) for i in rows[0]]


def _kinds(name: str, values: list[int], places: list[int]) -> tuple[int, list[int]]:
    """Return the value that an input has for text, and those for the positions of media."""
    there = set(places)
    of_text = {value for place, value in enumerate(values) if place not in there}
    if len(of_text) > 1:
        raise ConfigurationError(
            f"prompt has media, and several {name} for text, {sorted(of_text)}; leave {name} out, or give one value for text"
        )
    return next(iter(of_text), 0), [values[place] for place in places]


def _equal(one: Any, other: Any) -> bool:
    """Whether two inputs are equal; a model may take several images of different sizes as a list of arrays."""
    if type(one) is not type(other):
        return False
    if isinstance(one, mx.array):
        return one.shape == other.shape and one.dtype == other.dtype and bool(mx.array_equal(one, other).item())
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_equal(value, other[name]) for name, value in one.items())
    return bool(one == other)


def _size(value: Any) -> int:
    """Return the number of bytes of the arrays in an input."""
    if isinstance(value, Mapping):
        return sum(map(_size, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(_size, value))
    return int(value.nbytes) if isinstance(value, mx.array | np.ndarray | Tensor) else 0
