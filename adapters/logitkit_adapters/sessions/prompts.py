"""Prompts of every kind, converted to rows of token ids."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.parameters.scalars import as_integer
from logitkit.vocabulary.marker import encoded
from logitkit_adapters.sessions.media_prompt import media_parts, refuse_media

__all__ = ["Prompt", "chats_of", "check_messages", "no_template", "read_prompts", "stands_for_several"]

Message = Mapping[str, Any]
PromptItem = str | int | Message | Sequence[int] | Sequence[Message]
Prompt = str | Message | Tensor | NDArray[Any] | Sequence[PromptItem]

ALLOWED = (
    "give a text, a list of token ids, a tensor or array of them, the output of a tokenizer (a mapping with input_ids), or a "
    'chat (a list of {"role": ..., "content": ...}); or a list of texts, of lists of token ids or of chats'
)
# Other outputs of tokenizers, which a model does not need in addition to the ids and the mask.
NO_MATTER = frozenset({"token_type_ids", "special_tokens_mask", "offset_mapping", "length"})
MOST_ID = 2**31 - 1


def read_prompts(
    prompt: Any, encode: Callable[[str], Sequence[int]] | None, tokenizer: Any = None, attention_mask: Any = None
) -> list[list[int]]:
    """Return the tokens of each prompt; none for a prompt that contains only padding, by its mask.

    Args:
        prompt: A text, a list of token ids, a tensor or array of them [P] or [B, P], a mapping with `input_ids` and possibly
            `attention_mask`, as tokenizers return it, or a chat; or a list of texts, of lists of token ids, or of chats.
        encode: Returns the tokens of a text; None without a tokenizer.
        tokenizer: The tokenizer whose chat template is applied.
        attention_mask: 1 for a token and 0 for padding, in the shape of the ids.

    Raises:
        ConfigurationError: There is no prompt, a prompt has another type or no tokens, or a text or chat is given without a
            tokenizer or chat template.
    """
    # It would be read as its token ids alone.
    refuse_media([prompt], "this model")
    if isinstance(prompt, Mapping):
        return _read_encoding(prompt, attention_mask)
    if attention_mask is not None:
        return _masked(prompt, attention_mask)
    given = _plain(prompt)
    if isinstance(given, str):
        return [_encoded(given, encode)]
    items = _items(given)
    kind = ID if _are_plain(items) else _only_kind(items)
    if kind == ID:
        return [_checked_ids(items)]
    if kind == TEXT:
        return [_encoded(text, encode) for text in items]
    if kind == IDS:
        refuse_media(items, "this model")
        return [_checked_ids(list(_plain(ids))) for ids in items]
    if kind == MESSAGE:
        return [_applied(items, tokenizer)]
    if kind == CHAT:
        return [_applied(list(messages), tokenizer) for messages in items]
    raise _refused(given)


def stands_for_several(prompt: Any) -> bool:
    """Return whether a prompt that `read_prompts` accepts stands for several, even if there is only one."""
    if isinstance(prompt, Mapping):
        return stands_for_several(prompt["input_ids"])
    if hasattr(prompt, "shape"):
        return len(prompt.shape) > 1
    if isinstance(prompt, str):
        return False
    first = prompt[0]
    return as_integer(first) is None and not isinstance(first, Mapping)


TEXT, ID, IDS, MESSAGE, CHAT = "a text", "a token id", "a list of token ids", "a chat message", "a chat"


def _items(given: Any) -> list[Any]:
    if not _is_list(given):
        raise _refused(given)
    if not given:
        raise ConfigurationError(
            "prompt is empty: it has no tokens; give at least one token, such as the model's BOS, or a text"
        )
    return list(given)


def _only_kind(items: list[Any]) -> str:
    """Return the kind of all items of a list, which must be the same."""
    kinds = list(map(_kind, items))
    if other := next((place for place, kind in enumerate(kinds) if kind != kinds[0]), 0):
        raise ConfigurationError(
            f"prompt is a list that begins with {kinds[0]}, and item {other} is {kinds[other]}: {reprlib.repr(items[other])}; "
            f"all items must be of one kind: {ALLOWED}"
        )
    return kinds[0]


def _kind(item: Any) -> str:
    if isinstance(item, str):
        return TEXT
    if as_integer(item) is not None:
        return ID
    if isinstance(item, Mapping):
        return MESSAGE if "role" in item else "a mapping without a role"
    if _is_list(_plain(item)):
        return CHAT if isinstance(next(iter(_plain(item)), None), Mapping) else IDS
    return f"of the type {type(item).__qualname__}"


def _read_encoding(encoding: Mapping[str, Any], attention_mask: Any) -> list[list[int]]:
    unknown = [name for name in encoding if name not in {"input_ids", "attention_mask"} | NO_MATTER]
    if "input_ids" not in encoding or unknown:
        reason = f"{reprlib.repr(unknown[0])}, which is not a part of a prompt" if unknown else "no input_ids"
        hint = "; put a chat message into a list" if "role" in encoding else ""
        raise ConfigurationError(f"prompt is a {type(encoding).__qualname__} with {reason}{hint}; {ALLOWED}")
    mask = encoding.get("attention_mask")
    if mask is not None and attention_mask is not None:
        raise ConfigurationError("attention_mask is given twice: as an argument and in the prompt; leave one out")
    mask = attention_mask if mask is None else mask
    return read_prompts(_plain(encoding["input_ids"]), None) if mask is None else _masked(encoding["input_ids"], mask)


def _masked(ids: Any, attention_mask: Any) -> list[list[int]]:
    """Return the ids with a mask of 1."""
    rows, masks = _rows("prompt", ids), _rows("attention_mask", attention_mask)
    if list(map(len, rows)) != list(map(len, masks)):
        raise ConfigurationError(
            f"attention_mask has {len(masks)} rows of {reprlib.repr([*map(len, masks)])} values, and the prompt {len(rows)} rows "
            f"of {reprlib.repr([*map(len, rows)])} token ids; give one value for each token id"
        )
    kept = []
    for row, mask in zip(rows, masks, strict=True):
        wrong = [value for value in mask if value not in (0, 1)]
        if wrong:
            raise ConfigurationError(
                f"attention_mask has the value {reprlib.repr(wrong[0])}; allowed are 1 for a token and 0 for padding"
            )
        tokens = [token for token, there in zip(row, mask, strict=True) if there]
        kept.append(_checked_ids(tokens) if tokens or not row else [])
    return kept


def _rows(name: str, values: Any) -> list[list[Any]]:
    """Return numbers, [P] or [B, P], as rows."""
    given = _plain(values)
    rows = [_plain(row) for row in given] if _is_list(given) else []
    if rows and not any(map(_is_list, rows)):
        rows = [rows]
    if not rows or not all(map(_is_list, rows)):
        raise ConfigurationError(
            f"{name} is {reprlib.repr(values)}; with an attention_mask, both must be lists, tensors or arrays of integers, "
            "[P] or [B, P]"
        )
    return [list(row) for row in rows]


def _applied(messages: list[Any], tokenizer: Any) -> list[int]:
    """Return the tokens of a chat, up to the beginning of the answer."""
    check_messages(messages)
    if parts := media_parts(messages):
        raise ConfigurationError(
            f"a chat has a part of the type {parts[0]['type']!r}, and only text is read here; for images, use mlx-vlm with "
            "generate_typed, or with generate or stream of a Session"
        )
    try:
        found = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True)
    except (AttributeError, ValueError) as error:
        if getattr(tokenizer, "chat_template", None) is not None:
            raise
        raise no_template(tokenizer) from error
    (row,) = read_prompts(found, None)
    return row


def check_messages(messages: Iterable[Any]) -> None:
    """Check that each message of a chat has a role, and a content or tool calls.

    Raises:
        ConfigurationError: One has not.
    """
    for message in messages:
        known = isinstance(message, Mapping) and isinstance(message.get("role"), str)
        if not known or not {"content", "tool_calls"} & {*message}:
            raise ConfigurationError(
                f'a chat has the message {reprlib.repr(message)}; give each as {{"role": ..., "content": ...}}, with a role such '
                'as "user"'
            )


def no_template(tokenizer: Any) -> ConfigurationError:
    """Return the error for a chat without a tokenizer, or with one that has no template."""
    what = "there is no tokenizer" if tokenizer is None else "the tokenizer has no chat template"
    return ConfigurationError(
        f"prompt is a chat, but {what}; give a text or token ids in the form that the model expects"
    )


def chats_of(prompt: Any) -> list[list[Any]]:
    """Return the messages of each chat, if a prompt is a chat or a list of chats; otherwise []."""
    items = list(prompt) if _is_list(prompt) else []
    if items and all(_kind(item) == MESSAGE for item in items):
        return [items]
    return [list(messages) for messages in items] if items and all(_kind(item) == CHAT for item in items) else []


def _encoded(text: str, encode: Callable[[str], Sequence[int]] | None) -> list[int]:
    if encode is None:
        raise ConfigurationError(
            f"prompt is the text {reprlib.repr(text)}, but there is no tokenizer; give one, or give token ids"
        )
    encoded("a prompt", text)
    return _checked_ids([*encode(text)])


def _checked_ids(tokens: list[Any]) -> list[int]:
    if not tokens:
        raise ConfigurationError("a prompt has no tokens; give at least one, such as the model's BOS")
    if not _are_plain(tokens) or not 0 <= min(tokens) <= max(tokens) <= MOST_ID:
        wrong = next((i for i in tokens if (number := as_integer(i)) is None or not 0 <= number <= MOST_ID), None)
        if wrong is not None:
            raise ConfigurationError(
                f"a prompt has the token id {reprlib.repr(wrong)}; allowed are integers from 0 to {MOST_ID}"
            )
        tokens = list(map(int, tokens))
    return tokens


def _plain(values: Any) -> Any:
    """Return a tensor or an array of any library as Python's lists and numbers."""
    return values.tolist() if hasattr(values, "tolist") and hasattr(values, "shape") else values


def _is_list(values: Any) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str | bytes | bytearray | memoryview)


def _are_plain(values: Iterable[Any]) -> bool:
    """Whether all values are Python integers. Checks the set of types, since a loop over a long prompt is slow."""
    return set(map(type, values)) == {int}


def _refused(given: Any) -> ConfigurationError:
    return ConfigurationError(f"prompt is {reprlib.repr(given)}, of the type {type(given).__qualname__}; {ALLOWED}")
