"""Equal rows have one number, in an order of values alone."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from widemargin._core.duplicates import groups_by_value, groups_of_copies


def number_rows_slowly(X, y):
    """Numbers of distinct samples in the order in which they come."""
    seen = {}
    return [seen.setdefault((*x, c), len(seen)) for x, c in zip(X, y, strict=True)]


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_numbers_of_values_do_not_depend_on_places_or_counts(kind):
    random = np.random.RandomState(0)
    X, y = random.rand(30, 8), random.randint(0, 3, 30)
    numbers = groups_by_value(kind(X), y)
    assert sorted(numbers) == list(range(30))
    rows = random.permutation(np.arange(30).repeat(random.randint(1, 4, 30)))
    again = groups_by_value(kind(X[rows]), y[rows])
    np.testing.assert_array_equal(again, numbers[rows])
    pairs = set(zip(again, number_rows_slowly(X[rows], y[rows]), strict=True))
    assert len(pairs) == 30
    np.testing.assert_array_equal(groups_of_copies(kind(X), y), np.arange(30))
    np.testing.assert_array_equal(groups_of_copies(kind(X[rows]), y[rows]), again)


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_equal_rows_of_two_classes_or_of_few_values_are_no_copies(kind):
    random = np.random.RandomState(0)
    X, y = random.randint(0, 2, (30, 2)).astype(float), np.arange(30) % 2
    np.testing.assert_array_equal(groups_by_value(kind(X), y), np.arange(30))
