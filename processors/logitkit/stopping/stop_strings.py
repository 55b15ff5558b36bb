"""The processor that ends the text at the first stop."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import FINISHED, FIRST_STATE
from logitkit.errors import ArgumentTypeError, ConfigurationError
from logitkit.kernels import switch
from logitkit.lazy import lazy
from logitkit.limits import DEFAULT_LIMITS, Limits, check_limits
from logitkit.parameters import Boolean, Either, ListOf, Text, TokenId
from logitkit.parameters.forms import elements
from logitkit.protocol.calls import by_tensors, check_tokens, own_rows, token_columns
from logitkit.protocol.context import Context
from logitkit.protocol.kind import Kind
from logitkit.protocol.processor import Role
from logitkit.runtime.automaton_registry import NEUTRAL
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.compiled_language import check_has_eos
from logitkit.runtime.logit_arrays import check_width
from logitkit.runtime.registry_user import RegistryUser
from logitkit.stopping.stop_automaton import StopAutomaton
from logitkit.stopping.stop_mask import stop_rows, stop_tensors
from logitkit.stopping.stop_pattern import StopPattern, StopPatternForm
from logitkit.stopping.stop_registry import StopRegistry, stop_registry
from logitkit.stopping.stop_state import NO_TOKEN, StopState
from logitkit.vocabulary.marker import Marker, as_marker, check_vocabulary
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["StopPlace", "StopStrings", "checked_stops"]


def checked_stops(stops: object, vocabulary: Vocabulary) -> tuple[bytes | int | StopPattern, ...]:
    """Return the stops as bytes of text, patterns and token ids, in the given order; the list may be empty.

    Raises:
        ConfigurationError: The stops are not a list, or a stop is empty, of another type, not an id of the vocabulary, a pattern
            of bytes, or a text that contains too many names of special tokens.
        VocabularyError: The vocabulary has another type.
    """
    check_vocabulary(vocabulary)
    given = elements("stops", stops, "texts, patterns and token ids")
    return tuple(_checked_stop(f"stops[{i}]", stop, vocabulary) for i, stop in enumerate(given))


def _checked_stop(name: str, given: object, vocabulary: Vocabulary) -> bytes | int | StopPattern:
    if isinstance(given, re.Pattern):
        return StopPattern.of(given, name)
    return given if isinstance(given, StopPattern) else as_marker(name, given, vocabulary)


class StopPlace(NamedTuple):
    """The positions of stops; -1 in rows without one.

    All positions count from the beginning of the output, so positions in the prompt are negative.

    Args:
        begin: [B] int64, bytes of text before the stop.
        end: [B] int64, bytes of text up to its end.
        token: [B] int64, index of the output token that completed the stop.
    """

    begin: Tensor
    end: Tensor
    token: Tensor


@dataclass(frozen=True)
class StopStrings(RegistryUser):
    """Allow only EOS once the text contains a stop, in any tokenization.

    The first stop to be complete wins; of several that end at the same byte, the longest. Tokens without text that a stop does
    not name do not interrupt it. After EOS, only EOS and padding may follow. A stop ends the row even if another constraint does
    not allow EOS there: EOS then has logit 0.

    A pattern stops the text as soon as some of its last characters match it as a whole, as in `re.fullmatch`.

    Args:
        stops: At least one stop: a str (encoded as UTF-8), bytes, a token id, or `re.compile(...)`. In a text, the name of a
            special token, such as `<|im_end|>`, means both that token and the name spelled in ordinary tokens; in a pattern, it
            means its characters. A pattern limits the length of what it matches, and has no anchors and lookarounds.
        vocabulary: The vocabulary.
        include_prompt: Whether a stop may begin in the prompt, or lie entirely in it.
        limits: Bounds on the automaton, which has about one state per byte of the stops; more if they contain special tokens, or
            are patterns.

    Raises:
        ConfigurationError: There are no stops; a stop is empty, of another type, not an id of the vocabulary, or a text that
            contains more than eight names of special tokens; a pattern matches no text, the empty text, or texts of unlimited
            length, has an anchor or a lookaround, or is one of bytes; the stops name every EOS; or another argument has the wrong
            type.
        PatternSyntaxError: A pattern uses syntax that is not regular, or not known here.
        PatternTooLarge: The stops are too long in total, or the patterns too complex.
        VocabularyError: The vocabulary has no EOS id.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
        >>> stops = lk.StopStrings(["ba", "aab"], vocabulary)
        >>> context = lk.Context.of([[]], vocabulary_size=4)
        >>> state = stops.advance(stops.init_state(context), torch.tensor([[0, 0, 2]]))
        >>> stops.process_logits(state, torch.zeros(1, 4), context)[1]
        tensor([[-inf, -inf, -inf, 0.]])
        >>> stops.which(state).tolist(), stops.place(state).begin.tolist()
        ([1], [1])

    Source: Aho and Corasick, Efficient string matching (1975).
    """

    stops: Iterable[Marker | re.Pattern[str] | StopPattern]
    vocabulary: Vocabulary
    include_prompt: bool = False
    limits: Limits = field(default=DEFAULT_LIMITS, kw_only=True)

    role = Role.CONSTRAINT
    kind = Kind(
        "stop_strings",
        {"stops": ListOf(Either((TokenId(), StopPatternForm(), Text()))), "include_prompt": Boolean()},
        main="stops",
        order=140,
    )
    may_empty_rows = False

    def __post_init__(self) -> None:
        check_has_eos(self.vocabulary)
        check_limits(self.limits)
        super().__post_init__()
        stops = checked_stops(self.stops, self.vocabulary)
        names = self.vocabulary.special_names
        names.check_ends_remain("stops", [token for s in stops if isinstance(s, bytes) for token in names.tokens(s)])
        if not stops:
            raise ConfigurationError("stops is empty; give at least one text or token id")
        object.__setattr__(self, "stops", stops)
        self.__dict__["_automaton"] = self.registry.made(stops, self.vocabulary, self.limits)

    @property
    def reads_prompt(self) -> bool:
        """Whether the tokens of the prompt matter."""
        return self.include_prompt

    @lazy
    def registry(self) -> StopRegistry:
        """The registry that states refer to, on every device."""
        return stop_registry(self.vocabulary)

    @lazy
    def _automaton(self) -> StopAutomaton:
        return self.registry.made(checked_stops(self.stops, self.vocabulary), self.vocabulary, self.limits)

    @property
    def automaton(self) -> StopAutomaton:
        """The automaton of the stops."""
        return self._automaton

    def init_state(self, context: Context) -> StopState:
        """Return the initial state of rows, after their prompts."""
        state = StopState.before_any_stop(AutomatonState.start(self, context))
        if not self.include_prompt or context.prompt.shape[1] == 0:
            return state
        # Positions before the output are negative.
        tokens, text = (context.prompt >= 0).sum(1), self.registry.text_length(context.prompt)
        return self._advance(state._replace(tokens=-tokens, text=-text), context.prompt, prompt=True)

    @classmethod
    def neutral_state(cls, context: Context) -> StopState:
        """Return the state of rows without stops."""
        return StopState.before_any_stop(AutomatonState.neutral(context))

    def advance(self, state: StopState, tokens: Tensor) -> StopState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none.

        Raises:
            StaleAutomaton: The processor that a row's stops belong to no longer exists (on the CPU; elsewhere the row ends).
            VocabularyError: A token is not in the vocabulary (on the CPU; elsewhere it counts as having no text).
        """
        check_tokens("StopStrings", state.token.shape[0], tokens)
        return self._advance(state, tokens)

    def _advance(self, state: StopState, tokens: Tensor, prompt: bool = False) -> StopState:
        if not by_tensors(state.token):
            return state.advance_rows(self.registry, tokens, prompt)
        lengths = self.registry.lengths_on(state.token.device)
        layout = self.registry.layout_on(state.token.device)
        if switch.runs_on(state.token, tokens):
            from logitkit.kernels.stop_step import stop_step

            at, *others = state
            rows = at.state, *others
            after = stop_step(layout.kernel_tables, lengths, at.slot, at.generation, rows, tokens, prompt=prompt)
            if after is not None:
                return StopState(state.at._replace(state=after[0]), *after[1:])
        for column in token_columns(tokens):
            state = state.advance_tensors(layout.tables, lengths, column, prompt)
        return state

    def process_logits(self, state: StopState, logits: Tensor, context: Context) -> tuple[StopState, Tensor]:
        """Mask everything but EOS in rows that have reached a stop, in place; other rows do not change.

        Raises:
            VocabularyError: The logits have fewer columns than the vocabulary has ids, or far more.
        """
        logits = own_rows("StopStrings", state.token.shape[0], logits)
        check_width(self.vocabulary.size, logits.shape[1])
        if not by_tensors(logits):
            return state, stop_rows(state.at, self.registry, logits)
        layout = self.registry.layout_on(logits.device)
        if switch.runs_on(state.token, logits):
            from logitkit.kernels.stop_step import stop_step

            at, *others = state
            rows, lengths = (at.state, *others), self.registry.lengths_on(logits.device)
            if stop_step(layout.kernel_tables, lengths, at.slot, at.generation, rows, None, logits) is not None:
                return state, logits
        return state, stop_tensors(state.at, layout.tables, logits)

    def fired(self, state: StopState) -> Tensor:
        """Return [B] bool, whether each row has reached a stop."""
        return state.token != NO_TOKEN

    def which(self, state: StopState) -> Tensor:
        """Return [B] int64, the index of each row's stop in the list of the processor that started the row, or -1.

        Raises:
            StaleAutomaton: The processor that a row's stops belong to no longer exists.
        """
        return self._asked(state)[0]

    def place(self, state: StopState) -> StopPlace:
        """Return the position of each row's stop in the text, and the token that completed it.

        Raises:
            StaleAutomaton: The processor that a row's stops belong to no longer exists.
        """
        return StopPlace(*self._asked(state)[1:])

    def pending(self, state: StopState) -> Tensor:
        """Return [B] int64, how many bytes at the end of each row's text may be the beginning of a stop; 0 after its end.

        Raises:
            StaleAutomaton: The processor that a row's stops belong to no longer exists.
        """
        rows = zip(*(column.tolist() for column in state.at), strict=True)
        found = [
            0 if slot == NEUTRAL or now < FIRST_STATE else self.registry.automaton(slot, generation).depth(now)
            for slot, generation, now in rows
        ]
        return torch.tensor(found, dtype=torch.int64, device=state.token.device)

    def finish(self, state: StopState, rows: Tensor) -> StopState:
        """Return a state in which some rows, [B] bool, have had EOS."""
        return state._replace(at=state.at.finished(rows))

    def is_finished(self, state: StopState) -> Tensor:
        """Return [B] bool, whether each row has emitted EOS."""
        return (state.at.state == FINISHED) & (state.at.slot != NEUTRAL)

    def _asked(self, state: StopState) -> list[Tensor]:
        """Return the index, begin, end and token of every row's stop; -1 if there is none."""
        if not isinstance(state, StopState):
            raise ArgumentTypeError(
                f"the state is a {type(state).__name__}, not one of StopStrings; hook.state is None before the first step, and "
                "of a chain it has one state for each processor, as in hook.state[0]"
            )
        columns = (state.at.slot, state.at.generation, *state[1:])
        found = []
        for slot, generation, before, token, tokens, text in zip(*(c.tolist() for c in columns), strict=True):
            place = None if token == NO_TOKEN else self.registry.automaton(slot, generation).occurrence(before, token)
            found.append(
                (-1, -1, -1, -1) if place is None else (place.which, text + place.begin, text + place.end, tokens)
            )
        answers = torch.tensor(found, dtype=torch.int64, device=state.token.device).reshape(-1, 4)
        return [*answers.unbind(1)]
