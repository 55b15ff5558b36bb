"""The tokens that are illegal at a position because an item would come again after them.

The problem: a mask that depends on all items cannot be kept for a state. So the mask of the state is kept, and a few tokens are
banned in addition.

By hand, in `["ab","a` with one array open whose items must differ: used up is `"ab"`, of which `b"` is left. So all tokens that
begin with `b"` are banned: `b"`, `b",` and `b"]`. In the same place, the token `","ab` may begin an item that is used up later in
the token. There are few such tokens (`doubtful_tokens`).
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from logitkit.runtime.constraint_row import NO_IDS
from logitkit.runtime.remembering.byte_steps import ByteSteps, ShapedTokens
from logitkit.runtime.remembering.doubtful_tokens import doubtful_tokens, is_legal
from logitkit.runtime.remembering.item_position import ItemPosition
from logitkit.runtime.remembering.json_text import AFTER_NUMBER, IN_NUMBER, OUTSIDE
from logitkit.runtime.remembering.open_values import OpenArray, OpenNumber, OpenObject
from logitkit.runtime.remembering.spelling import MOST_DIGITS
from logitkit.runtime.remembering.used_items import END, MOST_BEGUN, NEVER, Harmless, UsedItems

__all__ = ["banned_tokens"]

NOT_ZERO = b"123456789"
# From this number of used items on, it is kept which tokens go on with them.
MANY = 8


def banned_tokens(at: ItemPosition, steps: ByteSteps) -> tuple[NDArray[np.int64], ItemPosition]:
    """Find the tokens that the automaton allows, and after which an item would come again.

    Returns:
        Their ids, and maybe those of others that the automaton bans; and the position, which may know of a choice then.
    """
    level, shaped = at.levels[-1], steps.shaped(at.state, at.stack, at.mode, at.begins_value)
    place = _quiet_place(at, shaped)
    known = None if place is None else level.items.harmless.get(place)  # type: ignore[union-attr]
    is_harmless = known is not None and at.choice - level.begin >= known.least
    if is_harmless and not at.matches:
        return NO_IDS, at
    matching = _matching(at)
    found = _going_on(at, steps, matching) if matching else []
    if not is_harmless:
        others, at = _others(at, steps, matching, shaped, place, known)
        if others:
            found.append(np.array(others, np.int64))
    if not found:
        return NO_IDS, at
    return found[0] if len(found) == 1 else np.concatenate(found), at


def _others(
    at: ItemPosition,
    steps: ByteSteps,
    matching: list[Matching],
    shaped: ShapedTokens,
    place: Hashable | None,
    known: Harmless | None,
) -> tuple[list[int], ItemPosition]:
    """Find the banned tokens that do not just go on with a used item.

    Args:
        at: The position.
        steps: The steps of the automaton.
        matching: The used items that begin with current ones.
        shaped: The tokens that are legal.
        place: See `_quiet_place`.
        known: When the place is harmless, if that is known.
    """
    level, length = at.levels[-1], at.pieces.length
    is_new = at.choice < (level.first if isinstance(level, OpenObject) else level.begin) + MOST_BEGUN
    # Before an item, a choice says nothing about it.
    has_choice = (
        (is_new or shaped.longest >= 0)
        and (level.begin >= 0 or len(at.levels) > 1)
        and _has_choice(at, steps, matching, shaped)
    )
    banned: list[int] = []
    if known is None or not has_choice or length - level.begin < known.least:
        doubtful = doubtful_tokens(at, steps, shaped, is_matched=bool(matching), has_choice=has_choice)
        if place is not None and not doubtful and shaped.is_plain:
            # Where two bytes never may follow, a choice is not looked for unless a token may begin an item.
            is_needed = shaped.has_choice or shaped.longest >= 0
            least = shaped.longest if is_needed else -NEVER
            level.items.keep_harmless(place, Harmless(least, shaped.longest))  # type: ignore[union-attr]
        banned = [token for token in doubtful if not is_legal(at, steps, token)]
    return banned, ItemPosition(*at[:-1], length) if has_choice and is_new else at


def _quiet_place(at: ItemPosition, shaped: ShapedTokens) -> Hashable | None:
    """Return all that the banned tokens depend on besides used items, with one item open.

    None: they depend on more. Tokens that go on with a used item are banned in addition.
    """
    level = at.levels[-1]
    if len(at.levels) > 1 or not isinstance(level, OpenArray) or level.begin < 0:
        return None
    number = at.number
    if (
        level.items is None
        or level.items.varied
        or (number is not None and not (number.before and _is_spelled(at, number)))
    ):
        return None
    if at.mode is not OUTSIDE:
        return shaped
    # A token may begin with white space, and then go on with a used item.
    return at.state, at.stack, level.ended, bool(at.matches), number is not None and number.has_point


def _is_spelled(at: ItemPosition, number: OpenNumber) -> bool:
    """Whether the text of a number is surely its one spelling: an integer, or with a fraction that does not end with a zero."""
    if not number.has_point:
        return number.is_integer
    return (
        not number.has_exponent and at.pieces.last[-1:] in NOT_ZERO and at.pieces.length - number.begin <= MOST_DIGITS
    )


# Used items that begin with the current one: the items of the array, the range of them, and the length of the current one.
Matching = tuple[UsedItems, int, int, int]


def _matching(at: ItemPosition) -> list[Matching]:
    """Return the used items that begin with the current item of each open array, if there are any."""
    found: list[Matching] = []
    for index, low, high in at.matches:
        level = at.levels[index]
        assert level.items is not None
        found.append((level.items, low, high, at.pieces.length - level.begin))
    level = at.levels[-1]
    if level.items is not None and level.items.used_up and level.begin < 0:
        found.append((level.items, 0, len(level.items.used_up), 0))
    return found


def _going_on(at: ItemPosition, steps: ByteSteps, matching: list[Matching]) -> list[NDArray[np.int64]]:
    """Return the ids of tokens that begin with what is left of something that is used up, in several arrays."""
    tokens_of, longest = steps.tokens.going_on, steps.tokens.longest
    going_on: list[NDArray[np.int64]] = []
    is_settled = at.number is not None and at.number.is_settled
    for items, low, high, depth in matching:
        if high - low >= MANY and not is_settled:
            begin = items.used_up[low][:depth]
            found = items.going_on.get(begin)
            if found is None:
                each = [tokens_of(used[depth:]) for used in items.used_up[low:high]]
                found = items.going_on[begin] = np.concatenate(each)
            if len(found):
                going_on.append(found)
            continue
        for used in items.used_up[low:high]:
            # More digits of a settled number are not those of another number.
            if len(used) - depth > longest or (is_settled and used[depth] in IN_NUMBER):
                continue
            found = tokens_of(used[depth:])
            if len(found):
                going_on.append(found)
    return going_on


def _has_choice(at: ItemPosition, steps: ByteSteps, matching: list[Matching], shaped: ShapedTokens) -> bool:
    """Whether at least two bytes may follow that lead to items which are not used: so one item more does not use up all."""
    if at.number is not None and at.number.is_settled:
        return False
    if not shaped.has_choice:
        return False
    # One more byte completes no longer ones.
    near = [match for match in matching if match[0].shortest <= match[3] + 1]
    if not near:
        return True
    legal = steps.legal(at.state, at.stack)
    others = legal.translate(None, AFTER_NUMBER)
    if len(others) - sum([high - low for _, low, high, _ in near]) > 1:
        return True
    left = 2
    for byte in others + END * (len(others) < len(legal)):
        for items, low, high, depth in near:
            if items.uses_up(low, high, depth, byte):
                break
        else:
            left -= 1
            if not left:
                return True
    return False
