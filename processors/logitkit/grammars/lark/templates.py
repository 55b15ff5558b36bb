"""Templates: rules with parameters that stand for other definitions, such as `_list{item, sign}: item (sign item)*`.

Each use with other arguments is a rule of its own. For `_list{NAME, ","}`, the body of the template is read again, and `item` and
`sign` stand for `NAME` and `","` in it.

A template may use itself. With the same arguments, that is a recursive rule. With longer and longer ones, it would never end, so
at most `MAX_LEVELS` uses may arise from each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from logitkit.grammars.lark.tokens import LarkToken

__all__ = ["MAX_LEVELS", "NumberUse", "Template", "TemplateUse"]

MAX_LEVELS = 64
"""The maximum number of uses of templates that arise from each other."""


@dataclass(frozen=True, slots=True)
class Template:
    """A definition of a template.

    Args:
        name: Its name.
        parameters: The names of its parameters.
        begin: Where it begins in the grammar, in characters.
        at: The number of the first token of its body.
        end: The number of the token after its body.
    """

    name: str
    parameters: tuple[str, ...]
    begin: int
    at: int
    end: int = 0


@dataclass(frozen=True, slots=True)
class TemplateUse:
    """A use of a template.

    Args:
        token: The name of the template where it is used.
        number: The definition that it becomes.
        arguments: The definitions that the parameters stand for, with their places.
        level: How many uses it arises from.
    """

    token: LarkToken
    number: int
    arguments: tuple[tuple[int, int], ...]
    level: int


@dataclass(frozen=True, slots=True)
class NumberUse:
    """A use of a rule with a number as parameter; see `logitkit.grammars.lark.numbers`.

    Args:
        token: The name of the rule where it is used.
        number: The definition that it becomes.
        value: The number.
    """

    token: LarkToken
    number: int
    value: int
