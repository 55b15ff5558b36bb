"""Which keywords `lax=True` leaves out of a schema, and objects whose members an automaton can count."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from logitkit.budget import spent, took
from logitkit.errors import PatternTooLarge, UnsupportedSchema
from logitkit.json_schema.conjunction import NOTHING
from logitkit.json_schema.layout import Layout
from logitkit.json_schema.member_names import MOST_LISTED
from logitkit.json_schema.object_plan import object_plan
from logitkit.json_schema.objects import Failing, Objects

if TYPE_CHECKING:
    from logitkit.json_schema.reader import Reader

# If the steps of all keywords together exceed the limit, a keyword is to blame that took at least this share of them.
_SHARE = 32


@dataclass(eq=False, slots=True)
class LeftOut:
    """The keywords that are left out so far.

    Args:
        lax: Whether any keyword may be left out.
        most: The maximum number of steps for attempts that failed.
        advises: Whether errors say what `lax=True` would leave out. It must be an option of the caller.
        reasons: The error of each, by the pointer of its schema; the keyword None stands for the negation of the schema.
        negated: The pointers of schemas that are negated.
    """

    lax: bool = False
    most: int = 0
    advises: bool = False
    reasons: dict[tuple[str | None, str | None], str] = field(default_factory=dict)
    negated: set[str] = field(default_factory=set)
    _in_vain: int = 0
    _given_up: bool = False

    def __contains__(self, keyword: tuple[str, str | None]) -> bool:
        return keyword in self.reasons

    def also(self, error: UnsupportedSchema) -> bool:
        """Leave out the keyword that an error names, again if need be, and return whether that is allowed.

        If it is not, the error says what `lax=True` would leave out.
        """
        if self.lax and error.pointer is not None:
            self.reasons.setdefault((error.pointer, error.keyword), str(error))
        elif not self.lax:
            self._advise(error, error.pointer is not None)
        return self.lax

    def add(self, error: UnsupportedSchema, before: int) -> bool:
        """Leave out the keyword that an error names, and return whether another attempt may succeed.

        Args:
            error: Why the attempt failed.
            before: The steps that had been counted before the attempt.

        Raises:
            UnsupportedSchema: Failed attempts took too many steps.
        """
        steps = spent() - before
        helps = error.pointer is not None and (error.pointer, error.keyword) not in self.reasons
        helps = helps and not self._given_up and (spent() <= self.most or steps >= self.most // _SHARE)
        if not self.lax:
            self._advise(error, helps and (error.keyword is not None or error.pointer in self.negated))
        if not self.lax or not helps:
            return False
        if self._in_vain > self.most:
            self._given_up = True
            reason = "lax=True has started again until that took more steps than the limit; remove such keywords from the schema"
            raise UnsupportedSchema(f"{error.reason} ({reason})", error.pointer, error.keyword)
        self.also(error)
        # Failed attempts have a limit of their own, or nothing would be left after a pattern that is too large.
        self._in_vain += steps
        took(-steps)
        return True

    def _advise(self, error: UnsupportedSchema, helps: bool) -> None:
        """Say in an error whether leaving out what it names helps. The innermost schema knows it best, and is asked first."""
        if self.advises and error.left_out_by_lax is None:
            error.left_out_by_lax = helps


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
