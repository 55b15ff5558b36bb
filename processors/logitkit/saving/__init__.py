"""Saved states: safetensors files with a description and a digest.

state_file     save_state and load_state
state_format   the file format, and checks for damaged files
"""

from logitkit.saving.state_file import load_state as load_state
from logitkit.saving.state_file import save_state as save_state

__all__ = ["load_state", "save_state"]
