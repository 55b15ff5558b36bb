"""The tokens after which an item may come again that is not the one they go on with: each must be read, byte by byte.

By hand, in `["ab","a` with one array open whose items must differ, and `"ab"` used: the token `b","ab` ends an item that is not
used, and begins one that is. Most tokens are ruled out by how much of an item they begin. If another one proves to be harmless,
this is kept with the items until a used item is short enough for it.
"""

from __future__ import annotations

from logitkit.runtime.remembering.byte_steps import ByteSteps, CrossingToken, ShapedTokens
from logitkit.runtime.remembering.item_position import ItemPosition
from logitkit.runtime.remembering.json_text import DIGITS, OUTSIDE
from logitkit.runtime.remembering.open_values import Level, OpenArray, OpenNumber, OpenObject
from logitkit.runtime.remembering.position_reader import PositionReader
from logitkit.runtime.remembering.settled_numbers import may_be_settled_after
from logitkit.runtime.remembering.spelling import spelled_number
from logitkit.runtime.remembering.used_items import END, MOST_BEGUN, NEVER, SIGN_OR_ZERO, Harmless

__all__ = ["doubtful_tokens", "is_legal"]

NO_NUMBER = OpenNumber(0, ())


def doubtful_tokens(
    at: ItemPosition, steps: ByteSteps, shaped: ShapedTokens, *, is_matched: bool, has_choice: bool
) -> list[int]:
    """Return the ids of tokens that must be read byte by byte.

    Args:
        at: The position.
        steps: The steps of the automaton.
        shaped: The tokens that are legal.
        is_matched: Whether used items begin with a current one.
        has_choice: Whether at least two bytes may follow that lead to items which are not used.
    """
    found, number, length = shaped.whole, at.number, at.pieces.length
    if shaped.spaced:
        found = found + _spaced(at, steps, shaped, is_matched=is_matched)
    if number.before if number is not None else (is_matched and at.begins_value):
        found = found + _numeric(at, steps, number or NO_NUMBER)
    if shaped.ends or shaped.digits:
        is_reordered = any(
            isinstance(level, OpenObject) and level.before and _may_be_reordered(at, level) for level in at.levels
        )
        is_respelled = False
        if number is not None and number.before and not number.is_integer:
            text = at.pieces.since(number.begin)
            spelled = spelled_number(text) if text[-1] in DIGITS else text
            is_respelled = number.is_settled or (spelled != text and not _is_free(at, number, spelled))
            length += min(len(spelled) - len(text), 0)
            found = found + shaped.digits
        if is_reordered:
            found = found + shaped.digits
        if is_reordered or is_respelled:
            found = found + shaped.ends
    return found + _crossing(at, steps, shaped, has_choice, length) if shaped.longest >= 0 else found


def _spaced(at: ItemPosition, steps: ByteSteps, shaped: ShapedTokens, *, is_matched: bool) -> list[int]:
    """Return the tokens with white space that must be read: without it, they may go on with something that is used up."""
    level, last, number = at.levels[-1], len(at.levels) - 1, at.number
    # White space may end a number in another spelling, but after a string that is an item, it is not a part of that.
    is_respelled = number is not None and bool(number.before) and not number.is_integer
    is_string = at.mode is not OUTSIDE and isinstance(level, OpenArray)
    if not is_respelled and (not is_matched or (is_string and all(match.level == last for match in at.matches))):
        return []
    if number is not None or level.begin >= 0 or at.matches or last:
        return [token for token, _ in shaped.spaced]
    place = at.state, at.stack
    items = level.items
    if items is None or place in items.harmless:
        return []
    found = [
        token
        for token, is_plain in shaped.spaced
        if not (is_plain and _is_harmless(at, steps, level, token, MOST_BEGUN))
    ]
    if not found:
        items.keep_harmless(place, Harmless(0, MOST_BEGUN))
    return found


def _is_free(at: ItemPosition, number: OpenNumber, spelled: bytes) -> bool:
    """Whether a number may end: it is an item, which is not used, and no other item is open that used ones begin with."""
    last, level = len(at.levels) - 1, at.levels[-1]
    if not isinstance(level, OpenArray) or level.items is None or any(match.level < last for match in number.before):
        return False
    return not level.items.has(spelled + END)


def _crossing(at: ItemPosition, steps: ByteSteps, shaped: ShapedTokens, has_choice: bool, length: int) -> list[int]:
    """Return the tokens that may begin an item that is used up, and maybe others.

    Args:
        at: The position.
        steps: The steps of the automaton.
        shaped: Its tokens.
        has_choice: See `doubtful_tokens`.
        length: The length of the text, at most that with its number in its one spelling.
    """
    of_used, of_current = _harmless(at, has_choice, length)
    is_varied = any(outer.items is not None and outer.items.varied for outer in at.levels)
    # A sign leads to one byte more.
    if not is_varied and shaped.longest < min(of_used, of_current):
        return []
    level, found = at.levels[-1], []
    is_alone = level.items is not None and not any(match.level < len(at.levels) - 1 for match in at.matches)
    is_zero = at.number is not None and at.number.is_zero
    for crossing in shaped.crossing:
        token, begins, is_sign, only_opens, has_bracket, is_plain = crossing
        if is_varied and not only_opens and (has_bracket or not _stays(at, steps, level, crossing)):
            # Where other items or names are possible, others are used up.
            found.append(token)
            continue
        is_other = begins <= of_current and not (is_sign and is_zero)
        if is_other and begins + is_sign <= of_used:
            continue
        # The next item is not the current one, so that all that it depends on is used already.
        if not (is_other and is_plain and is_alone and _is_harmless(at, steps, level, token, begins)):
            found.append(token)
    return found


def _stays(at: ItemPosition, steps: ByteSteps, level: Level, crossing: CrossingToken) -> bool:
    """Whether the same items or names are possible after a token's comma as before the current one."""
    if level.items is None or not level.items.varied:
        return True
    assert level.place is not None
    return steps.next_place(at.state, at.stack, crossing) == (level.place.state, level.place.stack)


def _is_harmless(at: ItemPosition, steps: ByteSteps, level: Level, token: int, begins: int) -> bool:
    """Whether a token is legal that an array goes on with, and stays legal for other items; it begins one with some bytes."""
    items = level.items
    if items is None:
        return False
    # Whether it begins in a string or not, its part of the next item is the same if it is as long.
    place = token, begins
    known = items.harmless.get(place)
    if known is not None:
        return not known.least
    is_legal = PositionReader(at, steps).read(steps.tokens.texts[token] or b"")
    # Inside of an item, a token may be illegal because of this item only.
    if is_legal or level.begin < 0:
        items.keep_harmless(place, Harmless(0 if is_legal else NEVER, begins))
    return is_legal


def is_legal(at: ItemPosition, steps: ByteSteps, token: int) -> bool:
    """Whether a token that the automaton allows uses up no item."""
    text = steps.tokens.texts[token] or b""
    if text in SIGN_OR_ZERO and at.number is None and len(at.levels) == 1:
        # Which numbers a sign or a zero leads to seldom changes.
        return _is_harmless(at, steps, at.levels[0], token, len(text))
    return PositionReader(at, steps).read(text)


def _numeric(at: ItemPosition, steps: ByteSteps, number: OpenNumber) -> list[int]:
    """Return the tokens that the automaton allows and that may settle a number, or end it in another spelling."""
    key = at.state, at.stack, number.kind, number.is_settled
    found = steps.numeric.get(key)
    if found is None:
        tokens, texts = steps.legal_among(steps.tokens.numeric, at.state, at.stack), steps.tokens.texts
        found = [
            token
            for token in tokens
            if number.is_settled or may_be_settled_after(texts[token] or b"", number, at.state, at.stack, steps)
        ]
        steps.numeric.keep(key, found, len(at.stack) + 200 + 8 * len(found))
    return found


def _may_be_reordered(at: ItemPosition, level: OpenObject) -> bool:
    """Whether an object may become one with the same members in another order, or lose one with a repeated name."""
    if not level.members:
        return False
    names = [name for name, _ in level.members]
    if level.colon >= 0:
        names.append(at.pieces.since(level.begin)[: level.colon - level.begin])
    return len({*names}) < len(names) or at.known.has_other_order((*names,))


def _harmless(at: ItemPosition, has_choice: bool, length: int) -> tuple[int, int]:
    """Return how many bytes a token may begin an item with that cannot be used up by then, after it has ended one at most.

    Returns:
        As far as used items are concerned, and the current one.
    """
    of_used, of_current, choice = NEVER, NEVER, length if has_choice else at.choice
    for level in at.levels:
        if level.items is None:
            continue
        of_used = min(of_used, level.items.shortest - 1)
        if level.ended and level.items.is_exhausted:
            return -1, -1
        if not level.ended:
            # The current item may make a beginning be used up that is longer than the last choice.
            of_current = min(of_current, choice - level.begin if level.begin >= 0 else -1)
    return of_used, of_current
