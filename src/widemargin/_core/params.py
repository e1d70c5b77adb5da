"""Parameters of an estimator, declared once: a type, a range, a default.

The fields of a class are its parameters, and their types say what they take:

    learning_rate: Positive = 0.1
    batch_size: Counted | Literal["auto"] = "auto"
    scale: Literal["auto", "within_class_std", "none"] = "auto"
    early_stopping: bool = False

`parameters` writes the ``__init__`` that scikit-learn asks for, and `check_declared`
refuses what the types do not allow. Ranges that only one estimator has are written
there, ``Annotated[float, Number(below=1)]``; a field of type Any is checked by its
estimator.
"""

from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from widemargin._core.checks import (
    check_count,
    check_flag,
    check_number,
    check_option,
)

Kind = TypeVar("Kind", bound=type)


@dataclass_transform(eq_default=False)
def parameters(kind: Kind) -> Kind:
    """Make the fields of an estimator its parameters: a name, a type and a default.

    scikit-learn asks for an ``__init__`` that only keeps what it is given, which is
    what a dataclass writes. Models are compared, shown and copied as before.
    """
    made: Any = dataclass(eq=False, repr=False, match_args=False)(kind)
    made.__dask_tokenize__ = _token
    return made


def _token(estimator: Any) -> Any:
    # Dask takes a dataclass for its fields, but two fits of the same are two models.
    from dask.base import normalize_token

    return normalize_token((type(estimator), vars(estimator)))


@dataclass(frozen=True)
class Number:
    """A finite number within bounds, or an infinite one where that is said."""

    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None
    infinite: bool = False

    def check(self, name: str, value: Any, otherwise: str) -> None:
        """Refuse any other value; the error begins with what else would do."""
        check_number(name, value, otherwise=otherwise, **vars(self))


@dataclass(frozen=True)
class Count:
    """An integer of at least `low`."""

    low: int = 1

    def check(self, name: str, value: Any, otherwise: str) -> None:
        """Refuse any other value; the error begins with what else would do."""
        check_count(name, value, otherwise, low=self.low)


Finite = Annotated[float, Number()]
Counted = Annotated[int, Count()]
Positive = Annotated[float, Number(above=0)]
NotNegative = Annotated[float, Number(at_least=0)]
# More than nothing of a whole, and less than all.
Fraction = Annotated[float, Number(above=0, below=1)]


def check_declared(estimator: Any) -> None:
    """Refuse the first parameter that its type does not allow."""
    kind: Any = type(estimator)
    for name, (options, range_) in _declared(kind).items():
        value = getattr(estimator, name)
        known = isinstance(value, str) or value is None or isinstance(value, bool)
        if known and value in options:
            continue
        if range_ is bool:
            check_flag(name, value)
        elif range_ is None:
            check_option(name, value, options)
        else:
            listed = [option for option in options if option is not bool]
            otherwise = "".join(f"{option!r} or " for option in listed)
            range_.check(name, value, otherwise)


@cache
def _declared(kind: type) -> dict[str, tuple[tuple, Any]]:
    """Return the options of every declared parameter, and the range of other values."""
    found = {}
    hints = get_type_hints(kind, include_extras=True)
    for name in getattr(kind, "__dataclass_fields__", {}):
        hint = hints.get(name, Any)
        parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        options: list[Any] = []
        ranges: list[Any] = []
        for part in parts:
            if get_origin(part) is Literal:
                options += get_args(part)
            elif get_origin(part) is Annotated:
                ranges += part.__metadata__
            elif part is NoneType:
                options.append(None)
            else:
                ranges.append(part)
        if not ranges:
            found[name] = tuple(options), None
        elif len(ranges) == 1 and (ranges[0] is bool or hasattr(ranges[0], "check")):
            found[name] = tuple(options), ranges[0]
    return found
