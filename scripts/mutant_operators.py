"""The small bugs that scripts/mutants plants: for each statement of a file, what can be changed in it."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCES = ("processors/logitkit", "adapters/logitkit_adapters")
COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot,
    ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


class Replacement(ast.NodeTransformer):
    """Put one node in the place of another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        """Return the node that a tree has here."""
        return self.new if node is self.old else self.generic_visit(node)


def changes(statement: ast.stmt) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    """Yield what can be changed in a statement, but not in statements inside it: the kind, the node and what replaces it."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
        return
    text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr | ast.Raise) and not text:
        yield "deleted statement", statement, ast.Pass()
    if isinstance(statement, ast.If) and statement.orelse:
        yield "swapped branches", statement, ast.If(statement.test, statement.orelse, statement.body)
    nodes: list[ast.AST] = (
        [statement.value] if isinstance(statement, ast.AnnAssign) and statement.value else [statement]
    )
    for node in nodes:
        nodes += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
        for kind, new in others(node):
            yield kind, node, new


def others(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield what may replace an expression."""
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            operators = [*node.ops[:at], COMPARED[type(operator)](), *node.ops[at + 1 :]]
            yield "comparison", ast.Compare(node.left, operators, node.comparators)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "boolean", ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield "constant + 1", ast.Constant(node.value + 1)
        yield "constant - 1", ast.Constant(node.value - 1)
    elif isinstance(node, ast.BoolOp):
        yield "and or", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "removed not", node.operand


def mutants(file: str, tree: ast.Module) -> Iterator[tuple[dict[str, str], ast.AST, ast.AST]]:
    """Yield the mutants of a file: what names one, the node and what replaces it."""
    functions: dict[ast.AST, str] = {tree: ""}
    for parent in ast.walk(tree):
        for node in ast.iter_child_nodes(parent):
            name = (
                f"{functions[parent]}.{node.name}"
                if isinstance(node, ast.FunctionDef | ast.ClassDef)
                else functions[parent]
            )
            functions[node] = name.removeprefix(".")
            if isinstance(node, ast.stmt):
                # A compound statement is named by its first line, without its body.
                statement = ast.unparse(node).split("\n")[0] if hasattr(node, "body") else ast.unparse(node)
                if statement.startswith("__all__"):
                    continue
                seen: Counter[str] = Counter()
                for kind, old, new in changes(node):
                    seen[kind] += 1
                    mutation = f"{kind} {seen[kind]}"
                    yield {"file": file, "function": name, "statement": statement, "mutation": mutation}, old, new


def sources(root: Path) -> Iterator[tuple[str, ast.Module]]:
    """Yield the files to mutate, without generated tables, with their trees."""
    for source in SOURCES:
        for path in sorted((root / source).rglob("*.py")):
            tree = ast.parse(path.read_text("utf-8"))
            if "do not edit" not in (ast.get_docstring(tree) or "") and "demo" not in path.parts:
                yield path.relative_to(root).as_posix(), tree


class Checkout:
    """The mutants of a checkout, found by what they change."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mutants = [mutant for file, tree in sources(root) for mutant, _, _ in mutants(file, tree)]
        self.by_text: dict[tuple[str, ...], list[dict[str, str]]] = {}
        for mutant in self.mutants:
            self.by_text.setdefault(text_of(mutant), []).append(mutant)

    def find(self, wanted: dict[str, str]) -> dict[str, str] | None:
        """Return the same mutant here, or None if its statement is gone; its own file is tried first."""
        found = self.by_text.get(text_of(wanted), [])
        return next(
            (mutant for mutant in found if mutant == wanted), found[0] if found and wanted["function"] else None
        )

    def mutated(self, wanted: dict[str, str]) -> tuple[str, str] | None:
        """Return the file of a mutant and its text, or None if the statement is gone."""
        found = self.find(wanted)
        if found is None:
            return None
        tree = ast.parse((self.root / found["file"]).read_text("utf-8"))
        old, new = next((old, new) for mutant, old, new in mutants(found["file"], tree) if mutant == found)
        return found["file"], ast.unparse(ast.fix_missing_locations(Replacement(old, new).visit(tree)))


def text_of(mutant: dict[str, str]) -> tuple[str, ...]:
    """Return what a mutant changes, wherever its function stands."""
    return mutant["statement"], mutant["mutation"], mutant["function"].rpartition(".")[2]
