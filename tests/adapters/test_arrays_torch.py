"""Logits in torch: what is shared, what is copied, and what comes back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from logitkit.errors import ConfigurationError
from logitkit_adapters.arrays import call_to_torch, ids_to_torch, logits_to_torch


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: torch.arange(4.0).requires_grad_(), id="a leaf that requires grad"),
        pytest.param(lambda: torch.arange(4.0).requires_grad_() * 1, id="a result that requires grad"),
        pytest.param(lambda: torch.nn.Parameter(torch.ones(2, 3)), id="a weight"),
        pytest.param(lambda: torch.ones(1, 3).expand(2, 3), id="expanded"),
        pytest.param(lambda: torch.arange(9.0).as_strided((3, 5), (1, 1)), id="overlapping"),
        pytest.param(lambda: torch.arange(3.0).mul(1j).conj().imag, id="negated"),
    ],
)
def test_what_must_not_be_written_to_is_copied(make: Callable[[], Tensor]) -> None:
    given = make()
    before = given.detach().clone()
    taken = logits_to_torch(given)
    assert taken.copied
    assert not taken.tensor.requires_grad
    array = taken.back(taken.tensor.fill_(5)).array
    assert torch.equal(given.detach(), before)
    assert (array == 5).all()
    assert array.shape == given.shape


def test_a_gradient_is_that_of_what_was_given() -> None:
    weight = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    logits = weight.exp()
    logits_to_torch(logits).tensor.zero_()
    logits.sum().backward()
    assert weight.grad is not None
    assert torch.equal(weight.grad, weight.detach().exp())


def test_inference_tensors_outside_of_that_mode_are_copied() -> None:
    with torch.inference_mode():
        given = torch.ones(1, 3)
        assert not logits_to_torch(given).copied
    taken = logits_to_torch(given)
    assert taken.copied
    assert taken.back(taken.tensor.zero_()).array.tolist() == [[0, 0, 0]]
    assert given.tolist() == [[1, 1, 1]]


@pytest.mark.parametrize(
    "given", [torch.eye(3).to_sparse(), torch.ones(2, 3, device="meta")], ids=["sparse", "without values"]
)
def test_tensors_without_a_value_each_are_refused(given: Tensor) -> None:
    with pytest.raises(ConfigurationError, match="is not dense or has no values"):
        logits_to_torch(given)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_rows_of_several_lengths_are_refused(layout: torch.layout) -> None:
    given = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)
    with pytest.raises(ConfigurationError, match="logits of shape"):
        call_to_torch([[1], [2]], given)


class Own(Tensor):
    """A subclass as libraries have them: to tag a tensor."""


def test_a_tensor_of_a_subclass_is_shared_and_comes_back_itself() -> None:
    given = torch.arange(3.0).as_subclass(Own)
    taken = logits_to_torch(given)
    assert type(taken.tensor) is Tensor
    assert not taken.copied
    assert taken.back(taken.tensor.zero_()).array is given
    assert given.tolist() == [0, 0, 0]
    assert type(taken.back(taken.tensor + 1).array) is Tensor


def test_tensors_that_compute_by_themselves_are_refused() -> None:
    with FakeTensorMode():
        fake = torch.zeros(3)
    with pytest.raises(ConfigurationError, match=r"a FakeTensor \[3\] is not a plain tensor"):
        logits_to_torch(fake)


@pytest.mark.parametrize("room", [0, 8])
@pytest.mark.parametrize("shape", [(4,), (1, 4), (2, 2)])
def test_memory_that_was_given_up_is_refused(room: int, shape: tuple[int, ...]) -> None:
    given = torch.arange(4.0).reshape(shape)
    given.untyped_storage().resize_(room)
    with pytest.raises(ConfigurationError, match="has no values"):
        logits_to_torch(given)


def test_tensors_inside_of_a_transformation_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="has no values"):
        torch.vmap(lambda row: logits_to_torch(row).tensor)(torch.zeros(2, 3))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int8, torch.float8_e4m3fn, torch.bool], ids=str)
def test_a_dtype_that_is_not_floating_point_is_refused(dtype: torch.dtype) -> None:
    with pytest.raises(ConfigurationError, match="need floating point"):
        logits_to_torch(torch.zeros(3, dtype=dtype))


def test_ids_that_are_only_marked_as_negated_are_what_they_say() -> None:
    taken = ids_to_torch(torch._neg_view(torch.tensor([-3, -4])))
    assert taken.copied
    assert taken.tensor.numpy().tolist() == [[3, 4]]
