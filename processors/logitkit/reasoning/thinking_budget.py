"""A token budget for thinking sections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit.kernels import switch
from logitkit.lazy import lazy
from logitkit.parameters import Either, Integer, ListOf, Null, Text
from logitkit.protocol.calls import by_tensors, check_tokens, own_rows, token_columns
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind
from logitkit.protocol.processor import Role
from logitkit.reasoning.section_marker import MARKER
from logitkit.reasoning.section_states import SectionStates
from logitkit.reasoning.section_texts import GRACE_AT, SectionTexts, grace_texts
from logitkit.reasoning.thinking_automaton import SectionAutomaton, thinking_automaton
from logitkit.reasoning.thinking_rows import advance_rows, masked_rows
from logitkit.reasoning.thinking_state import NEVER_CLOSED, ThinkingOptions, ThinkingState
from logitkit.runtime.automaton_registry import NEUTRAL
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.compiled_language import check_has_eos
from logitkit.runtime.device_rows import mask_by_operations
from logitkit.runtime.host_rows import mask_on_host
from logitkit.runtime.logit_arrays import check_width
from logitkit.runtime.registry_user import RegistryUser
from logitkit.runtime.shared import shared_by
from logitkit.vocabulary.marker import Marker
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["ThinkingBudget"]

TOKENS = Integer(0)
TEXT = Text(raw=False)


@dataclass(frozen=True)
class ThinkingBudget(RegistryUser):
    r"""Limit the reasoning of a model: force the end marker, such as `</think>`, after a given number of tokens.

    A section of reasoning lies between two markers. Until the budget is used up, all tokens are legal. Then only tokens that
    spell the end marker are legal. They continue any part of it already generated, and do not extend past it. A marker that
    the model generates itself is recognised in any tokenization, also within tokens. The token that opens a section and the
    tokens of the prompt do not count.

    In a marker, the name of a special token, such as `</think>`, means both that token and the name spelled in ordinary tokens.
    When the budget is spent, only the special token is forced, even if part of the name has been spelled.

    With `start`, each section has the full budget, and the prompt is read, since a section may be open at its end. Without
    `start`, there is one section, which begins with the output.

    A `message` and a `grace` make the end less abrupt. With either, a character of which only some bytes are there is completed
    first. `pause` keeps the end out of tool calls. `close` ends a section at any time.

    Args:
        max_tokens: The number of tokens in a section before its end is forced, from 0 to 2**31 - 1. Tokens that already belong
            to the end marker count too.
        end: The end marker of a section: a str (encoded as UTF-8) or bytes, of at most 256 bytes, or a token id. Or a list of
            markers: each ends the section, and the first one is forced.
        vocabulary: The vocabulary.
        start: The start marker of a section, in the same form. None: the prompt has opened the section.
        message: A text that is forced before the end marker, such as `"\nI have to answer now.\n"`. If the text already ends
            with its beginning, only the rest is forced. It names no special token.
        grace: The number of tokens after the budget in which the model may still finish a line or a sentence: the end is forced
            after a token with which one of `grace_at` ends, and at the latest when these tokens are used up.
        grace_at: The texts at which a grace ends. By default, the ends of lines and of sentences.
        min_tokens: The number of tokens in a section before which no token may complete an end marker, at most `max_tokens`.
            EOS stays legal.
        pause: Pairs of markers, such as `("<tool_call>", "</tool_call>")`. Between them, the end is not forced, and tokens do
            not count. An end marker ends the section there too. After each of these markers, the search for texts begins again.

    Raises:
        ConfigurationError: A number is not an integer in range, `min_tokens` is greater than `max_tokens`, a text is empty, too
            long or of another type; or a marker is not an id of the vocabulary, contains more than eight names of special
            tokens, or is or contains EOS; or the texts contradict each other.
        VocabularyError: The vocabulary has no EOS id, or its tokens cannot complete the end marker at some point.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"a", b"<", b"/>", b"</>", None], eos_ids=[4])
        >>> budget = lk.ThinkingBudget(2, "</>", vocabulary)
        >>> context = lk.Context.of([[]], vocabulary_size=5)
        >>> state = budget.advance(budget.init_state(context), torch.tensor([[0, 1]]))
        >>> budget.process_logits(state, torch.zeros(1, 5), context)[1]
        tensor([[-inf, -inf, 0., -inf, -inf]])

    Source: Muennighoff et al., s1: Simple test-time scaling (2025), for budget forcing; llama.cpp's reasoning budget for the
        message.
    """

    max_tokens: int
    end: Marker | Sequence[Marker]
    vocabulary: Vocabulary
    start: Marker | None = None
    message: str | None = None
    grace: int = 0
    grace_at: Sequence[str] = GRACE_AT
    min_tokens: int = 0
    pause: Sequence[tuple[Marker, Marker]] = ()
    automaton: TokenAutomaton = field(init=False, repr=False, compare=False)

    role = Role.CONSTRAINT
    kind = Kind(
        "thinking_budget",
        {
            "max_tokens": TOKENS,
            "end": Either((*MARKER.forms, ListOf(MARKER))),
            "start": Either((MARKER, Null())),
            "message": Either((TEXT, Null())),
            "grace": TOKENS,
            "grace_at": ListOf(TEXT),
            "min_tokens": TOKENS,
            "pause": ListOf(ListOf(MARKER, 2, 2), 0),
        },
        order=130,
    )
    may_empty_rows = False

    def __post_init__(self) -> None:
        check_has_eos(self.vocabulary)
        for name in ("max_tokens", "grace", "min_tokens"):
            object.__setattr__(self, name, TOKENS.check(name, getattr(self, name)))
        if self.min_tokens > self.max_tokens:
            raise ConfigurationError(
                f"min_tokens is {self.min_tokens}, greater than max_tokens={self.max_tokens}; give at most {self.max_tokens}"
            )
        object.__setattr__(self, "grace_at", grace_texts(self.grace_at))
        texts = self._texts
        object.__setattr__(self, "end", texts.ends[0] if len(texts.ends) == 1 else texts.ends)
        object.__setattr__(self, "start", texts.start)
        object.__setattr__(self, "pause", texts.pauses)
        # With one end marker and nothing else, it is the automaton of a `LoopStop` with the same markers.
        key = (ThinkingBudget, texts.start, texts.ends[0]) if texts.is_plain else (ThinkingBudget, texts)
        automaton = shared_by(self.vocabulary).automaton(key, lambda: thinking_automaton(texts, self.vocabulary))
        object.__setattr__(self, "automaton", automaton)

    @property
    def _texts(self) -> SectionTexts:
        """The texts of a section, on which the automaton depends."""
        grace_at = self.grace_at if self.grace else ()
        return SectionTexts.given(
            self.end, self.start, self.message, grace_at, self.pause, self.min_tokens > 0, self.vocabulary
        )

    @lazy
    def _sections(self) -> SectionStates[int]:
        """The numbers of the states of a section."""
        return SectionAutomaton(self._texts, self.vocabulary).states

    @property
    def reads_prompt(self) -> bool:
        """Whether the tokens of the prompt matter."""
        return self.start is not None

    def init_state(self, context: Context) -> ThinkingState:
        """Return the initial state of rows, after their prompts."""
        sections = self._sections
        options = ThinkingOptions(self.grace, self.min_tokens, sections.breaks, sections.paused, sections.held)
        columns = [per_row(context, number) for number in options] if any(options) else []
        none = per_row(context, 0)
        state = ThinkingState(
            AutomatonState.start(self, context),
            none,
            per_row(context, self.max_tokens),
            per_row(context, sections.inside),
            per_row(context, NEVER_CLOSED),
            torch.stack(columns, 1) if columns else none.new_zeros((context.batch_size, 0)),
        )
        if self.start is None or context.prompt.shape[1] == 0:
            return state
        after = self._advance(state, context.prompt, prompt=True)
        return after._replace(spent=state.spent, closed_at=state.closed_at)

    @classmethod
    def neutral_state(cls, context: Context) -> ThinkingState:
        """Return the state of rows without a budget."""
        at = AutomatonState.neutral(context)
        none = torch.zeros_like(at.slot)
        return ThinkingState(at, none, none, none + 1, none + NEVER_CLOSED, none.new_zeros((len(none), 0)))

    def advance(self, state: ThinkingState, tokens: Tensor) -> ThinkingState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none.

        An illegal token, as in an unconstrained draft, counts by its text: it may or may not end the section.

        Raises:
            StaleAutomaton: The processor that a row's budget belongs to no longer exists (on the CPU; elsewhere the row ends).
            VocabularyError: A token is not in the vocabulary (on the CPU; elsewhere it counts as having no text).
        """
        check_tokens("ThinkingBudget", state.spent.shape[0], tokens)
        return self._advance(state, tokens)

    def _advance(self, state: ThinkingState, tokens: Tensor, prompt: bool = False) -> ThinkingState:
        size = self.vocabulary.size
        if not by_tensors(state.spent):
            return advance_rows(state, self.registry, size, tokens, prompt)
        layout = self.registry.layout_on(state.spent.device)
        if switch.runs_on(state.spent, tokens):
            from logitkit.kernels.thinking_step import thinking_step

            after = thinking_step(layout.kernel_tables, *state.kernel_arguments, size, tokens, prompt=prompt)
            if after is not None:
                at = state.at._replace(state=after[0])
                return state._replace(at=at, spent=after[1], closed_at=after[2])
        for column in token_columns(tokens):
            state = state.advance_tensors(layout.tables, size, column, prompt)
        return state

    def process_logits(self, state: ThinkingState, logits: Tensor, context: Context) -> tuple[ThinkingState, Tensor]:
        """Mask all tokens that do not continue the end marker, in rows whose budget is spent; other rows do not change.

        In rows with fewer than `min_tokens`, only tokens that complete an end marker are masked.

        A finished row may emit only EOS and padding. A row without any token left, since another processor masked the rest, ends.

        Raises:
            StaleAutomaton: The processor that a row's budget belongs to no longer exists (on the CPU; elsewhere the row ends).
            VocabularyError: The logits have fewer columns than the vocabulary has ids, or far more.
        """
        logits = own_rows("ThinkingBudget", state.spent.shape[0], logits)
        check_width(self.vocabulary.size, logits.shape[1])
        if switch.runs_on(state.spent, logits):
            from logitkit.kernels.thinking_step import thinking_step

            tables, size = self.registry.layout_on(logits.device).kernel_tables, self.vocabulary.size
            if thinking_step(tables, *state.kernel_arguments, size, None, logits) is not None:
                return state, logits
        if not by_tensors(logits):
            rows = masked_rows(state)
            return state, logits if rows is None else mask_on_host(self.registry, rows, logits)
        now, bound = state.masked
        slot, generation, _ = state.at
        layout = self.registry.layout_on(logits.device)
        bound = bound | (generation != layout.tables.generation.index_select(0, slot))
        looked_up = AutomatonState(torch.where(bound, slot, NEUTRAL), generation, now)
        return state, mask_by_operations(layout, looked_up.positions, logits)

    def close(self, state: ThinkingState, rows: Tensor | Sequence[bool]) -> ThinkingState:
        """Return a state in which the sections of some rows end now, as if their budgets were spent, for example at a deadline.

        The message and the end marker are forced next, after a pause if the row is in one, and whatever `grace` and `min_tokens`
        are. A row outside of sections does not change, and its next section has the full budget. Rows that are copied, saved or
        joined keep it, and states from before are still open.

        A hook computes its states from tokens, which do not say that a section was closed. So this is for loops of your own, and
        for the states of sessions.

        Args:
            state: A state of this processor.
            rows: [B] bool, or a list, which rows to close.

        Raises:
            ConfigurationError: The state is not a state of a thinking budget, such as a hook or the state of a chain.
            BatchMismatch: There are more or fewer rows in the state.
        """
        if not isinstance(state, ThinkingState):
            raise ConfigurationError(
                f"state is a {type(state).__name__}, not a state of a ThinkingBudget; of a chain's state, give the part that "
                "belongs to the budget. Hooks compute states from tokens, so nothing can be closed in one: write your own loop"
            )
        chosen = torch.as_tensor(rows, dtype=torch.bool, device=state.spent.device)
        if chosen.shape != state.spent.shape:
            raise BatchMismatch(f"rows has the shape {tuple(chosen.shape)}, but the state has {len(state.spent)} rows")
        return state.closed(chosen)

    def finish(self, state: ThinkingState, rows: Tensor) -> ThinkingState:
        """Return a state in which some rows, [B] bool, have had EOS."""
        return state._replace(at=state.at.finished(rows))

    def is_thinking(self, state: ThinkingState) -> Tensor:
        """Return [B] bool, whether each row is in a section."""
        return state.is_inside

    def is_paused(self, state: ThinkingState) -> Tensor:
        """Return [B] bool, whether each row is in a section, and there in a pause."""
        return state.is_inside & ~state.is_open

    def is_forced(self, state: ThinkingState) -> Tensor:
        """Return [B] bool, whether the end of each row's section is forced, because its budget is spent or it was closed."""
        return state.is_forced

    def is_dead(self, state: ThinkingState) -> Tensor:
        """Return [B] bool, whether each row ended while the end of its section was forced."""
        return state.is_cut
