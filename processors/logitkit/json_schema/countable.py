"""Objects of which the bounds on the numbers of members can be kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from logitkit.budget import spent, took
from logitkit.errors import PatternTooLarge, UnsupportedSchema
from logitkit.json_schema.layout import Layout
from logitkit.json_schema.object_plan import object_plan
from logitkit.json_schema.objects import Objects

if TYPE_CHECKING:
    from logitkit.json_schema.reader import Reader


def countable(reader: Reader, objects: Objects) -> Objects:
    """Return a set of objects with the bounds that can be kept; others are left out, and whether they can is seen by trying.

    That leaves more objects, whatever the keyword is inside of.
    """
    while objects.whole is None and any(count.minimum > 1 for count in objects.counts):
        error = _refused(reader, objects)
        # That there is one member can be told.
        counts = tuple(
            [
                count._replace(minimum=1) if error and count.site == (error.pointer, error.keyword) else count
                for count in objects.counts
            ]
        )
        if error is None or counts == objects.counts or not reader.left_out.also(error):
            break
        objects = replace(objects, counts=counts)
    return objects


def _refused(reader: Reader, objects: Objects) -> UnsupportedSchema | None:
    before = spent()
    try:
        object_plan(objects, reader.everything.strings, Layout())
    except UnsupportedSchema as error:
        return error
    except PatternTooLarge:
        # As it will be when it is written.
        pass
    finally:
        took(before - spent())
    return None
