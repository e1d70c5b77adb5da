"""What type checkers show a user: options by name, and what comes back."""

from pathlib import Path

import pytest

import widemargin


def test_a_user_under_mypy_strict(tmp_path):
    api = pytest.importorskip("mypy.api")
    here = Path(__file__).parent
    settings = tmp_path / "mypy.ini"
    settings.write_text(
        f"[mypy]\nstrict = True\nmypy_path = {here.parent / 'src'}\n"
        "[mypy-widemargin.*]\nignore_errors = True\n"
        "[mypy-sklearn.*,scipy.*,joblib.*,numba.*,threadpoolctl.*]\n"
        "ignore_missing_imports = True\n"
    )
    said, errors, code = api.run(
        [
            *("--config-file", str(settings), "--cache-dir", str(tmp_path / "cache")),
            str(here / "typed_user.py"),
        ]
    )
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
