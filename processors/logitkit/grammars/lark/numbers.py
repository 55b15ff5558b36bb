"""Rules with a number as parameter, as in `list::_: "a" list::incr(_) %if lt(_, 3) | ""`, which LLGuidance has.

Each use with another number is a rule of its own. `list::0` is the rule whose body has 0 for `_`: its alternatives are those
whose condition after `%if` holds for 0. A rule may use itself with another number, so conditions must keep the numbers from
growing without end. If none of its conditions holds, a rule has no text. An alternative that needs such a rule is left out.

By hand: of `list::3`, the condition `lt(_, 3)` does not hold, so its only text is empty, and `list::0` has the texts of up to
three letters a.

Source:
    https://github.com/guidance-ai/llguidance/blob/main/docs/parametric.md
"""

from __future__ import annotations

from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne

from logitkit.grammars.lark.draft import LarkDefinition
from logitkit.grammars.lark.tokens import LarkToken, LarkTokenReader
from logitkit.patterns.construction import concatenate, repeat
from logitkit.patterns.syntax import Alternate, Call, Concat, Node, Repeat

__all__ = ["conditional_alternatives", "read_number", "without_textless"]

BITS = 64
# The maximum nesting depth of conditions.
MAX_NESTING = 64
_ALL = (1 << BITS) - 1

_COMPARISONS: dict[str, Callable[[int, int], bool]] = {"eq": eq, "ne": ne, "lt": lt, "le": le, "gt": gt, "ge": ge}
_CONDITIONS = (
    "and, or, not, true, bit_set, bit_clear, is_ones, is_zeros, eq, ne, lt, le, gt, ge and bit_count_eq to bit_count_ge"
)
_EXPRESSIONS = "a number, _, incr, decr, set_bit, clear_bit, bit_and and bit_or"
_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")


def read_number(reader: LarkTokenReader, number: int | None) -> int:
    """Read the number after `name::`.

    Args:
        reader: The tokens, at the expression.
        number: The number of the rule around it; None if that rule has no parameter.

    Raises:
        GrammarError: Something is wrong with the expression.
    """
    token = reader.take()
    if token.kind == "number":
        return _literal(reader, token)
    if number is None:
        reader.refuse(f"outside of a rule with a parameter, the parameter is a number, and not {token.text!r}", token)
    if token.kind == "underscore":
        return number
    if token.text not in ("incr", "decr", "set_bit", "clear_bit", "bit_and", "bit_or"):
        reader.refuse(f"{token.text!r} is not an expression of a parameter; allowed are {_EXPRESSIONS}", token)
    _sign(reader, "(")
    if token.text in ("incr", "decr"):
        first, count = _range(reader)
        part = _bits(number, first, count)
        is_last = part == ((1 << count) - 1 if token.text == "incr" else 0)
        found = number if is_last else number + (1 << first) * (1 if token.text == "incr" else -1)
    elif token.text in ("set_bit", "clear_bit"):
        bit = 1 << _small(reader, BITS - 1)
        found = number | bit if token.text == "set_bit" else number & ~bit
    else:
        operand = _literal(reader, reader.take())
        found = number & operand if token.text == "bit_and" else number | operand
    _sign(reader, ")")
    return found


def conditional_alternatives(reader: LarkTokenReader, at: int, number: int) -> list[LarkToken]:
    """Return the tokens of the alternatives of a body whose conditions hold, up to the end of the body.

    Args:
        reader: The tokens. They are read from `at` on, and then from where they were.
        at: Where the body begins.
        number: The number of the rule.

    Raises:
        GrammarError: A condition is wrong.
    """
    before, reader.at = reader.at, at
    alternatives: list[list[LarkToken]] = [[]]
    holds, nesting = [True], 0
    while (token := reader.take()).kind != "end":
        if token.kind == "sign":
            nesting += (token.text in _OPENING) - (token.text in _CLOSING)
        if token.text == "%if":
            if nesting > 0:
                reader.refuse("%if stands at the end of an alternative of a rule, and not in a group", token)
            holds[-1] = _condition(reader, number)
            if reader.here.kind not in ("newline", "end") and reader.here.text != "|":
                reader.refuse("%if stands at the end of an alternative", reader.here)
        elif token.text == "|" and token.kind == "sign" and nesting <= 0:
            alternatives.append([token])
            holds.append(True)
        else:
            alternatives[-1].append(token)
    reader.at = before
    kept = [tokens for tokens, is_kept in zip(alternatives, holds, strict=True) if is_kept]
    # The first one that is left is not after a sign.
    found = [t for tokens in kept for t in tokens if t.kind != "newline"]
    return found[found[0].text == "|" and found[0].kind == "sign" :] if found else found


def _condition(reader: LarkTokenReader, number: int, nesting: int = 1) -> bool:
    """Read a condition, and return whether it holds for a number."""
    token, name = reader.here, reader.take().text
    if nesting > MAX_NESTING:
        reader.refuse(f"conditions nest more than {MAX_NESTING} deep", token)
    if name == "true":
        if reader.takes("("):
            _sign(reader, ")")
        return True
    if name not in {*_COMPARISONS, *(f"bit_count_{c}" for c in _COMPARISONS)} | {
        *("and", "or", "not", "bit_set", "bit_clear", "is_ones", "is_zeros")
    }:
        reader.refuse(f"{name!r} is not a condition; allowed are {_CONDITIONS}", token)
    _sign(reader, "(")
    if name in ("and", "or", "not"):
        found = _condition(reader, number, nesting + 1)
        if name == "not":
            found = not found
        else:
            _sign(reader, ",")
            other = _condition(reader, number, nesting + 1)
            found = found and other if name == "and" else found or other
    elif name in ("bit_set", "bit_clear"):
        found = bool(number >> _small(reader, BITS - 1) & 1) == (name == "bit_set")
    else:
        first, count = _range(reader)
        part = _bits(number, first, count)
        if name in ("is_ones", "is_zeros"):
            found = part == ((1 << count) - 1 if name == "is_ones" else 0)
        else:
            _sign(reader, ",")
            operand = _literal(reader, reader.take())
            value = part.bit_count() if name.startswith("bit_count_") else part
            found = _COMPARISONS[name.removeprefix("bit_count_")](value, operand)
    _sign(reader, ")")
    return found


def _range(reader: LarkTokenReader) -> tuple[int, int]:
    """Read `_` or `[first:end]`, and return the first bit and the number of bits."""
    if reader.here.kind == "underscore":
        reader.take()
        return 0, BITS
    opening = reader.here
    _sign(reader, "[")
    first = _small(reader, BITS - 1)
    _sign(reader, ":")
    end = _small(reader, BITS)
    _sign(reader, "]")
    if end <= first:
        reader.refuse(f"the range [{first}:{end}] is empty; its end must be greater than its beginning", opening)
    return first, end - first


def _bits(number: int, first: int, count: int) -> int:
    return number >> first & ((1 << count) - 1)


def _small(reader: LarkTokenReader, most: int) -> int:
    token = reader.take()
    number = _literal(reader, token)
    if number > most:
        reader.refuse(f"the bit {number} is too large; allowed are 0 to {most}", token)
    return number


def _literal(reader: LarkTokenReader, token: LarkToken) -> int:
    if token.kind != "number" or not 1 <= len(token.text) <= 20:
        reader.refuse(f"{token.text:.30} is not a number from 0 to {_ALL}", token)
    found = int(token.text, 0 if token.text[:2] in ("0x", "0X") else 10)
    if not 0 <= found <= _ALL:
        reader.refuse(f"{token.text} is not a number from 0 to {_ALL}", token)
    return found


def _sign(reader: LarkTokenReader, sign: str) -> None:
    reader.expect("sign", sign, sign)


def without_textless(definitions: list[LarkDefinition], numbered: set[int]) -> LarkDefinition | None:
    """Leave out alternatives that need a numbered rule without a text.

    Args:
        definitions: All definitions; the trees are changed.
        numbered: The rules with a number. Other rules count as rules with a text, since those without are reported later.

    Returns:
        A rule without a number that has no text then, or None.
    """
    textless = set(numbered)
    changed = True
    while changed:
        having = {
            n for n in textless if (body := definitions[n].body) is not None and _left(body, textless) is not None
        }
        changed = bool(having)
        textless -= having
    for number, definition in enumerate(definitions):
        if definition.body is None or not textless.intersection([used for used, _ in definition.references]):
            continue
        body = _left(definition.body, textless)
        if body is None and number not in textless:
            return definition
        definition.body = body
        definition.references = [(used, at) for used, at in definition.references if used not in textless]
    return None


def _left(tree: Node, textless: set[int]) -> Node | None:
    """Return what is left of a tree without calls of rules that have no text; None: nothing."""
    match tree:
        case Call(rule):
            return None if rule in textless else tree
        case Concat(parts):
            left = [_left(part, textless) for part in parts]
            return None if None in left else concatenate([part for part in left if part is not None])
        case Alternate(options):
            some = [part for option in options if (part := _left(option, textless)) is not None]
            return some[0] if len(some) == 1 else Alternate(tuple(some)) if some else None
        case Repeat(node, minimum, maximum, kind):
            inside = _left(node, textless)
            if inside is None:
                return None if minimum else concatenate([])
            return repeat(inside, minimum, maximum, kind, 0)
        case _:
            return tree
