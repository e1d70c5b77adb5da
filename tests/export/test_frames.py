"""Models of data frames leave Python, and are checked on frames and on plain arrays."""

import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.export.models import glvq

import widemargin as wm
from widemargin.export import check_export, to_c, to_onnx


@pytest.mark.usefixtures("gcc")
@pytest.mark.parametrize("export", [to_onnx, to_c])
def test_columns_have_names(export):
    pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = list(X.columns)
    X.iloc[::7, 1] = float("nan")
    columns = make_column_transformer(
        (StandardScaler(), names[2:]), (SimpleImputer(), names[:2])
    )
    model = make_pipeline(columns, glvq()).fit(X, y)
    refusing = wm.RejectingClassifier(model, max_error=0.2, random_state=0).fit(X, y)
    for fitted in (model, refusing):
        for asked in (X, X.to_numpy()):
            agreement = check_export(fitted, export(fitted), asked)
            assert agreement.agrees, agreement
