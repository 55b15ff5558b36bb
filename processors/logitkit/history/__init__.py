"""From the token ids that an engine shows to the states of its rows.

resolver        HistoryResolver: which histories continue, and what is remembered
prompt_layout   where the prompt of each row begins and ends
generation      rows that began together, and their first states
lineage         rows that grow together, and their states; `trail` keeps the last of these
growing_row     one row that nearly always grows by a token, at less cost
stepped_row     a row alone that goes on by a token, without a resolver and without tensors
sequences       SequenceResolver: one sequence a call, of which the engine may hide the beginning
hidden_prompt   what it hides, put back where the prompt is told
rows            the ids of rows in a buffer: `host_rows` compares with numpy, `device_rows` on any device
branches        the few columns that tell rows apart
"""

from logitkit.history.resolver import HistoryResolver as HistoryResolver

__all__ = ["HistoryResolver"]
