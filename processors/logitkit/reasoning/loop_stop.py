"""The processor that ends a text that repeats itself."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.errors import ConfigurationError
from logitkit.lazy import lazy
from logitkit.parameters import Either, Integer, Null
from logitkit.protocol.calls import by_tensors, check_tokens, own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind
from logitkit.protocol.processor import Role
from logitkit.reasoning.ended_mask import mask_ended_rows, mask_ended_tensors
from logitkit.reasoning.loop_rows import advance_rows
from logitkit.reasoning.loop_state import NEVER_LOOPS, LoopPhase, LoopState
from logitkit.reasoning.section_marker import MARKER, section_marker
from logitkit.reasoning.section_states import SectionStates
from logitkit.reasoning.section_texts import SectionTexts
from logitkit.reasoning.thinking_automaton import SectionAutomaton, thinking_automaton
from logitkit.reasoning.thinking_budget import ThinkingBudget
from logitkit.runtime.automaton_registry import NEUTRAL
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.compiled_language import check_has_eos
from logitkit.runtime.device_rows import advance_on_device, mask_on_device
from logitkit.runtime.host_rows import advance_on_host, mask_on_host
from logitkit.runtime.logit_arrays import check_width
from logitkit.runtime.registry_layout import RegistryLayout
from logitkit.runtime.registry_user import RegistryUser
from logitkit.runtime.shared import shared_by
from logitkit.runtime.slot_generation import SlotGeneration
from logitkit.vocabulary.marker import Marker
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["LoopStop"]

# A period times a count fits into 32 bits.
COUNT = Integer(2, 2**16)
PERIOD = Integer(1, 2**12)
MIN_TOKENS = Integer(0)


@dataclass(frozen=True)
class LoopStop(RegistryUser):
    """Allow only EOS once a row repeats itself: its last tokens are `count` copies of one block of tokens.

    The block has `min_period` to `max_period` tokens, and the copies come directly after each other. Only output tokens count,
    not the prompt. A loop ends the row even if another constraint does not allow EOS there: EOS then has logit 0, as after a
    stop of `StopStrings`. After EOS, only EOS and padding may follow.

    With `then`, a loop within reasoning does not end the row at once. It ends the reasoning: the end marker, such as `</think>`,
    is forced as by a `ThinkingBudget`, and the row is watched again after it. A loop outside of reasoning ends the row, and so
    does the second loop. If another constraint does not allow the marker, a `chain` ends the row, and reports the conflict.

    Args:
        vocabulary: The vocabulary.
        count: The number of copies that are a loop, from 2 to 65536.
        max_period: The maximum number of tokens in a block, from 1 to 4096. The state has 12 bytes for each of them.
        min_period: The minimum number of tokens in a block, from 1 to `max_period`.
        min_tokens: The number of output tokens before which a row is not a loop, from 0 to 2**31 - 1.
        then: The end marker of reasoning: a str (encoded as UTF-8) or bytes, of at most 256 bytes, or a token id. None: every
            loop ends its row.
        start: The start marker of reasoning, in the same form. None: the prompt has opened it, and there is one section.

    Raises:
        ConfigurationError: A number is not an integer in range, `min_period` is greater than `max_period`, `start` is given
            without `then`, or a marker is one that `ThinkingBudget` refuses.
        VocabularyError: The vocabulary has no EOS id, or its tokens cannot complete the end marker at some point.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"a", b"b", b"c", None], eos_ids=[3])
        >>> loops = lk.LoopStop(vocabulary, count=2)
        >>> context = lk.Context.of([[]], vocabulary_size=4)
        >>> state = loops.advance(loops.init_state(context), torch.tensor([[2, 0, 1, 0, 1]]))
        >>> loops.process_logits(state, torch.zeros(1, 4), context)[1]
        tensor([[-inf, -inf, -inf, 0.]])
        >>> loops.fired(state).tolist(), loops.period(state).tolist()
        ([True], [2])

    Source: the repetition detection of vLLM, with the same verdicts; the end of reasoning is this library's own.
    """

    vocabulary: Vocabulary
    count: int = 3
    max_period: int = 64
    min_period: int = 1
    min_tokens: int = 0
    then: Marker | None = None
    start: Marker | None = None

    role = Role.CONSTRAINT
    # After the thinking budget, and before stops: a loop ends a row whose budget is spent, and a stop one whose loop is closed.
    kind = Kind(
        "loop_stop",
        {
            "count": COUNT,
            "max_period": PERIOD,
            "min_period": PERIOD,
            "min_tokens": MIN_TOKENS,
            "then": Either((MARKER, Null())),
            "start": Either((MARKER, Null())),
        },
        main="count",
        order=135,
    )
    may_empty_rows = False

    def __post_init__(self) -> None:
        check_has_eos(self.vocabulary)
        for name, form in (
            ("count", COUNT),
            ("max_period", PERIOD),
            ("min_period", PERIOD),
            ("min_tokens", MIN_TOKENS),
        ):
            object.__setattr__(self, name, form.check(name, getattr(self, name)))
        if self.min_period > self.max_period:
            raise ConfigurationError(
                f"min_period is {self.min_period}, greater than max_period={self.max_period}; give at most {self.max_period}, or "
                "a greater max_period"
            )
        if self.start is not None and self.then is None:
            raise ConfigurationError(
                f"start is {self.start!r}, but then is None; give the end marker of reasoning, such as then='</think>'"
            )
        for name in ("then", "start"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, section_marker(name, given, self.vocabulary))
        self.__dict__["_automaton"] = self._compiled()

    def _compiled(self) -> TokenAutomaton | None:
        if self.then is None:
            return None
        start, end = self.start, self.then
        # The one that a budget with the same markers has.
        return shared_by(self.vocabulary).automaton(
            (ThinkingBudget, start, end),
            lambda: thinking_automaton(SectionTexts(start, (end,)), self.vocabulary),  # type: ignore[arg-type]
        )

    @lazy
    def _automaton(self) -> TokenAutomaton | None:
        return self._compiled()

    @lazy
    def _inside(self) -> int:
        """The number of states inside a section."""
        if self.then is None:
            return 0
        return SectionAutomaton(SectionTexts(self.start, (self.then,)), self.vocabulary).states.inside  # type: ignore[arg-type]

    @property
    def automaton(self) -> TokenAutomaton | None:
        """The automaton of the markers, or None."""
        return self._automaton

    @property
    def reads_prompt(self) -> bool:
        """Whether the tokens of the prompt matter."""
        return self.start is not None

    def init_state(self, context: Context) -> LoopState:
        """Return the initial state of rows, after their prompts."""
        period = torch.arange(1, self.max_period + 1, dtype=torch.int32, device=context.device)
        needed = torch.where(period < self.min_period, NEVER_LOOPS, period * (self.count - 1))
        window = needed.new_full((context.batch_size, self.max_period), -1)
        has_sections = torch.ones(
            (context.batch_size, 0 if self.then is None else 1), dtype=torch.bool, device=context.device
        )
        return LoopState(
            self._markers(context),
            per_row(context, self._inside),
            per_row(context, LoopPhase.WATCHING),
            per_row(context, self.min_tokens),
            window,
            torch.zeros_like(window),
            needed.repeat(context.batch_size, 1),
            has_sections,
        )

    def _markers(self, context: Context) -> AutomatonState:
        """Return where the rows are between the markers after their prompts."""
        if self.then is None:
            return AutomatonState.neutral(context)
        at = AutomatonState.start(self, context)
        if self.start is None or context.prompt.shape[1] == 0:
            return at
        # In the prompt, EOS ends nothing, and there may be ids outside of the vocabulary.
        tokens = torch.where(context.prompt < self.vocabulary.size, context.prompt, -1)
        for end in self.vocabulary.eos_ids:
            tokens = torch.where(tokens == end, -1, tokens)
        if not by_tensors(tokens):
            return advance_on_host(self.registry, at, tokens)
        return at.at_positions(advance_on_device(self.registry.layout_on(tokens.device), at.positions, tokens))

    @classmethod
    def neutral_state(cls, context: Context) -> LoopState:
        """Return the state of rows that are not watched."""
        at, none = AutomatonState.neutral(context), per_row(context, 0)
        nothing = torch.zeros((context.batch_size, 0), dtype=torch.int32, device=context.device)
        phase = per_row(context, LoopPhase.NEUTRAL)
        return LoopState(at, none, phase, none, nothing, nothing, nothing, nothing.to(torch.bool))

    def advance(self, state: LoopState, tokens: Tensor) -> LoopState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none.

        A loop of an unconstrained draft counts as any other, and tokens after it change nothing.

        Raises:
            StaleAutomaton: The processor that a row's markers belong to no longer exists (on the CPU; elsewhere the row ends).
        """
        check_tokens("LoopStop", state.phase.shape[0], tokens)
        size, ends = self.vocabulary.size, self.vocabulary.eos_ids
        if not by_tensors(state.phase):
            return advance_rows(state, self.registry, size, ends, tokens)
        return state.advance_tensors(self._layout(state), size, ends, tokens)

    def _layout(self, state: LoopState) -> RegistryLayout | None:
        return self.registry.layout_on(state.phase.device) if state.has_sections.shape[1] else None

    def process_logits(self, state: LoopState, logits: Tensor, context: Context) -> tuple[LoopState, Tensor]:
        """Mask everything but EOS in rows that loop, or all that does not continue the end marker; other rows do not change.

        Raises:
            StaleAutomaton: The processor that a row's markers belong to no longer exists (on the CPU; elsewhere the row ends).
            VocabularyError: The logits have fewer columns than the vocabulary has ids, or far more.
        """
        logits = own_rows("LoopStop", state.phase.shape[0], logits)
        check_width(self.vocabulary.size, logits.shape[1])
        if by_tensors(logits):
            return state, self._masked_by_tensors(state, logits)
        phases = state.phase.tolist()
        if not any(phases):
            return state, logits
        if LoopPhase.CLOSING in phases:
            mask_on_host(self.registry, _closing(state, state.phase == LoopPhase.CLOSING), logits)
        ending, ended = (
            [row for row, phase in enumerate(phases) if phase in those]
            for those in ((LoopPhase.LOOPED,), (LoopPhase.ENDED, LoopPhase.LOOPED_AND_ENDED, LoopPhase.CUT))
        )
        return state, mask_ended_rows(self.vocabulary, ending, ended, logits) if ending or ended else logits

    def _masked_by_tensors(self, state: LoopState, logits: Tensor) -> Tensor:
        layout = self._layout(state)
        if layout is not None:
            stale = state.at.generation != layout.tables.generation.index_select(0, state.at.slot)
            looked_up = _closing(state, (state.phase == LoopPhase.CLOSING) | stale)
            logits = mask_on_device(layout, looked_up.positions, logits)
        return mask_ended_tensors(self.vocabulary, state.phase == LoopPhase.LOOPED, self.is_finished(state), logits)

    def fired(self, state: LoopState) -> Tensor:
        """Return [B] bool, whether a loop has ended each row."""
        return (state.phase == LoopPhase.LOOPED) | (state.phase == LoopPhase.LOOPED_AND_ENDED)

    def period(self, state: LoopState) -> Tensor:
        """Return [B] int64, the number of tokens in the block of the loop that has ended each row, or 0."""
        if state.window.shape[1] == 0:
            return torch.zeros_like(state.phase)
        return torch.where(self.fired(state), state.is_loop.to(torch.uint8).argmax(1) + 1, 0)

    def is_closing(self, state: LoopState) -> Tensor:
        """Return [B] bool, whether the end of each row's reasoning is being forced, because it looped."""
        return state.phase == LoopPhase.CLOSING

    def finish(self, state: LoopState, rows: Tensor) -> LoopState:
        """Return a state in which some rows, [B] bool, have had EOS."""
        return state.ended(rows)

    def is_finished(self, state: LoopState) -> Tensor:
        """Return [B] bool, whether each row has emitted EOS."""
        return (state.phase >= LoopPhase.ENDED) & (state.phase != LoopPhase.NEUTRAL)

    def is_dead(self, state: LoopState) -> Tensor:
        """Return [B] bool, whether each row ended while the end of its reasoning was forced."""
        return state.phase == LoopPhase.CUT


def _closing(state: LoopState, rows: Tensor) -> AutomatonState:
    """Return the states whose masks allow only the rest of the end marker, in some rows, [B] bool; neutral in the others."""
    at = state.at
    forced = torch.where(state.is_inside, SectionStates(state.inside).forced(at.state), at.state)
    generation = torch.where(rows, at.generation, SlotGeneration.NEUTRAL)
    return AutomatonState(torch.where(rows, at.slot, NEUTRAL), generation, forced)
