"""`widemargin compile` fills the folder of kernels, and a second call finds them."""

import pytest

from widemargin.cli import Refusal, compile


def test_kernels_are_compiled_once(capsys):
    compile.run(["glvq", "lvq"], "float64")
    capsys.readouterr()
    compile.run(["glvq", "lvq"], "float64")
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("kernels are kept in ")
    assert [line.split(",")[0].split() for line in told[1:]] == [
        ["glvq", "ready"],
        ["lvq", "ready"],
    ]


@pytest.mark.parametrize("name", sorted(compile.estimators()))
def test_every_model_is_one(name):
    assert compile.estimators()[name]().get_params()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((["tqv"], "both"), "no model 'tqv': did you mean 'tvq'"),
        ((None, "float16"), "--dtype must be float32, float64 or both; got 'float16'"),
    ],
)
def test_what_is_not_known_is_named(given, message):
    with pytest.raises(Refusal, match=message):
        compile.run(*given)
