"""The patterns of dates, times and durations of RFC 3339."""

from __future__ import annotations

_DAYS_28 = "(?:0[1-9]|1[0-9]|2[0-8])"
_DAYS_30 = "(?:0[1-9]|[12][0-9]|30)"
_DAYS_31 = "(?:0[1-9]|[12][0-9]|3[01])"
_FOURTH = "(?:0[48]|[2468][048]|[13579][26])"
_LEAP_YEAR = f"(?:[0-9]{{2}}{_FOURTH}|(?:00|{_FOURTH})00)"

DATE = f"(?:[0-9]{{4}}-(?:(?:0[13578]|1[02])-{_DAYS_31}|(?:0[469]|11)-{_DAYS_30}|02-{_DAYS_28})|{_LEAP_YEAR}-02-29)"
"""Real days of the years 0000 to 9999."""

_HOUR = "(?:[01][0-9]|2[0-3])"
_SIXTY = "[0-5][0-9]"
_FRACTION = r"(?:\.[0-9]+)?"
_TIME = f"{_HOUR}:{_SIXTY}:{_SIXTY}{_FRACTION}(?:[Zz]|[+-]{_HOUR}:{_SIXTY})"

# A leap second ends a day in UTC: 23:59:60, at which it is another time elsewhere. Every offset there is makes states of its own,
# so not all are kept: whole and half hours for times, and for moments, which schemas have more often, whole hours where people
# live.
_DAY = 24 * 60
_HALF_HOURS = range(0, _DAY, 30)
_WESTERN = range(0, 12 * 60 + 1, 60)
_EASTERN = range(60, 14 * 60 + 1, 60)


def _clock(minutes: int) -> str:
    hour, minute = divmod(minutes, 60)
    return f"{hour:02}:{minute:02}"


def _leap_seconds(local: dict[int, str]) -> str:
    """Return the pattern of leap seconds, given the offsets by the local time at which each is one."""
    return "(?:" + "|".join(f"{_clock(minute)}:60{_FRACTION}{offset}" for minute, offset in local.items()) + ")"


def _west(offsets: range) -> dict[int, str]:
    """Return offsets from UTC on by local time, where it is still the same day."""
    return {_DAY - 1 - offset: f"-{_clock(offset)}" if offset else "(?:[Zz]|[+-]00:00)" for offset in offsets}


def _east(offsets: range) -> dict[int, str]:
    """Return offsets by local time, where it is the next day already."""
    return {offset - 1: rf"\+{_clock(offset)}" for offset in offsets if offset}


def _either(west: dict[int, str], east: dict[int, str]) -> dict[int, str]:
    options = {minute: [side[minute] for side in (west, east) if minute in side] for minute in sorted({*west, *east})}
    return {minute: f"(?:{'|'.join(found)})" for minute, found in options.items()}


TIME = f"(?:{_TIME}|{_leap_seconds(_either(_west(_HALF_HOURS), _east(_HALF_HOURS)))})"
"""A time of day with its offset; a leap second where it is 23:59:60 in UTC."""

DATE_TIME = (
    f"(?:{DATE}[Tt]{_TIME}"
    f"|[0-9]{{4}}-(?:06-30|12-31)[Tt]{_leap_seconds(_west(_WESTERN))}"
    f"|[0-9]{{4}}-(?:07-01|01-01)[Tt]{_leap_seconds(_east(_EASTERN))})"
)
"""A moment; leap seconds only at the end of June and of December, in UTC."""


def _chain(*units: str) -> str:
    """Return the pattern of some units in their order, none left out between others."""
    pattern = ""
    options = []
    for unit in reversed(units):
        pattern = f"[0-9]+{unit}(?:{pattern})?" if pattern else f"[0-9]+{unit}"
        options.append(pattern)
    return "(?:" + "|".join(options) + ")"


_DURATION_TIME = f"T{_chain('H', 'M', 'S')}"
DURATION = f"P(?:{_chain('Y', 'M', 'D')}(?:{_DURATION_TIME})?|{_DURATION_TIME}|[0-9]+W)"
"""A duration of RFC 3339, appendix A: `P1Y2M3DT4H5M6S`, `P4W`."""
