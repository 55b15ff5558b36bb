"""The texts of objects and arrays that a schema gives as a whole, as `enum` and `const` do."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from logitkit.json_schema.decimals import exact, plain_text
from logitkit.json_schema.layout import is_unicode, quoted, written
from logitkit.json_schema.plan import Plan
from logitkit.limits import Limits
from logitkit.patterns.syntax import Empty

# Strings, literals, and what is between them.
_PIECES = re.compile(r'"(?:[^"\\]|\\.)*"|null|true|false|[^"ntf]+')


def constant_text(value: Any, limits: Limits) -> str | None:
    """Return the one text of a value without white space, or None if it holds a lone surrogate.

    Raises:
        PatternTooLarge: A number has too many digits.

    Example:
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> constant_text({"a": [1.0, None]}, DEFAULT_LIMITS)
        '{"a":[1,null]}'
    """
    if isinstance(value, str):
        return quoted(value) if is_unicode(value) else None
    if isinstance(value, Mapping):
        names = [constant_text(name, limits) for name in value]
        texts = [constant_text(inside, limits) for inside in value.values()]
        if None in names or None in texts:
            return None
        return "{" + ",".join(f"{name}:{text}" for name, text in zip(names, texts, strict=True)) + "}"
    if isinstance(value, list):
        items = [constant_text(item, limits) for item in value]
        return None if None in items else "[" + ",".join(item or "" for item in items) + "]"
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return plain_text(exact(value), limits)
    return json.dumps(value)


def constants_plan(values: Sequence[Any], limits: Limits) -> Plan | None:
    """Return the graph of what follows the opening bracket of any of some values, None if none can be written.

    Raises:
        PatternTooLarge: A number has too many digits.
        UnsupportedSchema: There are too many values; the pointer is the caller's to say.
    """
    texts = [text for text in (constant_text(value, limits) for value in values) if text is not None]
    if not texts:
        return None
    plan = Plan()
    start, plan.end = plan.state("start"), plan.state("end")
    for text in texts:
        source = start
        *pieces, last = _PIECES.findall(text[1:])
        for piece in pieces:
            # Values that begin alike share states.
            known, target = len(plan.moves), plan.state((source, piece))
            if target == known:
                _read(plan, source, piece, target)
            source = target
        _read(plan, source, last, plan.end)
    return plan


def _read(plan: Plan, source: int, piece: str, target: int) -> None:
    if piece[0] in '"ntf':
        plan.move(source, Empty(), None, target, piece)
    else:
        plan.move(source, written(piece), None, target)
