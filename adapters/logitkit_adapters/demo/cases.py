"""The demo's prompts and constraints, and checks of the output that do not use logitkit."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

from logitkit import Choice, Grammar, JsonSchema, Limits, Regex, Tools, Vocabulary
from logitkit.tools import ToolsConstraint

__all__ = ["Constraint", "DemoCase", "own_case", "shipped_cases"]

_DATE = r"(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_EMAIL = r"[a-z]+(\.[a-z]+)*@[a-z]+(\.[a-z]+)+"
_MOODS = ("positive", "negative", "neutral")
_PRICE = r"€[0-9]{1,3}\.[0-9]{2}"
# A product of sums, whose brackets nest: in GBNF.
_PRODUCT = """root ::= sum " * " item
sum ::= "(" item " + " item ")"
item ::= [1-9] [0-9]? | sum"""

_CONTACT = {
    "name": {"type": "string", "pattern": "^[A-Z][a-z]+ [A-Z][a-z]+$", "maxLength": 30},
    "age": {"type": "integer", "minimum": 18, "maximum": 99},
    "active": {"type": "boolean"},
}
_PERSON = {
    "type": "object",
    "properties": {**_CONTACT, "email": {"type": "string", "pattern": f"^{_EMAIL}$", "maxLength": 40}},
    "required": ["name", "age", "active", "email"],
    "additionalProperties": False,
}

# A tool as OpenAI's interface describes it.
_SAVE_CONTACT = {
    "name": "save_contact",
    "parameters": {"type": "object", "properties": _CONTACT, "required": ["name", "age", "active"]},
}

Constraint = Regex | Choice | JsonSchema | Grammar | ToolsConstraint


@dataclass(frozen=True)
class DemoCase:
    """Prompts, the language that the following text must belong to, and an independent check.

    Args:
        name: A word or two.
        language: A description of the language, for display.
        prompts: The prompts, generated in one batch.
        constraint: Builds the constraint for a vocabulary, within `limits`.
        check: Whether a text is in the language, without using logitkit; None if no other check exists.
        beams: The number of beams per prompt; 1 is greedy search.
        max_new_tokens: The maximum number of tokens of each text.
    """

    name: str
    language: str
    prompts: tuple[str, ...]
    constraint: Callable[..., Constraint]
    check: Callable[[str], bool] | None
    beams: int = 1
    max_new_tokens: int = 64


def shipped_cases() -> tuple[DemoCase, ...]:
    """Return the cases of a plain `logitkit demo`.

    Returns:
        Cases with prompts after which the model alone generates something else. The one with a pydantic model is left out if
        pydantic is not installed.
    """
    prices = ("The lamp costs ", "The price of the camera is ", "Item: pen\nPrice: ", "Ana Torres paid ")
    return (
        _regex_case("date", _DATE, "The meeting is on "),
        _regex_case("e-mail", _EMAIL, "Please write to Emma Brown: "),
        DemoCase(
            "choice", ", ".join(_MOODS), ("Review: The food was awful. ",), partial(Choice, _MOODS), _MOODS.__contains__
        ),
        DemoCase(
            "JSON Schema",
            "an object: name, age from 18 to 99, active, email",
            ("Name: Emma Brown\nAs JSON: ",),
            partial(JsonSchema, _PERSON),
            _is_person,
        ),
        DemoCase(
            "tool call",
            "a call of save_contact(name, age, active), in JSON",
            ("Name: Emma Brown\nAs JSON: ",),
            _tool_call,
            _is_call,
        ),
        DemoCase("grammar", _PRODUCT.replace("\n", "; "), ("In brackets: ",), partial(Grammar, _PRODUCT), _is_product),
        _regex_case("4 prompts, 4 beams", _PRICE, *prices, beams=4),
        *([_pydantic_case()] if find_spec("pydantic") else []),
    )


def own_case(pattern: str, prompt: str, *, beams: int, max_new_tokens: int) -> DemoCase:
    """Return a case for the user's own pattern.

    Args:
        pattern: A pattern in Python's `re` syntax.
        prompt: The prompt, possibly empty.
        beams: The number of beams, at least 1.
        max_new_tokens: The maximum number of tokens, at least 1.
    """
    return _regex_case("your pattern", pattern, prompt, beams=beams, max_new_tokens=max_new_tokens)


def _regex_case(name: str, pattern: str, *prompts: str, beams: int = 1, max_new_tokens: int = 64) -> DemoCase:
    return DemoCase(name, pattern, prompts, partial(Regex, pattern), _matcher(pattern), beams, max_new_tokens)


def _pydantic_case() -> DemoCase:
    from logitkit_adapters.demo.contact import LANGUAGE, Contact, is_contact

    prompts = ("A contact of ours: ",)
    return DemoCase("pydantic, 4 beams", LANGUAGE, prompts, partial(JsonSchema, Contact), is_contact, beams=4)


def _matcher(pattern: str) -> Callable[[str], bool] | None:
    r"""Return a check that uses `re`, or None for syntax that only logitkit supports, such as `\p{L}`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = re.compile(pattern)
    except re.error:
        return None
    return lambda text: compiled.fullmatch(text) is not None


def _tool_call(vocabulary: Vocabulary, limits: Limits | None = None) -> ToolsConstraint:
    tools = Tools([_SAVE_CONTACT], format="json", choice="required", parallel=False)
    return tools.constraint(vocabulary) if limits is None else tools.constraint(vocabulary, limits=limits)


def _is_call(text: str) -> bool:
    try:
        call = json.loads(text)
    except ValueError:
        return False
    if not isinstance(call, dict) or call.get("name") != "save_contact":
        return False
    return {*call.get("arguments", ())} == {"name", "age", "active"}


def _is_product(text: str) -> bool:
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return False
    return isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult) and isinstance(tree.left, ast.BinOp)


def _is_person(text: str) -> bool:
    try:
        person = json.loads(text)
    except ValueError:
        return False
    types = {"name": str, "age": int, "active": bool, "email": str}
    return isinstance(person, dict) and {key: type(value) for key, value in person.items()} == types
