"""Free text in a tag with a maximum number of tokens: the end of the tag belongs to the text, as it must come in time."""

from __future__ import annotations

from collections.abc import Sequence

from logitkit.languages.combined import either
from logitkit.languages.free_text import any_text
from logitkit.languages.language import Language
from logitkit.languages.texts import SpecialToken
from logitkit.structural_tags.document import JsonPart
from logitkit.structural_tags.formats import excluded_tokens

__all__ = ["limited_text"]


def limited_text(part: JsonPart, ends: Sequence[str | SpecialToken]) -> Language | None:
    """Return the language of a tag's content and end, if the content is free text with a maximum number of tokens.

    Args:
        part: The content.
        ends: The texts that may end the tag, not empty.

    Raises:
        ConfigurationError: It is not such a format; the message has its path.
    """
    kind = part.value.get("type") if isinstance(part.value, dict) else None
    if kind not in ("any_text", "any_tokens") or not part.has("max_tokens"):
        return None
    own = ("excludes", "max_chars") if kind == "any_text" else ("exclude_tokens",)
    part.check_fields(("type",), (*own, "max_tokens"))
    if part.has("max_chars"):
        raise part.inside("max_tokens").refuse("null if 'max_chars' is given")
    most = part.integer("max_tokens", 0)
    # The content holds none of the ends, so it holds nothing that an end is a part of.
    given: list[str | SpecialToken] = [*part.texts("excludes"), *excluded_tokens(part)]
    excluded = [one for one in given if not any(_is_in(end, one) for end in ends)]
    if any(_overlap(one, end) for one in excluded for end in ends):
        raise part.inside("excludes").refuse(
            "a list of texts that do not overlap the end of the tag, if 'max_tokens' is given"
        )
    if not most:
        return either(*ends)
    return any_text(until=ends, exclude=excluded, max_tokens=most)


def _is_in(one: str | SpecialToken, other: str | SpecialToken) -> bool:
    return one in other if isinstance(one, str) and isinstance(other, str) else one == other


def _overlap(excluded: str | SpecialToken, end: str | SpecialToken) -> bool:
    """Whether an excluded text may occur in the end of a tag, or go over into it."""
    if not isinstance(excluded, str) or not isinstance(end, str):
        return False
    return excluded in end or any(end.startswith(excluded[at:]) for at in range(1, len(excluded)))
