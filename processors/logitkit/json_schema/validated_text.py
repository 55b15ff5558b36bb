"""The schemas of strings, bytes and times, narrowed to texts that pydantic's validator accepts. This module imports pydantic."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic.types import ByteSize
from pydantic_core import SchemaValidator

from logitkit.json_schema import time_bounds
from logitkit.json_schema import type_patterns as patterns
from logitkit.json_schema.added_constraints import KEYS, refused
from logitkit.json_schema.exact_bounds import BOUNDS
from logitkit.json_schema.python_patterns import python_as_ecma
from logitkit.json_schema.rust_patterns import rust_as_ecma
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
# The lengths that are checked after a validator, of a value that stands for the text.
LENGTHS_OF = "x-logitkit-lengths-of"
# The formats of texts for which such values have a length.
_HAVE_LENGTHS = {"base64", "base64url", "email", "password"}


def _text(pattern: str, **more: Any) -> Schema:
    return {"type": "string", "pattern": pattern, **more}


class ValidatedText(GenerateJsonSchema):
    """Generates the schemas of strings."""

    def str_schema(self, schema: Any) -> Schema:
        """Return strings that are the same after white space is stripped, if it is, with a pattern as its engine reads it."""
        found = super().str_schema(schema)
        if found.get("pattern") == ByteSize.byte_string_pattern:
            return {**found, "pattern": patterns.SIZE}
        if "pattern" in found:
            pattern, engine = (
                schema["pattern"],
                schema.get("regex_engine") or getattr(self._config, "regex_engine", None),
            )
            # Pydantic asks Python about a compiled pattern, with any engine.
            in_python = engine == "python-re" or not isinstance(pattern, str)
            found["pattern"] = python_as_ecma(pattern) if in_python else rust_as_ecma(pattern)
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
        # Constraints that are added later stand beside them.
        return {**found, "allOf": [lengths]} if lengths else found

    def url_schema(self, schema: Any) -> Schema:
        """Return URLs of the allowed schemes."""
        longest, schemes = schema.get("max_length"), schema.get("allowed_schemes")
        host, port = schema.get("default_host"), schema.get("default_port")
        # The URL of a file has no port, and its host can be empty only if nothing asks for one.
        files = not schema.get("host_required") and port is None and host != ""
        if not files and schemes == ["file"]:
            raise refused("a URL of the scheme 'file' alone that must have a host")
        # A default can only be put into a URL that may have a host.
        found = _text(patterns.url(schemes, longest, files=files, opaque=files and host is None), **{_URL: True})
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
        return _text(f"^{_beyond(_bounds(schema), time_bounds.day_beyond)}{patterns.DAY[1:]}")

    def time_schema(self, schema: Any) -> Schema:
        """Return times of day within the bounds of the type, with or without an offset as the type says."""
        zone, limits = _zone(schema)
        return _text(f"^{_beyond(limits, time_bounds.clock_beyond)}{patterns.CLOCK}{zone}$")

    def datetime_schema(self, schema: Any) -> Schema:
        """Return days and times within the bounds of the type, with or without an offset as the type says."""
        zone, limits = _zone(schema)
        return _text(f"^{_beyond(limits, time_bounds.clock_beyond)}{patterns.DAY[1:-1]}T{patterns.CLOCK}{zone}$")

    def timedelta_schema(self, schema: Any) -> Schema:
        """Return durations within the bounds of the type."""
        if schema.get("multiple_of") is not None:
            raise refused(f"multiple_of={schema['multiple_of']!r} on a timedelta")
        beyond = _beyond(_bounds(schema), time_bounds.duration_beyond)
        return _text(f"^{beyond}{time_bounds.DURATION[1:]}" if beyond else patterns.DURATION)


def _bounds(schema: Any) -> dict[str, Any]:
    """Return the bounds of a type, as values of it; a bound on durations may be given in seconds."""
    read = SchemaValidator({"type": schema["type"]}).validate_python
    return {name: read(schema[name]) for name in BOUNDS if schema.get(name) is not None}


def _beyond(limits: dict[str, Any], lookahead: Callable[[Any, bool, bool], str]) -> str:
    """Return the lookaheads for some bounds."""
    return "".join(lookahead(bound, name[0] == "l", name[1] == "e") for name, bound in limits.items())


def _zone(schema: Any) -> tuple[str, dict[str, Any]]:
    """Return the pattern of the offsets that times may have, and the bounds, which all have that offset or none.

    Times with one offset are compared as they are written, and so are two of which one has none.
    """
    limits, only = _bounds(schema), schema.get("tz_constraint")
    zones = {timezone(offset) for bound in limits.values() if (offset := bound.utcoffset()) is not None}
    zones |= {timezone(timedelta(seconds=only))} if isinstance(only, int) else set()
    if not zones:
        return {"naive": "", "aware": patterns.OFFSET}.get(only or "", f"(?:{patterns.OFFSET})?"), limits
    if len(zones) > 1 and (only == "naive" or schema["type"] == "time"):
        raise refused(f"bounds with several offsets: {', '.join(map(str, limits.values()))}")
    zone = min(zones, key=str)
    for name, bound in limits.items():
        limits[name] = (
            bound.astimezone(zone) if isinstance(bound, datetime) and bound.utcoffset() is not None else bound
        )
    if only == "naive":
        return "", limits
    return _offset(zone) if only is not None or len(zones) > 1 else f"(?:{_offset(zone)})?", limits


def _offset(zone: timezone) -> str:
    seconds = int(zone.utcoffset(None).total_seconds())
    sign, minutes = "-" if seconds < 0 else "+", abs(seconds) // 60
    written = f"\\{sign}{minutes // 60:02}:{minutes % 60:02}"
    # In JSON, an offset has no seconds.
    return "(?!)" if seconds % 60 else f"(?:Z|{written})" if not seconds else written


def with_patterns(schema: Any) -> Any:
    """Return a schema with patterns in place of pydantic's own formats, in itself and inside."""
    if not isinstance(schema, dict):
        return schema
    if unknown := KEYS & schema.keys():
        raise refused(f"the constraint {min(unknown)}={schema[min(unknown)]!r}, which JSON Schema does not have")
    found = replaced(schema, with_patterns)
    encoding, is_url, name = found.pop(_BYTES, None), found.pop(_URL, False), found.get("format")
    own: Schema = found.pop(_OWN, {})
    lengths: Schema = found.pop(LENGTHS_OF, {})
    if lengths and not encoding and not is_url and name not in _HAVE_LENGTHS:
        raise refused(f"{lengths} for a value that has no length")
    found |= lengths
    checks: list[Schema] = []
    letters = {"base64": "+/", "base64url": "-_"}.get(name or "")
    if letters:
        found = {keyword: value for keyword, value in found.items() if keyword not in own or value != own[keyword]}
        checks += [own, _base64(letters, encoding, _lengths_of(found))]
    elif encoding:
        checks.append(_bytes(encoding, *_lengths_of(found)))
    elif is_url and "maxLength" in found:
        # The validator adds a slash to a URL without a path, and writes an apostrophe in a query as three characters.
        checks.append({"maxLength": max(found.pop("maxLength") - 1, 0), "pattern": "^[^']*$"})
    elif name in patterns.PYDANTIC_FORMATS:
        checks.append({"pattern": patterns.PYDANTIC_FORMATS[name]})
    if letters or name in patterns.PYDANTIC_FORMATS or name in _UNCHECKED:
        del found["format"]
    checks = [check for check in checks if check]
    if len(checks) == 1 and not found.keys() & checks[0].keys():
        return {**found, **checks[0]}
    return {**found, "allOf": [*found.get("allOf", ()), *checks]} if checks else found


def _base64(letters: str, encoding: str | None, lengths: tuple[int, int | None]) -> Schema:
    """Return the schema of texts that Base64Bytes and its relatives read, in a model with an encoding of bytes, or None."""
    if encoding not in (None, "utf8"):
        raise refused(f"Base64Bytes in a model with val_json_bytes={encoding!r}, which encodes the text once more")
    return {"pattern": patterns.base64(letters, ascii_only=encoding is None, lengths=lengths)}


def _lengths_of(found: Schema) -> tuple[int, int | None]:
    """Take the lengths out of a schema."""
    return found.pop("minLength", 0), found.pop("maxLength", None)


def _bytes(encoding: str, least: int, most: int | None) -> Schema:
    """Return the schema of texts that encode some number of bytes."""
    if encoding == "base64":
        return {"pattern": patterns.base64("-_", lengths=(least, most))}
    if encoding == "hex" and most is not None and most < least:
        return {"pattern": patterns.NEVER}
    if encoding == "hex":
        return {"pattern": f"^(?:[0-9a-f]{{2}}){{{least},{'' if most is None else most}}}$"}
    found: Schema = {"minLength": least} if least else {}
    # A character of ASCII is one byte.
    return found if most is None else {**found, "maxLength": most, "pattern": r"^[\x00-\x7f]*$"}
