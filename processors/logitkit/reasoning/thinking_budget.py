"""A token budget for thinking sections."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.kernels import switch
from logitkit.lazy import lazy
from logitkit.parameters import Either, Integer, Null
from logitkit.protocol.calls import by_tensors, check_tokens, own_rows, token_columns
from logitkit.protocol.context import Context
from logitkit.protocol.kind import Kind
from logitkit.protocol.processor import Role
from logitkit.reasoning.section_marker import MARKER, section_marker
from logitkit.reasoning.section_states import SectionStates
from logitkit.reasoning.thinking_automaton import inside_states, thinking_automaton
from logitkit.reasoning.thinking_state import ThinkingState
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

MAX_TOKENS = Integer(0)


@dataclass(frozen=True)
class ThinkingBudget(RegistryUser):
    """Limit the reasoning of a model: force the end marker, such as `</think>`, after a given number of tokens.

    A section of reasoning lies between two markers. Until the budget is used up, all tokens are legal. Then only tokens that
    spell the end marker are legal. They continue any part of it already generated, and do not extend past it. A marker that
    the model generates itself is recognised in any tokenization, also within tokens. The token that opens a section and the
    tokens of the prompt do not count.

    In a marker, the name of a special token, such as `</think>`, means both that token and the name spelled in ordinary tokens.
    When the budget is spent, only the special token is forced, even if part of the name has been spelled.

    With `start`, each section has the full budget, and the prompt is read, since a section may be open at its end. Without
    `start`, there is one section, which begins with the output.

    Args:
        max_tokens: The number of tokens in a section before its end is forced, from 0 to 2**31 - 1. Tokens that already belong
            to the end marker count too.
        end: The end marker of a section: a str (encoded as UTF-8) or bytes, of at most 256 bytes, or a token id.
        vocabulary: The vocabulary.
        start: The start marker of a section, in the same form. None: the prompt has opened the section.

    Raises:
        ConfigurationError: The budget is not an integer in range, or a marker is empty, too long, of another type, not an id of
            the vocabulary, or a text that contains more than eight names of special tokens; or it is or contains EOS.
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

    Source: Muennighoff et al., s1: Simple test-time scaling (2025), for budget forcing.
    """

    max_tokens: int
    end: Marker
    vocabulary: Vocabulary
    start: Marker | None = None
    automaton: TokenAutomaton = field(init=False, repr=False, compare=False)

    role = Role.CONSTRAINT
    kind = Kind(
        "thinking_budget", {"max_tokens": MAX_TOKENS, "end": MARKER, "start": Either((MARKER, Null()))}, order=130
    )
    may_empty_rows = False

    def __post_init__(self) -> None:
        check_has_eos(self.vocabulary)
        object.__setattr__(self, "max_tokens", MAX_TOKENS.check("max_tokens", self.max_tokens))
        end = section_marker("end", self.end, self.vocabulary)
        start = None if self.start is None else section_marker("start", self.start, self.vocabulary)
        object.__setattr__(self, "end", end)
        object.__setattr__(self, "start", start)
        automaton = shared_by(self.vocabulary).automaton(
            (ThinkingBudget, start, end), lambda: thinking_automaton(start, end, self.vocabulary)
        )
        object.__setattr__(self, "automaton", automaton)

    @lazy
    def _inside(self) -> int:
        """The number of states inside a section."""
        assert isinstance(self.end, bytes | int)
        return inside_states(self.end, self.vocabulary)

    @property
    def reads_prompt(self) -> bool:
        """Whether the tokens of the prompt matter."""
        return self.start is not None

    def init_state(self, context: Context) -> ThinkingState:
        """Return the initial state of rows, after their prompts."""
        handle = self.handle()
        values = (handle.slot, handle.generation, self.automaton.start, 0, self.max_tokens, self._inside)
        full = [torch.full((context.batch_size,), v, dtype=torch.int64, device=context.device) for v in values]
        state = ThinkingState(AutomatonState(*full[:3]), *full[3:])
        if self.start is None or context.prompt.shape[1] == 0:
            return state
        return self._advance(state, context.prompt, prompt=True)._replace(spent=state.spent)

    @classmethod
    def neutral_state(cls, context: Context) -> ThinkingState:
        """Return the state of rows without a budget."""
        at = AutomatonState.neutral(context)
        none = torch.zeros_like(at.slot)
        return ThinkingState(at, none, none, none + 1)

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
            return state.advance_rows(self.registry, size, tokens, prompt)
        layout = self.registry.layout_on(state.spent.device)
        if switch.runs_on(state.spent, tokens):
            from logitkit.kernels.thinking_step import thinking_step

            slot, generation, now = state.at
            after = thinking_step(
                layout.kernel_tables, slot, generation, (now, *state[1:]), size, tokens, prompt=prompt
            )
            if after is not None:
                return state._replace(at=state.at._replace(state=after[0]), spent=after[1])
        for column in token_columns(tokens):
            state = state.advance_tensors(layout.tables, size, column, prompt)
        return state

    def process_logits(self, state: ThinkingState, logits: Tensor, context: Context) -> tuple[ThinkingState, Tensor]:
        """Mask all tokens that do not continue the end marker, in rows whose budget is spent; other rows do not change.

        A finished row may emit only EOS and padding. A row without any token left, since another processor masked the rest, ends.

        Raises:
            StaleAutomaton: The processor that a row's budget belongs to no longer exists (on the CPU; elsewhere the row ends).
            VocabularyError: The logits have fewer columns than the vocabulary has ids, or far more.
        """
        logits = own_rows("ThinkingBudget", state.spent.shape[0], logits)
        check_width(self.vocabulary.size, logits.shape[1])
        slot, generation, now = state.at
        if switch.runs_on(state.spent, logits):
            from logitkit.kernels.thinking_step import thinking_step

            tables, size = self.registry.layout_on(logits.device).kernel_tables, self.vocabulary.size
            if thinking_step(tables, slot, generation, (now, *state[1:]), size, None, logits) is not None:
                return state, logits
        forced = state.is_forced
        bound, now = forced | (now < FIRST_STATE), torch.where(forced, SectionStates(state.inside).forced(now), now)
        if not by_tensors(logits):
            looked_up = AutomatonState(torch.where(bound, slot, NEUTRAL), generation, now)
            return state, mask_on_host(self.registry, looked_up, logits)
        layout = self.registry.layout_on(logits.device)
        bound = bound | (generation != layout.tables.generation.index_select(0, slot))
        looked_up = AutomatonState(torch.where(bound, slot, NEUTRAL), generation, now)
        return state, mask_by_operations(layout, looked_up.positions, logits)

    def finish(self, state: ThinkingState, rows: Tensor) -> ThinkingState:
        """Return a state in which some rows, [B] bool, have had EOS."""
        return state._replace(at=state.at.finished(rows))

    def is_thinking(self, state: ThinkingState) -> Tensor:
        """Return [B] bool, whether each row is in a section."""
        return state.is_inside

    def is_forced(self, state: ThinkingState) -> Tensor:
        """Return [B] bool, whether each row is still in a section but has spent its budget, so that the end is forced."""
        return state.is_forced

    def is_dead(self, state: ThinkingState) -> Tensor:
        """Return [B] bool, whether each row ended while the end of its section was forced."""
        return state.is_cut
