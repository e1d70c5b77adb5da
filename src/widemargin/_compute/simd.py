"""Several neighbouring numbers at once: vectors of lanes for compiled kernels.

What a loop over features cannot express, numbers kept in registers from one row to the
next, kernels write with these: ``load(array, at, lanes)`` reads as many neighbours as
the tuple `lanes` is long, which the compiler thereby knows. Lanes are added, subtracted
and multiplied as numbers are. Any number of them works on any processor; LLVM cuts them
into what it has.
"""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic as _intrinsic
from numba.extending import models, register_model

# What calls it does not pass the first argument.
intrinsic: Any = _intrinsic
_FLAGS = ("reassoc", "contract", "nsz")
_INT = ir.IntType(32)


class Lanes(types.Type):
    """The type of `count` numbers of one dtype."""

    def __init__(self, dtype: Any, count: int):
        self.dtype, self.count = dtype, count
        super().__init__(name=f"Lanes({dtype}, {count})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: Lanes):
        number = manager.lookup(lanes.dtype).get_value_type()
        super().__init__(manager, lanes, ir.VectorType(number, lanes.count))


def _define(symbol: Callable, instruction: str) -> None:
    @infer_global(symbol)
    class _Typing(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            if len(args) == 2 and isinstance(args[0], Lanes) and args[0] == args[1]:
                return signature(args[0], *args)
            return None

    @lower_builtin(symbol, Lanes, Lanes)
    def _lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args, flags=_FLAGS)


for _symbol, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
):
    _define(_symbol, _instruction)


def _pointer(context: Any, builder: Any, array: Any, lanes: Lanes, args: Any) -> Any:
    data = context.make_array(array)(context, builder, args[0]).data
    kind = context.get_value_type(lanes).as_pointer()
    return builder.bitcast(builder.gep(data, [args[1]]), kind)


@intrinsic
def load(typing: Any, array: Any, at: Any, lanes: Any) -> Any:
    """Return ``array[at : at + len(lanes)]``, of a contiguous vector, unchecked."""
    kind = Lanes(array.dtype, lanes.count)

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        found = builder.load(_pointer(context, builder, array, kind, args))
        found.align = array.dtype.bitwidth // 8
        return found

    return kind(array, at, lanes), code


@intrinsic
def store(typing: Any, array: Any, at: Any, value: Any) -> Any:
    """Write lanes to ``array[at : at + count]``, unchecked."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        where = _pointer(context, builder, array, value, args)
        builder.store(args[2], where).align = array.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(array, at, value), code


@intrinsic
def splat(typing: Any, number: Any, lanes: Any) -> Any:
    """Return lanes that all hold one number."""
    kind = Lanes(number, lanes.count)

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        nothing = ir.Constant(context.get_value_type(kind), ir.Undefined)
        first = builder.insert_element(nothing, args[0], ir.Constant(_INT, 0))
        return _moved(builder, first, [0] * kind.count)

    return kind(number, lanes), code


@intrinsic
def least(typing: Any, one: Any, other: Any) -> Any:
    """Return the smaller of two, lane by lane."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _least(builder, args)

    return one(one, other), code


@intrinsic
def all_of(typing: Any, value: Any, places: Any) -> Any:
    """Return a tuple as long as `places` of the same lanes."""
    kind = types.UniTuple(value, places.count)

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return context.make_tuple(builder, kind, [args[0]] * kind.count)

    return kind(value, places), code


@intrinsic
def pushed(typing: Any, queue: Any, value: Any) -> Any:
    """Return the tuple without its first entry and with a new last one."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kept = [builder.extract_value(args[0], k) for k in range(1, queue.count)]
        return context.make_tuple(builder, queue, [*kept, args[1]])

    return queue(queue, value), code


@intrinsic
def total(typing: Any, queue: Any) -> Any:
    """Return the sum of the lanes in a tuple."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        found = builder.extract_value(args[0], 0)
        for k in range(1, queue.count):
            part = builder.extract_value(args[0], k)
            found = builder.fadd(found, part, flags=_FLAGS)
        return found

    return queue.dtype(queue), code


@intrinsic
def first(typing: Any, queue: Any) -> Any:
    """Return the first entry of a tuple."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.extract_value(args[0], 0)

    return queue.dtype(queue), code


@intrinsic
def least_near(typing: Any, queue: Any) -> Any:
    """Return a tuple of the least of each entry and those beside it."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        given = [builder.extract_value(args[0], k) for k in range(queue.count)]
        found = [
            _least(builder, given[max(0, k - 1) : k + 2]) for k in range(queue.count)
        ]
        return context.make_tuple(builder, queue, found)

    return queue(queue), code


@intrinsic
def least_of_all(typing: Any, queue: Any) -> Any:
    """Return the least of all entries of a tuple."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        given = [builder.extract_value(args[0], k) for k in range(queue.count)]
        return _least(builder, given)

    return queue.dtype(queue), code


@intrinsic
def total_of_next(typing: Any, value: Any, places: Any) -> Any:
    """Return in each lane the sum of as many, from it on, as `places` is long.

    The last ``len(places) - 1`` lanes, which have too few after them, are of no use.
    """

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def after(v: Any, step: int) -> Any:
            last = value.count - 1
            return _moved(builder, v, [min(k + step, last) for k in range(last + 1)])

        def sum_of(one: Any, other: Any) -> Any:
            return builder.fadd(one, other, flags=_FLAGS)

        # Sums of 1, 2, 4, ... lanes, of which those are taken that make up the number.
        found, run, width, left = None, args[0], 1, places.count
        done = 0
        while left:
            if left & 1:
                part = after(run, done)
                found = part if found is None else sum_of(found, part)
                done += width
            left >>= 1
            if left:
                run = sum_of(run, after(run, width))
                width *= 2
        return found

    return value(value, places), code


def _least(builder: Any, values: Any) -> Any:
    found, *others = values
    for other in others:
        found = builder.select(builder.fcmp_ordered("<", other, found), other, found)
    return found


def _moved(builder: Any, value: Any, places: list[int]) -> Any:
    """Return lanes from other places."""
    mask = ir.Constant(ir.VectorType(_INT, len(places)), places)
    return builder.shuffle_vector(value, value, mask)
