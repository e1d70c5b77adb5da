"""What type checkers show a user: options by name, and what comes back."""

from pathlib import Path

import pytest

import widemargin

ROOT = Path(__file__).resolve().parents[1]


def test_a_user_under_mypy_strict(monkeypatch):
    api = pytest.importorskip("mypy.api")
    # With the settings of `make lint`, so that its cache serves; those that make it
    # strict stand in the file.
    monkeypatch.chdir(ROOT)
    said, errors, code = api.run(["tests/typed_user.py"])
    assert code == 0, said + errors


@pytest.mark.parametrize("name", sorted(widemargin._ESTIMATORS))
def test_docstrings_say_where_it_comes_from_and_what_is_near(name):
    estimator = getattr(widemargin, name)
    words = estimator.__doc__
    assert "    References\n    ----------\n" in words
    assert "    See Also\n    --------\n" in words
    assert f"/reference/widemargin.{name}.html" in estimator._doc_link_template.format(
        estimator_name=name
    )
