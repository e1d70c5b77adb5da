import numpy as np
import pytest

from widemargin._core.checks import check_background
from widemargin._core.samples import check_weights


@pytest.mark.parametrize("weights", [np.zeros(4), np.ones((4, 1)), np.ones(3), "ab"])
def test_weights_that_cannot_be_are_refused_by_name(weights):
    with pytest.raises(ValueError, match=r"^sample_weight"):
        check_weights(weights, np.eye(4))


@pytest.mark.parametrize("background", [1e300, -3e38, np.nan, "white"])
def test_a_background_that_the_dtype_does_not_hold_is_refused(background):
    with pytest.raises(ValueError, match=r"^background must be"):
        check_background(background, np.eye(4, dtype=np.float32))
