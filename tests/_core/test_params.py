"""Parameters are checked from their declaration, by name and with the way out."""

from typing import Annotated, Any, Literal

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

from widemargin._core.params import (
    Count,
    Counted,
    Fraction,
    NotNegative,
    Number,
    check_declared,
    parameters,
)


@parameters
class Estimator(BaseEstimator):
    anything: Any = None
    flag: bool = False
    kind: Literal["a", "b"] = "a"
    count: Counted | Literal["auto"] = "auto"
    share: Fraction = 0.5
    penalty: NotNegative | None = None
    low: Annotated[int, Count(low=0)] = 0
    height: Annotated[float, Number(above=0, infinite=True)] = np.inf
    free: float = 0.0


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("flag", 1, "flag must be True or False; got 1"),
        ("flag", None, "flag must be True or False; got None"),
        ("kind", "c", "kind must be one of 'a', 'b'; got 'c'"),
        ("kind", None, "kind must be one of 'a', 'b'; got None"),
        ("kind", ["a"], "kind must be one of"),
        ("count", "all", "count must be 'auto' or an integer of at least 1; got 'all'"),
        ("count", 0, "count must be 'auto' or an integer of at least 1; got 0"),
        ("count", True, "count must be 'auto' or an integer"),
        ("count", None, "count must be 'auto' or an integer of at least 1; got None"),
        ("share", 1.0, "share must be a finite number above 0 and below 1; got 1.0"),
        ("share", float("nan"), "share must be a finite number"),
        ("share", np.ones(2), "share must be a finite number"),
        ("penalty", -1, "penalty must be None or a finite number of at least 0"),
        ("low", -1, "low must be an integer of at least 0; got -1"),
        ("height", 0.0, "height must be a number above 0; got 0"),
    ],
)
def test_what_the_type_does_not_allow_is_named(name, value, message):
    with pytest.raises(ValueError, match=message):
        check_declared(Estimator(**{name: value}))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"flag": np.True_},
        {"count": np.int64(3), "share": np.float32(0.25), "penalty": 0},
        {"penalty": None, "low": 0, "height": 2},
        {"anything": object(), "free": "checked by nobody here"},
    ],
)
def test_what_it_allows_passes(given):
    check_declared(
        clone(Estimator(**given)) if "anything" not in given else Estimator(**given)
    )


def test_a_subclass_adds_and_narrows():
    @parameters
    class Narrow(Estimator):
        count: Counted = 2
        more: bool = True

    check_declared(Narrow())
    with pytest.raises(ValueError, match="count must be an integer of at least 1"):
        check_declared(Narrow(count="auto"))
    with pytest.raises(ValueError, match="more must be True or False"):
        check_declared(Narrow(more="yes"))
