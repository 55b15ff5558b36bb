"""Objects of which an automaton can tell what is asked of the numbers of members, and of members that must fail a schema."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from logitkit.budget import spent, took
from logitkit.errors import PatternTooLarge, UnsupportedSchema
from logitkit.json_schema.conjunction import NOTHING
from logitkit.json_schema.layout import Layout
from logitkit.json_schema.object_plan import MOST_LISTED, object_plan
from logitkit.json_schema.objects import Failing, Objects

if TYPE_CHECKING:
    from logitkit.json_schema.reader import Reader


def countable(reader: Reader, objects: Objects) -> Objects:
    """Return a set of objects with the bounds that can be kept; others are left out, and whether they can is seen by trying.

    That leaves more objects, whatever the keyword is inside of.
    """
    while objects.whole is None and any(count.minimum > 1 for count in objects.counts):
        error = _refused(reader, objects)
        # An automaton can tell whether there is one member.
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


def tellable(reader: Reader, objects: Objects) -> Objects:
    """Return a set of objects with only such schemas to fail as can be told apart; with `lax`, others are left out.

    Raises:
        UnsupportedSchema: Two schemas may have to be failed by members with different names that are not listed.
    """
    kept: list[Failing] = []
    for some in objects.failing:
        if not any(_share_names(objects, some, other) for other in kept):
            kept.append(some)
            continue
        assert some.site is not None
        error = some.site.refuse(
            "several schemas for names that are not listed cannot be negated together, as an automaton cannot tell whether such "
            "names are different; list the names under 'properties'"
        )
        if not reader.left_out.also(error):
            raise error
    return replace(objects, failing=tuple(kept))


def _share_names(objects: Objects, one: Failing, other: Failing) -> bool:
    """Whether there may be names that two schemas are about and that are not listed: a few names always are."""
    shared = one.names & other.names
    possible = (
        [shared & piece.names for piece in objects.pieces if piece.value != NOTHING] if objects.pieces else [shared]
    )
    return any(names.values(MOST_LISTED) is None for names in possible)


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
