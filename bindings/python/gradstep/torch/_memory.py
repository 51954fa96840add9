"""The memory of torch's tensors: which tensors have an address that the library can use, and how the others are copied.

Always: no address is read before the tensor is known to be strided, on the CPU, and no wrapper (FakeTensor, functorch, ...);
every new tensor names its device, since torch.set_default_device changes the default.
"""

from __future__ import annotations

import bisect
import math
import sys
from collections.abc import Iterable
from itertools import chain
from operator import attrgetter
from typing import Any

import torch

from .._library import Error, Status, error

USUAL_TYPES = frozenset({torch.Tensor, torch.nn.Parameter})
_REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}
_COMPLEX = {real: of_pairs for of_pairs, real in _REAL.items()}
_WITHOUT_DISPATCH = torch.Tensor.__torch_dispatch__
_WITHOUT_MEMORY: Any = vars(torch.nn.parameter)["UninitializedTensorMixin"]


class StateError(Error, KeyError):
    """The state of a parameter lacks an entry that the step needs, for example after loading the state of another class."""

    def __str__(self) -> str:  # KeyError's is the repr
        return str(self.args[0])


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the numbers that a tensor is made of: two for each complex element."""
    return _REAL.get(dtype, dtype)


def dtype_like(dtype: torch.dtype, tensor: torch.Tensor) -> torch.dtype:
    """The dtype of state that has a number of `dtype` for each number of `tensor`."""
    return _COMPLEX.get(dtype, dtype) if tensor.is_complex() else dtype


def numbers(tensor: torch.Tensor) -> int:
    """The number of real numbers in a tensor."""
    return tensor.numel() * (2 if tensor.is_complex() else 1)


def dtensor_class() -> Any:
    """torch's DTensor, if the program has imported it."""
    for name in ("torch.distributed.tensor", "torch.distributed._tensor"):
        found = getattr(sys.modules.get(name), "DTensor", None)
        if found is not None:
            return found
    return None


def is_dtensor(tensor: torch.Tensor) -> bool:
    kind = dtensor_class()
    return kind is not None and isinstance(tensor, kind)


def is_sharded(tensor: torch.Tensor) -> bool:
    """Whether it is a DTensor of which each process has only a part."""
    if not is_dtensor(tensor):
        return False
    of_shards: Any = tensor
    return not all(placement.is_replicate() for placement in of_shards.placements)


def shard_number(tensor: torch.Tensor) -> int:
    """The number of the part of a DTensor that this process has; 0 for other tensors, and if every process has all of it."""
    if not is_sharded(tensor):
        return 0
    of_shards: Any = tensor
    mesh, number = of_shards.device_mesh, 0
    for size, at, placement in zip(mesh.shape, mesh.get_coordinate() or (), of_shards.placements):
        if not placement.is_replicate():
            number = number * size + at
    return number


def local(tensor: torch.Tensor, what: str) -> torch.Tensor:
    """A tensor with memory: the tensor itself, or the local shard of a DTensor. On any device but meta."""
    if type(tensor) not in USUAL_TYPES:
        if is_dtensor(tensor):
            of_shards: Any = tensor
            tensor = of_shards.to_local()
            if hasattr(tensor, "wait"):  # an AsyncCollectiveTensor
                tensor = tensor.wait()
        has_dispatch = getattr(type(tensor), "__torch_dispatch__", _WITHOUT_DISPATCH) is not _WITHOUT_DISPATCH
        if has_dispatch or isinstance(tensor, _WITHOUT_MEMORY):
            raise error(Status.BAD_BUFFER, f"{what} is a {type(tensor).__name__}; expected a torch.Tensor with memory on the CPU")
    if tensor.device.type == "meta":
        raise error(Status.BAD_BUFFER, f"{what} is on meta; expected the CPU")
    return tensor


def on_cpu(tensor: torch.Tensor, what: str) -> torch.Tensor:
    """Like `local`, and checks that the tensor is strided and on the CPU, so that it has an address."""
    tensor = local(tensor, what)
    if tensor.device.type != "cpu":
        raise error(Status.BAD_BUFFER, f"{what} is on {tensor.device}; expected the CPU")
    if tensor.layout is not torch.strided:
        raise error(Status.BAD_BUFFER, f"{what} has the layout {tensor.layout}; expected torch.strided")
    try:
        has_memory = tensor.data_ptr() != 0 or tensor.numel() == 0
    except RuntimeError:
        has_memory = False
    if not has_memory:  # a storage of 0 bytes, or a wrapper of functorch or functionalization, whose type is torch.Tensor
        raise error(
            Status.BAD_BUFFER,
            f"{what} is a wrapper or a tensor without memory; expected a tensor on the CPU that has its memory",
        )
    return tensor


def order(tensor: torch.Tensor) -> tuple[int, ...]:
    """The strides that determine where elements lie. Dimensions of one element have none."""
    return tuple(stride for stride, size in zip(tensor.stride(), tensor.shape) if size != 1)


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill one block of memory, in any order of the dimensions."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def has_bits(tensor: torch.Tensor) -> bool:
    """Whether the numbers differ from memory: torch still has to change their signs, or the signs of the imaginary parts."""
    return tensor.is_neg() or tensor.is_conj()


def settled(values: torch.Tensor) -> torch.Tensor:
    """Contiguous, without conjugations and negations that torch still has to compute."""
    return values.resolve_conj().resolve_neg().contiguous()


def fits(tensor: torch.Tensor, like: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether a tensor has the layout of `like`, which is dense, and the given dtype."""
    return (
        tensor.dtype is dtype
        and tensor.is_cpu
        and tensor.layout is torch.strided
        and tensor.shape == like.shape
        and order(tensor) == order(like)
        and not has_bits(tensor)
    )


def empty_like(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A dense tensor of the same shape, and of the same strides where those are dense."""
    return torch.empty_like(tensor, dtype=dtype, device="cpu", memory_format=torch.preserve_format, requires_grad=False)


def wrapped_like(tensor: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """Wraps the state of a parameter as a DTensor with the same shards, if the parameter is a DTensor."""
    if not is_dtensor(parameter):
        return tensor
    like: Any = parameter
    wrapped: torch.Tensor = type(like).from_local(
        tensor, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )
    return wrapped


def extent(tensor: torch.Tensor) -> tuple[int, int]:
    """The address of the first byte, and the address after the last byte."""
    first = tensor.data_ptr()
    if tensor.numel() == 0:
        return first, first
    reach = sum(stride * (size - 1) for stride, size in zip(tensor.stride(), tensor.shape))
    return first, first + (reach + 1) * tensor.element_size()


def overlap(extents: Iterable[tuple[int, int]]) -> bool:
    """Whether any two extents overlap."""
    end = 0
    for first, behind in sorted(extents):
        if first < end and first != behind:
            return True
        end = max(end, behind)
    return False


def meet(some: Iterable[tuple[int, int]], others: Iterable[tuple[int, int]]) -> bool:
    """Whether one of `some` overlaps one of `others`."""
    ends = [0, 0]
    for first, behind, kind in sorted([(*x, 0) for x in some] + [(*x, 1) for x in others]):
        if first < ends[1 - kind] and first != behind:
            return True
        ends[kind] = max(ends[kind], behind)
    return False


class Written:
    """The memory that a step writes. Later steps compare it with the memory of new gradients of the same sizes."""

    _MOST_KNOWN = 100  # addresses per gradient: allocators use the same few again

    def __init__(self, extents: Iterable[tuple[int, int]], sizes: list[int]) -> None:
        """extents: none overlaps another. sizes: of the gradients, in bytes."""
        filled = sorted((first, behind) for first, behind in extents if first != behind)
        self.first = [first for first, _ in filled]
        self.last_end = [0, *[behind for _, behind in filled]]
        self.sizes = sizes
        self.apart: set[tuple[int, int]] = set()  # addresses and sizes that are known not to overlap

    def meets(self, addresses: list[int]) -> bool:
        """Whether a gradient at one of the addresses overlaps the written memory, or has no memory."""
        now = list(zip(addresses, self.sizes))
        if self.apart.issuperset(now):
            return False
        new = set(now) - self.apart
        if any(self._meets(begin, size) for begin, size in new):
            return True
        if len(self.apart) > self._MOST_KNOWN * len(now):
            self.apart.clear()
        self.apart |= new
        return False

    def _meets(self, begin: int, size: int) -> bool:
        if size == 0:
            return False
        following = bisect.bisect_right(self.first, begin)
        next_first = self.first[following] if following < len(self.first) else math.inf
        return begin == 0 or self.last_end[following] > begin or next_first < begin + size


address_of = torch.Tensor.data_ptr  # as a function of a tensor, which map calls without a frame of Python

_TensorGuards: Any
try:
    from torch._C._dynamo import guards as _guards

    _TensorGuards = _guards.TensorGuards
except (AttributeError, ImportError):
    _TensorGuards = None

_PROPERTIES = (
    type,
    attrgetter("dtype"),
    attrgetter("device"),
    attrgetter("layout"),
    torch.Tensor.is_neg,
    torch.Tensor.is_conj,
    torch.Tensor.size,
    torch.Tensor.stride,
)


class Guard:
    """Checks that the types, devices, dtypes, layouts, shapes and strides of tensors have not changed.

    It uses the guards of torch's compiler, one call of C, if this torch has them and they work as expected. Otherwise it compares
    each property.
    """

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        if _TensorGuards is not None:
            shapes = [list(x.shape) for x in tensors]
            self.holds: Any = _TensorGuards(
                *tensors, dynamic_dims_sizes=shapes, dynamic_dims_strides=[list(x.stride()) for x in tensors]
            ).check
        else:
            known = self._properties(tensors)
            self.holds = lambda *now: self._properties(now) == known

    @staticmethod
    def _properties(tensors: Iterable[torch.Tensor]) -> list[Any]:
        return list(chain.from_iterable(map(of, tensors) for of in _PROPERTIES))


def _guards_work() -> bool:
    """Tests whether torch's guards detect all changes that matter."""
    a, b = torch.ones(2, 3, device="cpu"), torch.ones((), device="cpu", dtype=torch.float64)
    others = (a.t(), torch._neg_view(a), a.double(), a.view(3, 2), a.to_sparse(), torch.empty(2, 3, device="meta"), a[:, :2])
    try:
        guard = Guard([a, b])
        return guard.holds(a, b) and guard.holds(a.clone(), b) and not any(guard.holds(x, b) for x in others)
    except (TypeError, RuntimeError, SystemError):
        return False


if _TensorGuards is not None and not _guards_work():
    _TensorGuards = None
