import numpy as np
import pytest

from widemargin._core.decisions import (
    class_codes,
    from_decision,
    score_margins,
)


def test_one_column_is_the_scores_of_two_classes():
    scores = from_decision(np.array([2.0, -2.0]))
    np.testing.assert_array_equal(scores.argmax(axis=1), [1, 0])
    np.testing.assert_array_equal(scores[:, 1] - scores[:, 0], [2.0, -2.0])


def test_margins():
    scores = np.array([[1.0, 3.0, 2.0], [2.0, 0.0, 5.0]])
    np.testing.assert_array_equal(score_margins(scores, [1, 0]), [1.0, -3.0])


def test_unknown_labels_are_named():
    classes = np.array(["a", "b"])
    np.testing.assert_array_equal(class_codes(["b", "a"], classes), [1, 0])
    with pytest.raises(ValueError, match=r"contains 'c'.*classes are 'a', 'b'"):
        class_codes(["a", "c"], classes)
