"""Requests with different configurations in one batch: one state and one call per kind of processor and step.

batch            the requests of a batch: enter, leave, move, process
entering         the states of new requests, which enter for the first time or after preemption
step_states      the states of all rows, one per step of the canonical order
gathered         the rows of registered processors, gathered by configuration
steps            the steps that a processor consists of
"""

from logitkit.batching.batch import BatchedRequests as BatchedRequests
from logitkit.batching.entering import NewRequest as NewRequest
from logitkit.batching.steps import ORDER as ORDER
from logitkit.batching.steps import Ending as Ending
from logitkit.batching.steps import steps_of as steps_of

__all__ = ["ORDER", "BatchedRequests", "Ending", "NewRequest", "steps_of"]
