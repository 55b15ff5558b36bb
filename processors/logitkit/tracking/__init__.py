"""From the tokens that an engine shows to the states of its rows.

tracker                    Tracker: find each row's state by its history, sequence or request
histories                  the histories that were shown, and which of them the rows of a call continue
row_group, generation      rows that grow together, their states along the way, their prompts
rows, device_rows          token histories in a buffer, compared by numpy or on the device; branches tells rows apart
prompt_layout, padding     where prompts begin and end in the ids, and how many are padding
hidden_prompt              the beginning of a sequence that an engine hides
requests                   requests that an engine names by id
"""

from logitkit.tracking.device_rows import DeviceRows as DeviceRows
from logitkit.tracking.generation import Room as Room
from logitkit.tracking.hidden_prompt import HiddenPrompt as HiddenPrompt
from logitkit.tracking.padding import Padding as Padding
from logitkit.tracking.requests import Request as Request
from logitkit.tracking.rows import HistoryRows as HistoryRows
from logitkit.tracking.rows import Shown as Shown
from logitkit.tracking.tracker import Tracker as Tracker

__all__ = ["DeviceRows", "HiddenPrompt", "HistoryRows", "Padding", "Request", "Room", "Shown", "Tracker"]
