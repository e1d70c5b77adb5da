"""What docstrings tell a user; what type checkers do is in `typed_user.py`."""

import pytest

import widemargin


@pytest.mark.parametrize("name", sorted(widemargin._ESTIMATORS))
def test_docstrings_say_where_it_comes_from_and_what_is_near(name):
    estimator = getattr(widemargin, name)
    words = estimator.__doc__
    assert "    References\n    ----------\n" in words
    assert "    See Also\n    --------\n" in words
    assert f"/reference/widemargin.{name}.html" in estimator._doc_link_template.format(
        estimator_name=name
    )
