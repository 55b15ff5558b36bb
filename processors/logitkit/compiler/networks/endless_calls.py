"""Which definitions of a network have no text at all, because each of their texts would have to hold another one of theirs."""

from __future__ import annotations

from logitkit.budget import spend
from logitkit.compiler.networks.network import CountedText, Network, PlacedDefinition, Strings
from logitkit.patterns.charset import CharSet
from logitkit.patterns.syntax import Alternate, Call, Characters, Concat, Graph, Machine, Node, Repeat

__all__ = ["endless_calls"]


def endless_calls(network: Network) -> frozenset[int]:
    r"""Return the definitions that have no text.

    What calls one of them cannot be said either. A bracket that begins one of several calls would otherwise be followed by what
    leads nowhere, which shows only at its end.

    Example:
        >>> from logitkit.compiler.networks.network import Definition
        >>> from logitkit.patterns.parser import parse
        >>> endings = Definition("[", Alternate((Call(0), parse(r"\]"))))
        >>> endless_calls(Network(Call(0), (endings, Definition("[", Concat((Call(1), parse(r"\]")))))))
        frozenset({1})
    """
    bodies = {
        d: definition.body
        for d, definition in enumerate(network.definitions)
        if not isinstance(definition, Strings | CountedText | PlacedDefinition)
    }
    ended = {d for d in range(len(network.definitions)) if d not in bodies}
    waiting = [*bodies]
    while waiting:
        # Definitions tend to call those behind them, or those before: there and back finds either in one go.
        known = len(ended)
        for definition in [*waiting[::-1], *waiting]:
            if definition not in ended and _Search(ended).has_text(bodies[definition]):
                ended.add(definition)
        waiting = [d for d in waiting if d not in ended]
        if len(ended) == known:
            break
    return frozenset(waiting)


class _Search:
    """Looks at a tree; what stands in it many times is looked at once.

    Args:
        ended: The definitions that are known to have a text.
    """

    def __init__(self, ended: set[int]) -> None:
        self.ended = ended
        self.found: dict[int, bool] = {}

    def has_text(self, tree: Node) -> bool:
        """Whether some text belongs to a tree."""
        found = self.found.get(id(tree))
        if found is None:
            spend(1)
            found = self.found[id(tree)] = self._has_text(tree)
        return found

    def _has_text(self, tree: Node) -> bool:
        match tree:
            case Characters(charset):
                return bool(charset.ranges)
            case Concat(parts):
                return all(self.has_text(part) for part in parts)
            case Alternate(options):
                return any(self.has_text(option) for option in options)
            case Repeat(node, minimum):
                return minimum == 0 or self.has_text(node)
            case Call(definition):
                return definition in self.ended
            case Machine() | Graph():
                return self._has_path(tree)
            case _:
                return True

    def _has_path(self, graph: Machine | Graph) -> bool:
        met, todo = {0}, [0]
        while todo:
            state = todo.pop()
            if graph.accepting[state]:
                return True
            for label, target in graph.moves[state]:
                readable = bool(label.ranges) if isinstance(label, CharSet) else self.has_text(label)
                if target not in met and readable:
                    met.add(target)
                    todo.append(target)
        return False
