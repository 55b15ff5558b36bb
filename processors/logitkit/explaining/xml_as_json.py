"""Arguments between tags as the beginning of a JSON object, which a schema can judge."""

from __future__ import annotations

import json

from logitkit.languages.xml_arguments import XmlArguments

__all__ = ["as_json"]


def as_json(language: XmlArguments, text: bytes) -> bytes:
    r"""Return the members of an object between tags as JSON, as far as they are there.

    Args:
        language: The language of the members.
        text: The tags; they may stop anywhere.

    Example:
        >>> language = XmlArguments({"properties": {"n": {"type": "integer"}}}, "<p={name}>", "</p>", "")
        >>> as_json(language, b'<p=s>a"b</p><p=n>3')
        b'{"s":"a\\"b","n":3'
    """
    tags = language.tags
    found = []
    for part in text.decode("utf-8", "ignore").split(tags.before_name)[1:]:
        after = next((after for after in tags.after_names if after in part), tags.after_names[0])
        name, named, rest = part.partition(after)
        value, ended, _ = rest.partition(language.end)
        is_string = after == tags.after_names[0] if tags.tells_kinds and named else _is_string(language, name)
        if not is_string:
            found.append(f"{json.dumps(name)}:{value}")
        elif named:
            found.append(f"{json.dumps(name)}:{json.dumps(value, ensure_ascii=False)}"[: None if ended else -1])
        else:
            found.append(json.dumps(name)[:-1])
    return ("{" + ",".join(found)).encode()


def _is_string(language: XmlArguments, name: str) -> bool:
    """Whether a value is written as raw text."""
    schema = language.schema.get("properties", {}).get(name, {}) if isinstance(language.schema, dict) else {}
    return not isinstance(schema, dict) or schema.get("type", "string") == "string"
