import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from widemargin.tangents import ImageTangents, LearnedTangents, TangentUnion

X = np.random.default_rng(0).random((12, 16))
y = np.arange(12) % 2


def test_tangents_are_those_of_the_parts_in_order():
    parts = [ImageTangents((4, 4)), LearnedTangents(2, per_class=True)]
    union = TangentUnion(parts).fit(X, y)
    fitted = LearnedTangents(2, per_class=True).fit(X, y)
    expected = np.concatenate([parts[0].tangents(X), fitted.tangents(X, y)], axis=1)
    np.testing.assert_array_equal(union.tangents(X, y), expected)
    assert union.n_tangents == 9


def test_fit_leaves_the_parts_alone():
    parts = [ImageTangents((4, 4)), LearnedTangents(2)]
    TangentUnion(parts).fit(X, y)
    with pytest.raises(NotFittedError):
        parts[1].tangents(X)


def test_parts_that_need_no_fit_or_have_it_work_at_once():
    union = TangentUnion([ImageTangents((4, 4)), LearnedTangents(2).fit(X)])
    assert union.tangents(X).shape == (12, 9, 16)
    with pytest.raises(NotFittedError):
        TangentUnion([LearnedTangents(2)]).tangents(X)


def test_is_affine_where_every_part_is():
    linear, seven = ImageTangents((4, 4), "rotation"), ImageTangents((4, 4))
    assert TangentUnion([linear, LearnedTangents(2)]).is_affine
    assert not TangentUnion([linear, seven]).is_affine


def test_names_and_parameters():
    union = TangentUnion(
        [ImageTangents((4, 4)), LearnedTangents(1), LearnedTangents(2)]
    )
    params = union.get_params()
    assert params["imagetangents__sigma"] == "auto"
    assert params["learnedtangents-2__n_tangents"] == 2
    union.set_params(imagetangents__sigma=1.5)
    assert union.generators[0].sigma == 1.5
    union.set_params(**{"learnedtangents-1": ImageTangents((4, 4), "blur")})
    assert union.generators[1].directions == "blur"
    assert union.n_tangents == 10

    named = TangentUnion(
        [("geometry", ImageTangents((4, 4))), ("rest", LearnedTangents(1))]
    )
    named.set_params(geometry__sigma=0.0, rest=LearnedTangents(3))
    assert named.generators[0][1].sigma == 0.0
    assert named.generators[1] == ("rest", named.get_params()["rest"])
    assert named.n_tangents == 10
    named.set_params(generators=[ImageTangents((4, 4), "blur")])
    assert named.n_tangents == 1
    with pytest.raises(ValueError, match="Invalid parameter 'nothing'"):
        named.set_params(nothing=1)


def test_clone_copies_the_parts():
    for parts in (
        [ImageTangents((4, 4))],
        [("a", ImageTangents((4, 4)))],
        (ImageTangents((4, 4)),),
    ):
        union = TangentUnion(parts)
        copy = clone(union)
        name = "a" if isinstance(parts[0], tuple) else "imagetangents"
        copy.set_params(**{f"{name}__sigma": 9.0})
        assert union.get_params()[f"{name}__sigma"] == "auto"


def test_unions_nest():
    inner = TangentUnion([ImageTangents((4, 4), "blur")])
    outer = TangentUnion([("inner", inner), ("own", ImageTangents((4, 4), "contrast"))])
    outer.set_params(inner__imagetangents__sigma=0.0)
    assert inner.generators[0].sigma == 0.0
    assert outer.tangents(X).shape == (12, 2, 16)


@pytest.mark.parametrize(
    ("generators", "message"),
    [
        ([], "generators must be a sequence"),
        (None, "generators must be a sequence"),
        (ImageTangents((4, 4)), "generators must be a sequence"),
        ([ImageTangents], r"generators\[0\] must be a pair"),
        (
            [ImageTangents((4, 4)), ("a", LearnedTangents(1))],
            r"generators\[0\] must be",
        ),
        ([("a", 3)], r"generators\[0\] must be a pair"),
        ([("a", LearnedTangents(1)), ("a", LearnedTangents(1))], "the name 'a'"),
        ([("a__b", LearnedTangents(1))], "the name 'a__b'"),
        ([("generators", LearnedTangents(1))], "the name 'generators'"),
    ],
)
def test_bad_generators(generators, message):
    with pytest.raises((TypeError, ValueError), match=message):
        TangentUnion(generators).fit(X, y)
