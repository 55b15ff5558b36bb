"""From schemas to sets of values, one level at a time: what is inside members and items is only named."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial

from logitkit.budget import spend, spent
from logitkit.errors import UnsupportedSchema
from logitkit.json_schema.conjunction import NOTHING, Conjunction, Literal
from logitkit.json_schema.emptiness import without_void
from logitkit.json_schema.handlers import ALONE, LAST, TOGETHER, Handler, LastHandler
from logitkit.json_schema.left_out import LeftOut, countable, tellable
from logitkit.json_schema.objects import Site
from logitkit.json_schema.references import Here, Place, References
from logitkit.json_schema.schema_places import SchemaPlaces
from logitkit.json_schema.values import Values, Work
from logitkit.limits import Limits

# Schemas that apply to one value and hold each other, as `allOf` in `allOf`.
DEEPEST = 40
# Different conjunctions of schemas that values have to satisfy.
MOST_CONJUNCTIONS = 20_000

# The cost of joining one more schema.
LITERAL_STEPS = 80


class Reader(SchemaPlaces):
    """Reads the schemas of a document as they are asked for.

    Args:
        references: The document.
        limits: Bounds on automata.
        left_out: The keywords to leave out, to which the reader adds those that it cannot honour.
        strict_formats: Whether to refuse what `ignore` is given.
        counts: Whether the characters of strings may be counted. If not, there are states for each length, which may be too many.
        free_of: Texts that occur in no string and no name of a member.
    """

    def __init__(
        self,
        references: References,
        limits: Limits,
        left_out: LeftOut | None = None,
        strict_formats: bool = False,
        counts: bool = False,
        free_of: tuple[str, ...] = (),
    ) -> None:
        super().__init__(references, left_out, strict_formats)
        self.counts = counts
        self.limits = limits
        self.work = Work()
        self.free_of = free_of
        self.everything = Values.everything(limits, free_of)
        self.nothing = Values.nothing(limits)
        # A number for each union of arrays whose items a row has to remember, by the first items of each set and the others, and
        # for each kind of objects whose names it has to.
        self.remembered: dict[Hashable, int] = {}
        self._telling = 0
        self._read: dict[tuple[int, bool], tuple[Values, bool, bool]] = {}
        self._complements: dict[int, Values] = {}
        self._values: dict[Conjunction, Values] = {}
        self._countable: dict[Conjunction, Values] = {}
        self._open: list[tuple[int, bool]] = []

    def read(self, place: Place, track: bool = False) -> Values:
        """Return the values that satisfy the schema of a place.

        Args:
            place: The schema.
            track: Whether to tell what the keywords have looked at, and to keep branches apart for it.
        """
        if isinstance(place.value, bool):
            return self.everything if place.value else self.nothing
        key = self._number(place), track
        if key in self._open:
            # The keyword to blame is the one that led here, wherever it stands.
            raise UnsupportedSchema("it refers to itself without going into a member or an item")
        if len(self._open) >= DEEPEST:
            raise UnsupportedSchema(f"more than {DEEPEST} schemas are nested here; simplify the schema", place.pointer)
        if key not in self._read:
            self._open.append(key)
            drops, doubts = self._drops, self._doubts
            try:
                values = self._keywords(place, track)
            finally:
                self._open.pop()
            self._read[key] = values, self._drops > drops, self._doubts > doubts
        values, weakened, doubted = self._read[key]
        self._drops += weakened
        self._doubts += doubted
        return values

    def complement(self, place: Place) -> Values:
        """Return the values that do not satisfy the schema of a place; all, if it is known in part only."""
        drops, doubts = self._drops, self._doubts
        values = self.read(place)
        if self._drops > drops:
            return self.everything
        self.check_doubts(doubts)
        number = self._number(place)
        if number not in self._complements:
            self._complements[number] = _blaming(values.complement(self.work), Site(place.pointer, None))
        return self._complements[number]

    def values(self, conjunction: Conjunction) -> Values:
        """Return the values that satisfy a conjunction."""
        found = self._values.get(conjunction)
        if found is None:
            if len(self._values) >= MOST_CONJUNCTIONS:
                raise UnsupportedSchema(
                    f"there are more than {MOST_CONJUNCTIONS} different combinations of its schemas; simplify the schema",
                    "#",
                )
            # Conjunctions grow at their ends: most of this one is known.
            size = len(conjunction)
            begin = next((n for n in range(size - 1, 0, -1) if conjunction[:n] in self._values), 0)
            end = next((n for n in range(max(begin, 1), size) if conjunction[n:] in self._values), size)
            found = self._values[conjunction[:begin]] if begin else self.everything
            for literal in conjunction[begin:end]:
                found = self._intersection(found, literal)
            if end < size:
                found = found.intersection(self._values[conjunction[end:]], self.work)
            self._values[conjunction] = found
        if self._telling or not (self.left_out.lax or any(len(some.failing) > 1 for some in found.objects)):
            return found
        if conjunction not in self._countable:
            objects = tuple([countable(self, tellable(self, some)) for some in found.objects if not some.is_empty])
            self._countable[conjunction] = replace(found, objects=objects)
        return self._countable[conjunction]

    def told(self, conjunction: Conjunction) -> Values | None:
        """Return the values that satisfy a conjunction; None where it is being read, or refused if it is ever written.

        Raises:
            UnsupportedSchema: Nothing is left of what the schema may cost.
        """
        if conjunction in self._values:
            return self._values[conjunction]
        drops = self._drops
        # A schema that is being read is not to blame, and what is never written is not left out.
        self._telling += 1
        try:
            return self.values(conjunction)
        except UnsupportedSchema:
            if spent() > self.limits.work:
                raise
            return None
        finally:
            # A schema inside says nothing of the schema around it.
            self._drops = drops
            self._telling -= 1

    def _intersection(self, values: Values, literal: Literal) -> Values:
        if literal == NOTHING[0]:
            return self.nothing
        place = self._places[literal.schema]
        return self._honoured(place, None, partial(self._joined, values, literal, place))

    def _joined(self, values: Values, literal: Literal, place: Place) -> Values:
        spend(LITERAL_STEPS)
        if literal.positive:
            return values.intersection(self.read(place), self.work)
        if (place.pointer, None) in self.left_out:
            return values
        self.left_out.negated.add(place.pointer)
        return values.intersection(self.complement(place), self.work)

    def _honoured(self, place: Place, keyword: str | None, read: Callable[[], Values]) -> Values:
        """Return what a function reads, without keywords that cannot be honoured; the keyword is to blame for errors."""
        while True:
            before, done = spent(), self.work.done
            try:
                with self.blaming(place, keyword):
                    return read()
            except UnsupportedSchema as error:
                if self._telling or not self.left_out.add(error, before):
                    raise
                self.work.done = done

    def _keywords(self, place: Place, track: bool) -> Values:
        schema = place.value
        if place.dialect.ref_alone and "$ref" in schema:
            schema = {"$ref": schema["$ref"]}
        track = track or any(self.has(place, keyword) for keyword in ("unevaluatedItems", "unevaluatedProperties"))
        before = self._drops
        found = self.everything
        done: set[Callable[..., object]] = set()
        for keyword in schema:
            together = TOGETHER.get(keyword)
            handler = together or ALONE.get(keyword)
            if handler is None or handler in done:
                continue
            if together is not None:
                done.add(together)
            read = partial(self._narrowed, found, handler, Here(place, keyword, track))
            found = self._honoured(place, keyword, read)
        for keyword, last in LAST.items():
            # It is not known at what a keyword that is left out would have looked.
            if keyword in schema and (keyword == "format" or self._drops == before):
                found = self._honoured(place, keyword, partial(self._closed, found, last, place, keyword))
        return found

    def _narrowed(self, found: Values, handler: Handler, here: Here) -> Values:
        if here.keyword in ALONE and not self.has(here.place, here.keyword):
            return found
        more = _blaming(handler(self, here), Site(here.place.pointer, here.keyword))
        return without_void(self, found.intersection(more, self.work))

    def _closed(self, found: Values, handler: LastHandler, place: Place, keyword: str) -> Values:
        return handler(self, place, found) if self.has(place, keyword) else found


def _blaming(values: Values, site: Site) -> Values:
    if not any(some.failing or some.clauses for some in values.objects):
        return values
    return values.with_objects(lambda some: some.blaming(site))
