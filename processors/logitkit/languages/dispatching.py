"""Free text in which triggers start tags, as tool calls stand in an answer."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from logitkit.compiler.characters.text_search import Search
from logitkit.errors import ConfigurationError
from logitkit.languages.combined import InOrder, OneOf, Repeated
from logitkit.languages.free_text import AnyText, ways_to_write
from logitkit.languages.language import Language
from logitkit.languages.language_writer import LanguageWriter
from logitkit.languages.size import check_size
from logitkit.languages.texts import LiteralText, OneText, SpecialToken, as_language, literal, markers_of
from logitkit.parameters.scalars import as_integer
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Alternate, Characters, Graph, Node

__all__ = ["Dispatch", "dispatch"]

# Edges of the graph: what is read, and the state that it leads to.
Edge = tuple[Node, int]


@dataclass(frozen=True)
class Dispatch(Language):
    """Free text with tags in it; see `dispatch`.

    Args:
        triggers: The text or token that starts a tag.
        rests: The language after each trigger, up to the end of its tag.
        at_least: The minimum number of tags.
        stop_after_first: Whether the text ends with the first tag.
        exclude: Texts and tokens that never occur in the free text.
    """

    triggers: tuple[str | SpecialToken, ...]
    rests: tuple[Language, ...]
    at_least: int = 0
    stop_after_first: bool = False
    exclude: tuple[str | SpecialToken, ...] = ()

    @property
    def parts(self) -> tuple[Language, ...]:
        """The languages that it is built from."""
        return self.rests

    @property
    def special_tokens(self) -> Iterator[str | int]:
        """The special tokens that start tags, or do not occur in the free text."""
        return AnyText(self.triggers, self.exclude).special_tokens

    @property
    def texts(self) -> Iterator[str]:
        """The texts that start tags, or do not occur in the free text."""
        return AnyText(self.triggers, self.exclude).texts

    def tree(self, writer: LanguageWriter) -> Graph:
        """Return the syntax tree: a graph with the states of the search, once for each number of tags that matters."""
        search = Search.of(
            [ways_to_write(m, writer) for m in (*self.triggers, *self.exclude)], writer.tokens, writer.limits
        )
        rests = [rest.tree(writer) for rest in self.rests]
        states = len(search.moves)
        # With this many tags, or more, the text may end; the last state is that after a tag after which nothing is allowed.
        phases = max(self.at_least, 1) if self.stop_after_first else self.at_least + 1
        writer.limits.check_states(phases * states)
        rows: list[tuple[Edge, ...]] = []
        for phase in range(phases):
            first = phase * states
            after = states * phases if self.stop_after_first else min(phase + 1, phases - 1) * states
            for moves, found in zip(search.moves, search.found, strict=True):
                row: list[Edge] = [(Characters(charset), first + target) for charset, target in moves]
                for charset, which in found:
                    if max(which) < len(rests):
                        following = [rests[number] for number in which]
                        rest = Alternate(tuple(following)) if len(following) > 1 else following[0]
                        row.append((concatenate([Characters(charset), rest]), after))
                rows.append(tuple(row))
        accepting = [(not self.stop_after_first or not self.at_least) and p >= self.at_least for p in range(phases)]
        return Graph((*rows, ()), (*(a for a in accepting for _ in range(states)), True))


def dispatch(
    tags: Mapping[str | SpecialToken, Language | str],
    at_least: int = 0,
    stop_after_first: bool = False,
    exclude: str | SpecialToken | Iterable[str | SpecialToken] = (),
) -> Dispatch:
    """Return the language of free text in which a trigger starts a tag, as often as the model likes.

    A trigger counts wherever it occurs in the free text, in any tokenization. After the tag, free text continues.

    Args:
        tags: For each trigger the tag that it starts, which begins with the trigger. A trigger is a text or `special(...)`.
        at_least: The minimum number of tags.
        stop_after_first: Whether the text ends with the first tag. Without a tag it may end anywhere, unless `at_least` is 1.
        exclude: Texts and special tokens that must not occur in the free text.

    Raises:
        ConfigurationError: There are no tags, a tag does not begin with its trigger, a trigger contains another one that ends
            before it, or an argument is not allowed.

    Example:
        >>> from logitkit.languages import json_schema, tag
        >>> call = tag("<call>", json_schema({"type": "object"}), "</call>")
        >>> dispatch({"<call>": call}).triggers
        ('<call>',)
    """
    if not isinstance(tags, Mapping) or not tags:
        raise ConfigurationError(f"tags is {tags!r}; allowed is a mapping from at least one trigger to its tag")
    triggers = markers_of("tags", tags)
    least = as_integer(at_least)
    if least is None or least < 0 or (stop_after_first and least > 1):
        allowed = "0 and 1, as the text ends with the first tag" if stop_after_first else "integers from 0"
        raise ConfigurationError(f"at_least is {at_least!r}; allowed are {allowed}")
    _check_no_trigger_inside([trigger for trigger in triggers if isinstance(trigger, str)])
    found = [as_language(f"tags[{trigger!r}]", tags[trigger]) for trigger in triggers]
    for language in found:
        check_size(language)
    rests = [without_trigger(language, trigger) for language, trigger in zip(found, triggers, strict=True)]
    return Dispatch(triggers, tuple(rests), least, bool(stop_after_first), markers_of("exclude", exclude))


def _check_no_trigger_inside(triggers: list[str]) -> None:
    """Refuse a trigger that contains another one which ends before it. The time does not grow with the square of their number."""
    known, lengths = set(triggers), sorted({*map(len, triggers)})
    for trigger in triggers:
        for start in range(len(trigger) - 1):
            for length in lengths[: bisect_left(lengths, len(trigger) - start)]:
                if (other := trigger[start : start + length]) in known:
                    raise ConfigurationError(
                        f"the trigger {trigger!r} contains the trigger {other!r}, which starts its tag first; leave one of them "
                        "out"
                    )


def without_trigger(language: Language, trigger: str | SpecialToken) -> Language:
    """Return what follows a trigger in the texts of a language, all of which begin with it.

    Raises:
        ConfigurationError: Some text may not begin with it.
    """
    match language:
        case SpecialToken() if language == trigger:
            return literal("")
        case LiteralText(text) if isinstance(trigger, str) and text.startswith(trigger):
            return literal(text.removeprefix(trigger))
        case OneText(options) if isinstance(trigger, str) and all(text.startswith(trigger) for text in options):
            return OneText(tuple(text.removeprefix(trigger) for text in options))
        case InOrder((first, *others)):
            return InOrder((without_trigger(first, trigger), *others))
        case OneOf(options):
            return OneOf(tuple(without_trigger(option, trigger) for option in options))
        case Repeated(item, 1, most) if most == 1:
            return without_trigger(item, trigger)
        case _:
            name = repr(trigger) if isinstance(trigger, str) else f"special({trigger.token!r})"
            raise ConfigurationError(
                f"the tag of the trigger {name} begins with {language!r}; allowed are tags that begin with their trigger, as a "
                "fixed text or as that special token"
            )
