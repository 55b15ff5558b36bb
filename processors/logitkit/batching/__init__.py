"""Requests with different configurations in one batch: one state and one call per kind of processor and step.

batch            the requests of a batch: enter, leave, move, process
entering         the states of new requests, which enter for the first time or after preemption
step_states      the states of all rows, one per step of the canonical order
gathered         the rows of registered processors, gathered by configuration
row_processors   the processors of rows as one processor (row_steps: one of its steps)
state_bank       the states of requests at fixed rows, for engines that work ahead of the host (bank_entries: those that enter)
steps            the steps that a processor consists of
live_outputs     rows of an engine that moves them, and shows outputs as lists that grow
slot_rows        rows of an engine that has slots, and keeps tokens on the device; drafts
ragged           tokens of which each request has a different number, as one tensor
"""

from logitkit.batching.batch import BatchedRequests as BatchedRequests
from logitkit.batching.entering import NewRequest as NewRequest
from logitkit.batching.live_outputs import LiveOutputs as LiveOutputs
from logitkit.batching.live_outputs import LiveRequest as LiveRequest
from logitkit.batching.live_outputs import RowMove as RowMove
from logitkit.batching.row_processors import RowProcessors as RowProcessors
from logitkit.batching.slot_rows import CallRows as CallRows
from logitkit.batching.slot_rows import SlotRows as SlotRows
from logitkit.batching.state_bank import StateBank as StateBank
from logitkit.batching.steps import ORDER as ORDER
from logitkit.batching.steps import Ending as Ending
from logitkit.batching.steps import steps_of as steps_of

__all__ = [
    "ORDER",
    "BatchedRequests",
    "CallRows",
    "Ending",
    "LiveOutputs",
    "LiveRequest",
    "NewRequest",
    "RowMove",
    "RowProcessors",
    "SlotRows",
    "StateBank",
    "steps_of",
]
