"""The schemas of strings, bytes and times, narrowed to texts that pydantic's validator accepts. This module imports pydantic."""

from __future__ import annotations

from typing import Any

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
# Marks strings that stand for bytes until the schema is complete, because Base64Bytes and Base64Str have the same schema.
_BYTES = "x-logitkit-bytes"


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
        checks = []
        if schema.get("strip_whitespace", self._config.str_strip_whitespace):
            checks.append({"pattern": r"^(?:[^\s\x1c-\x1f\x85](?:[^]*[^\s\x1c-\x1f\x85])?)?$"})
        if schema.get("ascii_only"):
            checks.append({"pattern": r"^[\x00-\x7f]*$"})
        return {**found, "allOf": checks} if checks else found

    def bytes_schema(self, schema: Any) -> Schema:
        """Return texts of bytes, whose lengths count bytes."""
        least, most = schema.get("min_length", 0), schema.get("max_length")
        encoding = getattr(self._config, "val_json_bytes", "utf8")
        if encoding == "base64":
            return _text(patterns.base64("-_", lengths=(least, most)))
        if encoding == "hex":
            return _text(f"^(?:[0-9a-f]{{2}}){{{least},{'' if most is None else most}}}$")
        found = {"type": "string", _BYTES: True}
        if least:
            found["minLength"] = least
        # A character of ASCII is one byte.
        return found if most is None else {**found, "maxLength": most, "pattern": r"^[\x00-\x7f]*$"}

    def url_schema(self, schema: Any) -> Schema:
        """Return URLs of the allowed schemes."""
        longest = schema.get("max_length")
        found = _text(patterns.url(schema.get("allowed_schemes"), longest))
        return found if longest is None or longest >= patterns.SHORT_URL else {**found, "maxLength": longest}

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
    is_bytes, name = found.pop(_BYTES, False), found.get("format")
    letters = {"base64": "+/", "base64url": "-_"}.get(name or "")
    pattern = patterns.FORMATS.get(name or "") or (letters and patterns.base64(letters, ascii_only=not is_bytes))
    if pattern or name in _UNCHECKED:
        del found["format"]
    if pattern and "pattern" in found:
        found["allOf"] = [*found.get("allOf", ()), {"pattern": pattern}]
    elif pattern:
        found["pattern"] = pattern
    return found
