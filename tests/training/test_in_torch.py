"""Replay inside of torch's own machinery: autocast, 16 bits, torch.compile, checkpointing, a GPU, and memory."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import logitkit as lk
from logitkit.protocol.context import context_to
from logitkit.training import block_room, differentiable, few_legal, state_blocks
from logitkit.training.rollouts import Rollouts
from logitkit.training.state_blocks import StateBlock, blocks_of
from tests.fake_cuda import fake_cuda
from tests.registry import BOS, EOS, PAD, TOKENS, of_kind
from tests.training.loops import Sampled, replay_of, sample

CHAIN = of_kind("pipeline")[0].processor


def loss_and_gradient(
    sampled: Sampled, logits: Tensor, replay: Callable[..., Any] = replay_of
) -> tuple[Tensor, Tensor]:
    given = logits.clone().requires_grad_()
    loss = replay(CHAIN, sampled, given).log_probs.square().sum()
    loss.backward()
    assert given.grad is not None
    return loss.detach(), given.grad


def test_small_blocks_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    sampled = sample(CHAIN, 3, rows=5, steps=11)
    whole = loss_and_gradient(sampled, sampled.logits)
    found = replay_of(CHAIN, sampled)
    for logits in (72, 3 * 72, 7 * 72, 33 * 72):
        monkeypatch.setattr(state_blocks, "ON_HOST", logits)
        for one, other in zip(whole, loss_and_gradient(sampled, sampled.logits), strict=True):
            torch.testing.assert_close(one, other)
        for one, other in zip(found, replay_of(CHAIN, sampled), strict=True):
            torch.testing.assert_close(one, other)
    for module in (differentiable, block_room):
        monkeypatch.setattr(module, "FEW_ROWS", 0)
    for one, other in zip(whole, loss_and_gradient(sampled, sampled.logits), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_few_legal_tokens_give_what_all_columns_do(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    sampled = sample(CHAIN, 5, rows=5, steps=11)
    logits, found = sampled.logits.to(dtype), []
    for columns_of_one in (1, 36, 10**6):
        monkeypatch.setattr(few_legal, "FEW", columns_of_one)
        found.append(loss_and_gradient(sampled, logits))
    monkeypatch.setattr(few_legal, "FEW", 36)
    assert few_legal.are_few(sampled.kept, 72).unique().tolist() == [False, True]
    for other in found[:2]:
        for one, two in zip(found[2], other, strict=True):
            torch.testing.assert_close(one, two)


def test_the_sign_of_a_few_tokens_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few_legal, "FEW", 1)
    given = torch.tensor([[[2.0, -1.0, 0.5, -0.5]]]).requires_grad_()
    kept = torch.tensor([[[0b1111]]], dtype=torch.int32)
    found = lk.training.replay(lk.chain(lk.RepetitionPenalty(2.0)), [[0, 1]], torch.tensor([[2]]), given, kept=kept)
    found.log_probs.sum().backward()
    # The penalty divides the logit of token 0 by 2, and doubles that of token 1.
    chances = torch.tensor([1.0, -2.0, 0.5, -0.5]).softmax(0)
    assert given.grad is not None
    torch.testing.assert_close(given.grad[0, 0], (torch.eye(4)[2] - chances) * torch.tensor([0.5, 2.0, 1.0, 1.0]))


def test_few_kept_tokens_count_whatever_the_trainer_would_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    # At temperature 0, the trainer's best token is another one than the sampler's.
    logits = torch.tensor([[[3.0, 1.0, 2.0, *[0.0] * 29]]])
    kept, found = torch.tensor([[[0b110]]], dtype=torch.int32), []
    for columns_of_one in (1, 10**6):
        monkeypatch.setattr(few_legal, "FEW", columns_of_one)
        given = logits.clone().requires_grad_()
        chain = lk.chain(lk.PresencePenalty(0.5), lk.Temperature(0.0))
        lk.training.replay(chain, [[]], torch.tensor([[1]]), given, kept=kept).log_probs.sum().backward()
        assert given.grad is not None
        found.append(given.grad)
    torch.testing.assert_close(*found)
    assert found[0][0, 0, :4].tolist() == pytest.approx([0, 0.731059, -0.731059, 0])


def test_the_logits_stay_as_they_are_and_may_be_a_view() -> None:
    sampled = sample(CHAIN, 4)
    wide = torch.zeros(3, 11, 80)
    wide[:, 1:10, 4:76] = sampled.logits
    view = wide[:, 1:10, 4:76]
    before = wide.clone()
    expected, got = loss_and_gradient(sampled, sampled.logits), loss_and_gradient(sampled, view)
    for one, other in zip(expected, got, strict=True):
        torch.testing.assert_close(one, other)
    leaf = wide.requires_grad_()
    replay_of(CHAIN, sampled, leaf[:, 1:10, 4:76]).log_probs.square().sum().backward()
    assert leaf.grad is not None
    torch.testing.assert_close(leaf.grad[:, 1:10, 4:76], expected[1])
    assert torch.equal(wide, before)


def test_logits_that_were_overwritten_before_the_gradient_are_noticed() -> None:
    sampled = sample(CHAIN, 4)
    logits = (sampled.logits.clone().requires_grad_()) * 1
    loss = replay_of(CHAIN, sampled, logits).log_probs.sum()
    logits.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bits_are_processed_in_32(dtype: torch.dtype) -> None:
    sampled = sample(CHAIN, 6, dtype=dtype)
    found = replay_of(CHAIN, sampled)
    assert found.log_probs.dtype == found.log_mass.dtype == torch.float32
    torch.testing.assert_close(found.log_probs.double(), sampled.log_probs, atol=3e-6, rtol=1e-5)
    _, gradient = loss_and_gradient(sampled, sampled.logits)
    assert gradient.dtype == dtype
    _, wide = loss_and_gradient(sampled, sampled.logits.float())
    assert torch.equal(gradient, wide.to(dtype))


def test_autocast() -> None:
    sampled = sample(CHAIN, 7)
    hidden, head = torch.randn(3, 9, 16), torch.nn.Linear(16, 72)
    with torch.no_grad():
        head.weight.mul_(0.01)
        head.bias.zero_()
    with torch.autocast("cpu", torch.bfloat16):
        logits = head(hidden) + sampled.logits
        inside = replay_of(CHAIN, sampled, logits, kept=sampled.kept)
        assert head(hidden).dtype == torch.bfloat16
    outside = replay_of(CHAIN, sampled, logits, kept=sampled.kept)
    assert torch.equal(inside.log_probs, outside.log_probs)
    inside.log_probs.sum().backward()
    assert head.weight.grad is not None
    assert head.weight.grad.isfinite().all()


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing(reentrant: bool) -> None:
    sampled = sample(CHAIN, 8)
    expected = loss_and_gradient(sampled, sampled.logits)

    def again(chain: Any, rows: Sampled, logits: Tensor) -> Any:
        return lk.training.Replayed(
            checkpoint(lambda given: replay_of(chain, rows, given).log_probs, logits, use_reentrant=reentrant),
            torch.empty(0),
            torch.empty(0),
        )

    for one, other in zip(expected, loss_and_gradient(sampled, sampled.logits, again), strict=True):
        torch.testing.assert_close(one, other)


# Dynamo looks at the gradient of every tensor, and torch warns of that.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_a_compiled_loss_breaks_its_graph_around_the_replay() -> None:
    sampled = sample(CHAIN, 9)
    expected = loss_and_gradient(sampled, sampled.logits)
    given = sampled.logits.clone().requires_grad_()

    @torch.compile(backend="aot_eager")
    def loss(logits: Tensor) -> Tensor:
        summed: Tensor = replay_of(CHAIN, sampled, logits * 1.0).log_probs.square().sum()
        return summed

    found = loss(given)
    found.backward()
    assert given.grad is not None
    torch.testing.assert_close(found.detach(), expected[0])
    torch.testing.assert_close(given.grad, expected[1])


def test_a_second_derivative_is_refused() -> None:
    sampled = sample(CHAIN, 9)
    given = sampled.logits.clone().requires_grad_()
    (first,) = torch.autograd.grad(replay_of(CHAIN, sampled, given).log_probs.square().sum(), given, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_no_gradient_is_recorded_unless_it_is_wanted() -> None:
    sampled = sample(CHAIN, 10)
    assert not replay_of(CHAIN, sampled).log_probs.requires_grad
    with torch.no_grad():
        assert not replay_of(CHAIN, sampled, sampled.logits.clone().requires_grad_()).log_probs.requires_grad
    found = replay_of(CHAIN, sampled, sampled.logits.clone().requires_grad_())
    assert [part.requires_grad for part in found] == [True, False, False]


def test_on_a_gpu_the_passes_read_nothing_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    # Fake tensors have no values, so reading one is an error. `replay` reads one at its end, whether a step is faulty.
    sampled = sample(CHAIN, 11)
    own = lk.Vocabulary(TOKENS, eos_ids=[EOS], size=72, pad_id=PAD, special={"<s>": BOS, "</s>": EOS, "<pad>": PAD})
    chain = of_kind("pipeline")[0].make(own)
    options = sampled.limits, sampled.streams
    rollouts = Rollouts.of(chain, sampled.prompts, sampled.outputs, sampled.logits, *options)
    # States are replayed on the host, where they are real, and then moved.
    blocks = [*blocks_of(rollouts)]
    with fake_cuda() as device:
        monkeypatch.setattr(differentiable, "blocks_of", lambda *_: [_moved(block, device) for block in blocks])
        logits, kept = torch.zeros(sampled.logits.shape, device=device), sampled.kept.to(device)
        for sets in (None, kept):
            found = differentiable.measured(logits, sets, rollouts, with_legal=sets is None)
            grad, every = torch.ones(3, 9, device=device), torch.ones(3, 9, dtype=torch.bool)
            made = differentiable.gradient(logits, sets, found.legal, rollouts, grad, every)
            assert {t.device.type for t in (*found, made) if t is not None} == {"cuda"}


def _moved(block: StateBlock, device: torch.device) -> StateBlock:
    rows, steps, tokens = (one.to(device) for one in (block.rows, block.steps, block.tokens))
    return StateBlock(block.group, rows, steps, tokens, lk.to(block.state, device), context_to(block.context, device))


class Peak(TorchDispatchMode):
    """The greatest tensor that an operation makes, in bytes, but for those that share memory with a given one."""

    def __init__(self, given: Tensor) -> None:
        super().__init__()
        self.given, self.most = given.untyped_storage().data_ptr(), 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for one in made if isinstance(made, tuple | list) else (made,):
            if isinstance(one, Tensor) and one.untyped_storage().data_ptr() != self.given:
                self.most = max(self.most, one.untyped_storage().nbytes())
        return made


def test_no_copy_of_all_logits_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_blocks, "ON_HOST", 4 * 72)
    sampled = sample(CHAIN, 12, rows=4, steps=40)
    given = sampled.logits.clone().requires_grad_()
    whole = given.untyped_storage().nbytes()
    with Peak(given) as forward:
        replay_of(CHAIN, sampled, given)
    # With logits of 72 columns, a block is a tenth of them, and the sets of tokens a thirtieth.
    assert 0 < forward.most <= whole / 10
    rollouts = Rollouts.of(CHAIN, sampled.prompts, sampled.outputs, given, sampled.limits, sampled.streams)
    pages, made = mmap.mmap, []

    def noted(file: int, size: int, **how: Any) -> Any:
        made.append(size)
        return pages(file, size, **how)

    monkeypatch.setattr(mmap, "mmap", noted)
    with Peak(given) as backward:
        every = torch.ones(4, 40, dtype=torch.bool)
        differentiable.gradient(given.detach(), sampled.kept, None, rollouts, torch.ones(4, 40), every)
    # The gradient itself, once, and nothing else of that size.
    assert backward.most == whole
    assert made == [whole]
