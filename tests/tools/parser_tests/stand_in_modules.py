"""Modules that stand in for those of vLLM, SGLang and mlx-lm.

Any class that a test imports from them takes any members, a parser reads with our formats, and constants are read from the
source.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import sys
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from tests.tools.parser_tests.records import Characters, record
from tests.tools.parser_tests.stand_in_parsers import mlx_module, sglang_parser, vllm_parser
from tests.tools.parser_tests.watching import InsideOfParser, Watch


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds any module of some packages, and makes one that has all that is asked for.

    Args:
        packages: The names of the packages.
        attribute: Returns what a module has under a name; it raises AttributeError if there is nothing.
    """

    def __init__(self, packages: Sequence[str], attribute: Callable[[str, str], Any]) -> None:
        self._packages, self._attribute = frozenset(packages), attribute

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Find a module of the packages."""
        if fullname.partition(".")[0] not in self._packages:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        """Return a module that makes what it is asked for."""
        found = ModuleType(spec.name)
        found.__dict__["__getattr__"] = lambda name: self._made(spec.name, name)
        return found

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module makes what it is asked for."""

    def _made(self, module: str, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = self._attribute(module, name)
        setattr(sys.modules[module], name, found)
        return found


def constants_of(file: Path) -> dict[str, Any]:
    """Return the constants that a module assigns, as far as they are written out."""
    found: dict[str, Any] = {}
    if file.exists():
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                with suppress(ValueError, TypeError):
                    value = ast.literal_eval(ast.unparse(_filled(node.value, found)))
                    found |= {target.id: value for target in targets if isinstance(target, ast.Name)}
    return found


def _filled(node: ast.expr, known: Mapping[str, Any]) -> ast.expr:
    """Return an expression with known names replaced by their values, and texts put together."""

    class Fill(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.expr:
            return ast.Constant(known[name.id]) if name.id in known else name

        def visit_JoinedStr(self, joined: ast.JoinedStr) -> ast.expr:
            pieces = [self.visit(one.value if isinstance(one, ast.FormattedValue) else one) for one in joined.values]
            if all(isinstance(one, ast.Constant) for one in pieces):
                return ast.Constant("".join(str(one.value) for one in pieces))
            return joined

        def visit_BinOp(self, sum_: ast.BinOp) -> ast.expr:
            left, right = self.visit(sum_.left), self.visit(sum_.right)
            texts = [one.value for one in (left, right) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            return ast.Constant("".join(texts)) if len(texts) == 2 and isinstance(sum_.op, ast.Add) else sum_

    found: ast.expr = Fill().visit(node)
    return found


def attributes_of(watch: Watch, suite: str, folder: Path) -> Callable[[str, str], Any]:
    """Return what the modules that stand in have under a name."""
    parsers: dict[str, Any] = {}

    def attribute(module: str, name: str) -> Any:
        if module == "mlx_lm.tool_parsers":
            made = ModuleType(f"{module}.{name}")
            file = folder / "mlx_lm" / "tool_parsers" / f"{name}.py"
            made.__dict__.update(mlx_module(name, constants_of(file), watch))
            return made
        if name == "ToolParserManager":
            return SimpleNamespace(get_tool_parser=lambda one: vllm_parser(one, watch))
        if name == "AutoTokenizer":
            return Characters
        if name == "get_tokenizer":
            return Characters.from_pretrained
        if name.endswith("Parser") and module.startswith("vllm.tool_parsers."):
            return parsers.setdefault(name, vllm_parser(module.rpartition(".")[2], watch))
        if name == "FunctionCallParser" or (name.endswith("Detector") and ".function_call." in module):
            return parsers.setdefault(name, sglang_parser(module.rpartition(".")[2], watch))
        if name == "register_cpu_ci":
            return lambda *_, **__: None
        if name == "CustomTestCase":
            return unittest.TestCase
        source = folder / ("python" if suite == "sglang" else "") / (module.replace(".", "/") + ".py")
        if name in (constants := constants_of(source)):
            return constants[name]
        if name[:1].isupper() and not name.isupper():
            return record(name)
        return outside(name)

    return attribute


def outside(name: str) -> Any:
    """Return what stands in for something that reads no text: to use it says that the test judges something else."""

    class Outside:
        def __call__(self, *_: Any, **__: Any) -> Any:
            raise InsideOfParser(name)

        def __getattr__(self, member: str) -> Any:
            if member.startswith("__"):
                raise AttributeError(member)
            raise InsideOfParser(f"{name}.{member}")

        def __iter__(self) -> Iterator[Any]:
            raise InsideOfParser(name)

        def __contains__(self, _: object) -> bool:
            raise InsideOfParser(name)

    return Outside()
