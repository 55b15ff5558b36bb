"""Masks over a fixed number of slots, against their definition slot by slot."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from logitkit.sessions import prefill_mask

SLOTS = 7


@given(st.integers(0, 4), st.integers(1, 3), st.data())
def test_a_mask_is_what_it_is_said_to_be(start: int, count: int, data: st.DataObject) -> None:
    bits = st.lists(st.booleans(), min_size=SLOTS * count, max_size=SLOTS * count)
    index = torch.tensor(start)
    held = torch.tensor([data.draw(bits)[:SLOTS], data.draw(bits)[:SLOTS]])
    present = torch.tensor([data.draw(bits)[:count], data.draw(bits)[:count]])
    mask = torch.tensor(data.draw(bits)[: count * count]).reshape(count, count)
    lengths = torch.tensor([data.draw(st.integers(0, count)), data.draw(st.integers(0, count))])
    after = prefill_mask.held_after(held, index, present)
    seen = prefill_mask.attention(prefill_mask.prefix(index, count, SLOTS, lengths), after, index, mask)
    positions = prefill_mask.positions(held, index, present)
    for row in range(2):
        tokens = [held[row, s] for s in range(start)] + [present[row, c] for c in range(count)]
        assert after[row].tolist() == [*map(bool, tokens), *[False] * (SLOTS - start - count)]
        for query in range(count):
            allowed = []
            for slot in range(SLOTS):
                column, both = slot - start, max(query, slot - start) < lengths[row]
                inside = 0 <= column < count
                allowed.append(
                    (slot <= start + query or (inside and bool(both)))
                    and bool(after[row, slot])
                    and (not inside or bool(mask[query, column]))
                )
            if not any(allowed):
                allowed[start + query] = True
            assert seen[row, 0, query].tolist() == allowed
            assert positions[row, query] == max(0, sum(map(int, tokens[: start + query + 1])) - 1)


def test_a_causal_mask_is_slot_up_to_start_and_query_offset() -> None:
    seen = prefill_mask.causal(torch.tensor(3), 6, 12)
    assert seen.tolist() == [[slot <= 3 + query for slot in range(12)] for query in range(6)]
