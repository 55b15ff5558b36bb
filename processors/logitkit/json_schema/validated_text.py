"""The schemas of strings, bytes and times, narrowed to texts that pydantic's validator accepts. This module imports pydantic."""

from __future__ import annotations

from typing import Any

from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema
from pydantic.types import ByteSize

from logitkit.json_schema import type_patterns as patterns
from logitkit.json_schema.rust_patterns import ecma_pattern
from logitkit.json_schema.subschemas import replaced

Schema = dict[str, Any]

# Formats that a validator does not check, or that are patterns here. That a file exists cannot be said.
_UNCHECKED = {
    "binary",
    "path",
    "file-path",
    "directory-path",
    "password",
    *(f"uuid{version}" for version in range(1, 9)),
}
# Marks strings that stand for bytes, and URLs, until the schema is complete: Base64Bytes and Base64Str have the same schema, and
# a `Field` around such a type adds lengths, which the validator compares with the bytes, or with the URL as it writes it.
_BYTES = "x-logitkit-bytes"
_URL = "x-logitkit-url"
# The lengths of a string itself, which a Base64Str that is made of it compares with the encoded text.
_OWN = "x-logitkit-lengths"


def _text(pattern: str, **more: Any) -> Schema:
    return {"type": "string", "pattern": pattern, **more}


class ValidatedText(GenerateJsonSchema):
    """Generates the schemas of strings."""

    def str_schema(self, schema: Any) -> Schema:
        """Return strings that are the same after white space is stripped, if it is, with a pattern as Rust reads it."""
        found = super().str_schema(schema)
        if found.get("pattern") == ByteSize.byte_string_pattern:
            return {**found, "pattern": patterns.SIZE}
        if "pattern" in found:
            found["pattern"] = ecma_pattern(found["pattern"])
        own = {name: found[name] for name in ("minLength", "maxLength") if name in found}
        if own:
            found[_OWN] = own
        checks = []
        if schema.get("strip_whitespace", self._config.str_strip_whitespace):
            checks.append({"pattern": r"^(?:[^\s\x1c-\x1f\x85](?:[^]*[^\s\x1c-\x1f\x85])?)?$"})
        if schema.get("ascii_only"):
            checks.append({"pattern": r"^[\x00-\x7f]*$"})
        return {**found, "allOf": checks} if checks else found

    def bytes_schema(self, schema: Any) -> Schema:
        """Return texts of bytes, whose lengths count bytes."""
        encoding = getattr(self._config, "val_json_bytes", "utf8")
        found: Schema = {"type": "string", _BYTES: encoding}
        lengths = _bytes(encoding, schema.get("min_length", 0), schema.get("max_length"))
        # What is added later stands beside them.
        return {**found, "allOf": [lengths]} if lengths else found

    def url_schema(self, schema: Any) -> Schema:
        """Return URLs of the allowed schemes."""
        longest = schema.get("max_length")
        found = _text(patterns.url(schema.get("allowed_schemes"), longest), **{_URL: True})
        return (
            found if longest is None or longest >= patterns.SHORT_URL else {**found, "allOf": [{"maxLength": longest}]}
        )

    def multi_host_url_schema(self, schema: Any) -> Schema:
        """Return URLs of the allowed schemes with one host."""
        return self.url_schema(schema)

    def uuid_schema(self, schema: Any) -> Schema:
        """Return UUIDs of a version."""
        return _text(patterns.uuid(schema["version"])) if "version" in schema else super().uuid_schema(schema)

    def date_schema(self, schema: Any) -> Schema:
        """Return the days that Python has, within the bounds of the type."""
        bounds = [
            patterns.day_beyond(schema[name], name[0] == "l", name[1] == "e")
            for name in ("ge", "gt", "le", "lt")
            if schema.get(name) is not None
        ]
        return _text(f"^{''.join(bounds)}{patterns.DAY[1:]}")

    def time_schema(self, schema: Any) -> Schema:
        """Return times of day, with or without an offset as the type says."""
        return _text(f"^{self._zoned(schema, patterns.CLOCK)}$")

    def datetime_schema(self, schema: Any) -> Schema:
        """Return days and times, with or without an offset as the type says."""
        return _text(f"{patterns.DAY[:-1]}T{self._zoned(schema, patterns.CLOCK)}$")

    def _zoned(self, schema: Any, clock: str) -> str:
        zone = schema.get("tz_constraint")
        if isinstance(zone, int):
            sign, minutes = "-" if zone < 0 else "+", abs(zone) // 60
            return clock + (f"\\{sign}{minutes // 60:02}:{minutes % 60:02}" if zone % 60 == 0 else "(?!)")
        return {"naive": clock, "aware": clock + patterns.OFFSET}.get(zone or "", f"{clock}{patterns.OFFSET}?")

    def timedelta_schema(self, schema: Any) -> Schema:
        """Return durations."""
        return _text(patterns.DURATION)


def with_patterns(schema: Any) -> Any:
    """Return a schema with patterns in place of pydantic's own formats, in itself and inside."""
    if not isinstance(schema, dict):
        return schema
    found = replaced(schema, with_patterns)
    encoding, is_url, name = found.pop(_BYTES, None), found.pop(_URL, False), found.get("format")
    own: Schema = found.pop(_OWN, {})
    checks: list[Schema] = []
    letters = {"base64": "+/", "base64url": "-_"}.get(name or "")
    if letters and encoding not in (None, "utf8"):
        raise PydanticInvalidForJsonSchema(
            f"Base64Bytes in a model with val_json_bytes={encoding!r}, which encodes the text once more"
        )
    if letters:
        found = {keyword: value for keyword, value in found.items() if keyword not in own or value != own[keyword]}
        checks += [own] if own else []
        checks.append({"pattern": patterns.base64(letters, ascii_only=encoding is None, lengths=_lengths_of(found))})
    elif encoding:
        checks.append(_bytes(encoding, *_lengths_of(found)))
    elif is_url and "maxLength" in found:
        # The validator adds a slash to a URL without a path, and writes an apostrophe in a query as three characters.
        checks.append({"maxLength": max(found.pop("maxLength") - 1, 0), "pattern": "^[^']*$"})
    elif name in patterns.FORMATS:
        checks.append({"pattern": patterns.FORMATS[name]})
    if letters or name in patterns.FORMATS or name in _UNCHECKED:
        del found["format"]
    checks = [check for check in checks if check]
    if len(checks) == 1 and not found.keys() & checks[0].keys():
        return {**found, **checks[0]}
    return {**found, "allOf": [*found.get("allOf", ()), *checks]} if checks else found


def _lengths_of(found: Schema) -> tuple[int, int | None]:
    """Take the lengths out of a schema."""
    return found.pop("minLength", 0), found.pop("maxLength", None)


def _bytes(encoding: str, least: int, most: int | None) -> Schema:
    """Return the schema of texts that encode some number of bytes."""
    if encoding == "base64":
        return {"pattern": patterns.base64("-_", lengths=(least, most))}
    if encoding == "hex":
        return {"pattern": f"^(?:[0-9a-f]{{2}}){{{least},{'' if most is None else most}}}$"}
    found: Schema = {"minLength": least} if least else {}
    # A character of ASCII is one byte.
    return found if most is None else {**found, "maxLength": most, "pattern": r"^[\x00-\x7f]*$"}
