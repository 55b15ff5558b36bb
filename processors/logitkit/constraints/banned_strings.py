"""BannedStrings: the output never contains any of some texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.bytes.named_occurrences import named_occurrences
from logitkit.compiler.bytes.special_tokens import without
from logitkit.compiler.tokens.compile import token_automaton
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.constraints.texts import as_bytes, check_texts
from logitkit.errors import ConfigurationError
from logitkit.limits import Limits
from logitkit.parameters import Boolean, ListOf, Text
from logitkit.patterns.case_folding import folded
from logitkit.protocol.kind import Kind
from logitkit.runtime.compiled_language import check_has_eos
from logitkit.runtime.constraint import Constraint
from logitkit.vocabulary.special_tokens import Fold
from logitkit.vocabulary.text_with_names import TextWithNames
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["BannedStrings"]

# States cost little here, because each lists only its differences from another. The limit on work bounds time and memory.
LIMITS = Limits(states=200_000)


@dataclass(frozen=True)
class BannedStrings(Constraint):
    """Never let the output contain any of some texts, in any tokenization.

    Only the output counts, so a text that begins in the prompt may be completed. The name of a special token in a text means that
    token too; by itself, EOS can be banned only if another EOS remains. Ids without text that a text does not name do not
    interrupt it, and those that no text names are always legal.

    Args:
        strings: At least one text, not empty, as str (encoded as UTF-8) or bytes.
        vocabulary: The tokens.
        ignore_case: Whether texts that differ only in case are banned too, as in `re.IGNORECASE` (the Kelvin sign equals `k`);
            then all texts must be str.
        limits: Bounds on the cost of compiling.

    Raises:
        ConfigurationError: There are no strings; one is empty, is not a text, or contains more than eight names of special
            tokens; they name every EOS; or one is bytes although case is ignored.
        PatternTooLarge: The automaton would exceed a limit.
        VocabularyError: The vocabulary has no EOS id.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
        >>> banned = lk.BannedStrings(["AAB"], vocabulary, ignore_case=True)
        >>> context = lk.Context.of([[]], vocabulary_size=4)
        >>> state = banned.advance(banned.init_state(context), torch.tensor([0]))
        >>> banned.process_logits(state, torch.zeros(1, 4), context)[1]
        tensor([[0., 0., -inf, 0.]])

    Source: Aho and Corasick, Efficient string matching (1975).
    """

    kind = Kind("banned_strings", {"strings": ListOf(Text()), "ignore_case": Boolean()}, main="strings", order=90)

    strings: Sequence[str | bytes]
    vocabulary: Vocabulary
    ignore_case: bool = False
    limits: Limits = field(default=LIMITS, kw_only=True)

    def __post_init__(self) -> None:
        check_has_eos(self.vocabulary)
        object.__setattr__(self, "strings", check_texts("strings", self.strings))
        Boolean().check("ignore_case", self.ignore_case)
        for index, text in enumerate(self.strings):
            if self.ignore_case and not isinstance(text, str):
                raise ConfigurationError(
                    f"strings[{index}] is {text!r}, and bytes have no case; give a str, or ignore_case=False"
                )
            if not text:
                raise ConfigurationError(f"strings[{index}] is empty, which every text contains; leave it out")
            self.vocabulary.special_names.check(f"strings[{index}]", text, self._fold)
        self.vocabulary.special_names.check_ends_remain("strings", self._special_tokens())
        self._compile_once(BannedStrings, tuple(dict.fromkeys(self.strings)), self.ignore_case)

    def byte_dfa(self) -> ByteDfa:
        """Return the automaton over bytes."""
        dfa = named_occurrences(self._named(), self.limits, self.ignore_case).without()
        return replace(dfa, special_tokens=without(dfa, self._special_tokens()))

    def _named(self) -> list[TextWithNames]:
        names = self.vocabulary.special_names
        return [names.named(text, self._fold) for text in dict.fromkeys(map(self._in_one_form, self.strings))]

    @property
    def _fold(self) -> Fold | None:
        return folded if self.ignore_case else None

    def _in_one_form(self, text: str | bytes) -> str | bytes:
        return text if self.ignore_case else as_bytes(text)

    def _special_tokens(self) -> set[int]:
        names = self.vocabulary.special_names
        return {token for text in self.strings for token in names.tokens_in(text, self._fold)}

    def _compile(self) -> TokenAutomaton:
        return token_automaton(self.byte_dfa(), self.vocabulary, self.limits, "the ban")
