"""Check that a processor keeps the laws of the protocol, on random batches.

check    check_processor: draws cases, applies the laws, reports the smallest case that breaks one
check    check_kind: the same for the examples of a registered kind, before a server takes requests for it
laws     the laws, each of which runs a processor in two ways that must give the same results
runs     run a processor on a case; compare states and logits
cases    Case: prompts, tokens and logits of a few rows; how cases are drawn and made smaller
"""

from logitkit.conformance.check import check_kind as check_kind
from logitkit.conformance.check import check_processor as check_processor

__all__ = ["check_kind", "check_processor"]
