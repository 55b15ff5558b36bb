"""The grammars in XGrammar's own tests with the texts that these accept and reject, read without running the tests.

By hand, in `tests/python/test_grammar_matcher_ebnf.py`:

    grammar = xgr.Grammar.from_ebnf('root ::= "a"')
    assert _is_grammar_accept_string(grammar, "a")

gives the grammar with one valid text. Texts, lists of texts, their sums and products, `parametrize` and loops are understood.
Anything else, such as a grammar that depends on a tokenizer, is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

__all__ = ["FILES", "Tested", "tested"]

FILES = ("tests/python/test_grammar_matcher_ebnf.py", "tests/python/test_lark.py")
READERS = {"from_ebnf": ".gbnf", "from_lark": ".lark"}
# Arguments of the functions that judge which do not change the verdict.
HARMLESS = {"print_time", "debug_print"}

Names: TypeAlias = dict[str, Any]


class Tested(NamedTuple):
    """A grammar.

    Args:
        text: Its text.
        suffix: `.gbnf` or `.lark`, for its syntax.
        start: The start rule, if it is not the usual one.
    """

    text: str
    suffix: str
    start: str | None = None


class Unknown(Exception):
    """An expression that is not understood."""


def tested(source: str) -> dict[Tested, tuple[int, list[tuple[str, bool]]]]:
    """Return the grammars of a test file, each with its first line and its texts, and whether these are valid."""
    found: dict[Tested, tuple[int, list[tuple[str, bool]]]] = {}
    module = ast.parse(source)
    names: Names = {}
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef):
            for given in _parameters(statement, names):
                for grammar, text, valid in _judged(statement.body, {**names, **given}):
                    _, texts = found.setdefault(grammar, (statement.lineno, []))
                    texts += [(text, valid)] * ((text, valid) not in texts)
        else:
            _assign(statement, names)
    return found


def _parameters(function: ast.FunctionDef, names: Names) -> list[Names]:
    """Return the values that `pytest.mark.parametrize` gives to the parameters of a function."""
    given: list[Names] = [{}]
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and getattr(decorator.func, "attr", "") == "parametrize":
            try:
                parameters, values = (_value(node, names) for node in decorator.args[:2])
            except Unknown:
                return []
            keys = [name.strip() for name in parameters.split(",")]
            rows = [dict(zip(keys, [value] if len(keys) == 1 else value, strict=True)) for value in values]
            given = [{**one, **row} for one in given for row in rows]
    return given


def _judged(statements: list[ast.stmt], names: Names) -> Iterator[tuple[Tested, str, bool]]:
    """Yield the texts that some statements judge, and the verdict that they expect."""
    for statement in statements:
        try:
            match statement:
                case ast.For(ast.Name(name), values, body):
                    for value in _value(values, names):
                        yield from _judged(body, {**names, name: value})
                case ast.Assert(ast.UnaryOp(ast.Not(), ast.Call() as call)):
                    yield from _verdict(call, False, names)
                case ast.Assert(ast.Compare(ast.Call() as call, [ast.Eq()], [expected])):
                    yield from _verdict(call, _value(expected, names), names)
                case ast.Assert(ast.Call() as call):
                    yield from _verdict(call, True, names)
                case ast.Expr(ast.Call(ast.Name("_assert_language"), [grammar, accepted, rejected], [])):
                    read = Tested(_value(grammar, names), ".lark")
                    yield from ((read, text, True) for text in _value(accepted, names))
                    yield from ((read, text, False) for text in _value(rejected, names))
                case _:
                    _assign(statement, names)
        except Unknown:
            continue


def _verdict(call: ast.Call, valid: bool, names: Names) -> Iterator[tuple[Tested, str, bool]]:
    match call:
        case ast.Call(ast.Name("_is_grammar_accept_string"), [grammar, text], more):
            if {keyword.arg for keyword in more} <= HARMLESS:
                read = _value(grammar, names)
                yield Tested(read, ".gbnf") if isinstance(read, str) else read, _value(text, names), valid


def _assign(statement: ast.stmt, names: Names) -> None:
    """Evaluate an assignment; a name whose value is not understood has none."""
    if isinstance(statement, ast.Assign):
        match statement.targets:
            case [ast.Name(name)]:
                names.pop(name, None)
                with suppress(Unknown):
                    names[name] = _value(statement.value, names)


def _value(node: ast.expr, names: Names) -> Any:
    match node:
        case ast.Constant(value):
            return value
        case ast.Name(name) if name in names:
            return names[name]
        case ast.List(parts) | ast.Tuple(parts):
            return [_value(part, names) for part in parts]
        case ast.BinOp(left, ast.Add(), right):
            return _value(left, names) + _value(right, names)
        case ast.BinOp(left, ast.Mult(), right):
            return _value(left, names) * _value(right, names)
        case ast.Call(ast.Name("range"), [count], []):
            return range(_value(count, names))
        case ast.Call(ast.Attribute(ast.Name("pytest"), "param"), values, _):
            return [_value(value, names) for value in values]
        case ast.Call(ast.Attribute(_, reader), [text], more) if reader in READERS:
            options = {keyword.arg: _value(keyword.value, names) for keyword in more}
            if not options.keys() <= {"root_rule_name"}:
                raise Unknown(ast.unparse(node))
            return Tested(_value(text, names), READERS[reader], options.get("root_rule_name"))
    raise Unknown(ast.unparse(node))
