"""Which keywords `lax=True` leaves out of a schema."""

from __future__ import annotations

from dataclasses import dataclass, field

from logitkit.budget import spent, took
from logitkit.errors import UnsupportedSchema

# If the steps of all keywords together exceed the limit, a keyword is to blame that took at least this share of them.
_SHARE = 32


@dataclass(eq=False, slots=True)
class LeftOut:
    """The keywords that are left out so far.

    Args:
        lax: Whether any keyword may be left out.
        most: The maximum number of steps for attempts that failed.
        reasons: The error of each, by the pointer of its schema; the keyword None stands for the negation of the schema.
    """

    lax: bool = False
    most: int = 0
    reasons: dict[tuple[str | None, str | None], str] = field(default_factory=dict)
    _in_vain: int = 0
    _given_up: bool = False

    def __contains__(self, keyword: tuple[str, str | None]) -> bool:
        return keyword in self.reasons

    def also(self, error: UnsupportedSchema) -> bool:
        """Leave out the keyword that an error names, again if need be, and return whether that is allowed."""
        if self.lax and error.pointer is not None:
            self.reasons.setdefault((error.pointer, error.keyword), str(error))
        return self.lax

    def add(self, error: UnsupportedSchema, before: int) -> bool:
        """Leave out the keyword that an error names, and return whether another attempt may succeed.

        Args:
            error: Why the attempt failed.
            before: The steps that had been counted before the attempt.

        Raises:
            UnsupportedSchema: Failed attempts took too many steps.
        """
        if not self.lax or error.pointer is None or (error.pointer, error.keyword) in self.reasons:
            return False
        steps = spent() - before
        if self._given_up or (spent() > self.most and steps < self.most // _SHARE):
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
