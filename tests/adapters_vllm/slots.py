"""A simulation of the data that vLLM's V2 model runner passes to a plugin, for given tokens; its own classes need a GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

SLOTS = 8
LONGEST = 96


class Runner:
    """The tokens of all slots, on a device; a fake one will do."""

    def __init__(self, device: str = "cpu", staged: bool = True, slots: int = SLOTS, longest: int = LONGEST) -> None:
        self.device = torch.device(device)
        self.staged = staged
        # As vLLM names it: tokens on their way to the device.
        self.tokens = SimpleNamespace(gpu=torch.zeros(slots, longest, dtype=torch.int32, device=device))
        self.prompt_len, self.prefill_len = (SimpleNamespace(np=np.zeros(slots, np.int32)) for _ in range(2))
        self.states = SimpleNamespace(
            device=self.device,
            max_num_reqs=slots,
            all_token_ids=self.tokens,
            prompt_len=self.prompt_len,
            prefill_len=self.prefill_len,
        )
        self._writes: list[tuple[int, list[int]]] = []

    def enter(self, slot: int, prompt: list[int], output: list[int]) -> None:
        """Put a request into a slot; until `write`, its tokens are not on the device."""
        self.prompt_len.np[slot] = len(prompt)
        self.prefill_len.np[slot] = len(prompt) + len(output)
        self._writes.append((slot, [*prompt, *output]))
        if self.staged:
            self.tokens._staged_write_indices = [slot for slot, _ in self._writes]
            self.tokens._staged_write_contents = [token for _, tokens in self._writes for token in tokens]
            self.tokens._staged_write_cu_lens = np.cumsum([len(tokens) for _, tokens in self._writes]).tolist()

    def write(self) -> None:
        """Bring all tokens to the device, as vLLM does before it calls `apply_staged_writes`."""
        for slot, tokens in self._writes:
            self.tokens.gpu[slot, : len(tokens)] = torch.tensor(tokens, dtype=torch.int32, device=self.device)
        self._writes.clear()
        for name in ("indices", "contents", "cu_lens"):
            if self.staged:
                getattr(self.tokens, f"_staged_write_{name}").clear()

    def context(self, rows: list[tuple[int, int, int, int]]) -> Any:
        """Return a `LogitsContext` of rows, each a slot, a place among the rows of its request, a position and a token."""

        def column(place: int, dtype: torch.dtype) -> Tensor:
            return torch.tensor([row[place] for row in rows], dtype=dtype, device=self.device)

        slots = np.array([*dict.fromkeys(row[0] for row in rows)], np.int32)
        return SimpleNamespace(
            expanded_idx_mapping=column(0, torch.int32),
            idx_mapping_np=slots,
            expanded_local_pos=column(1, torch.int32),
            pos=column(2, torch.int64),
            input_ids=column(3, torch.int32),
        )
