"""Find the state of each row from the token ids that an engine shows.

tracker                    Tracker: find the states of rows by their token histories
sequence_tracker           SequenceTracker: the same for sequences whose beginning an engine hides
requests                   RequestTracker: find the states of requests that an engine identifies by a key
histories                  the histories shown so far, and which of them the rows of a call continue
row_group, generation      rows that grow together: their prompts, and their states at recent lengths
rows                       token histories in a buffer, compared by numpy or on an accelerator (row_group)
branches                   the columns at which rows differ first
prompt_layout, padding     where prompts begin and end in the ids, and how much of them is padding
hidden_prompt              prompts whose beginning an engine hides
"""

from logitkit.tracking.generation import Room as Room
from logitkit.tracking.hidden_prompt import HiddenPrompt as HiddenPrompt
from logitkit.tracking.padding import Padding as Padding
from logitkit.tracking.requests import Request as Request
from logitkit.tracking.requests import RequestTracker as RequestTracker
from logitkit.tracking.row_group import DeviceRows as DeviceRows
from logitkit.tracking.rows import HistoryRows as HistoryRows
from logitkit.tracking.rows import Shown as Shown
from logitkit.tracking.sequence_tracker import SequenceTracker as SequenceTracker
from logitkit.tracking.tracker import Tracker as Tracker

__all__ = [
    "DeviceRows",
    "HiddenPrompt",
    "HistoryRows",
    "Padding",
    "Request",
    "RequestTracker",
    "Room",
    "SequenceTracker",
    "Shown",
    "Tracker",
]
