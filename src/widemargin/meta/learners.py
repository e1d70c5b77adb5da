"""How the learner of a round comes about: from scratch, or on from the last one."""

from numbers import Integral
from typing import Any

from sklearn import get_config
from sklearn.base import clone
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import has_fit_parameter


def takes_weights(estimator: Any) -> bool:
    """Whether fit takes `sample_weight`, by itself or by metadata routing."""
    if has_fit_parameter(estimator, "sample_weight"):
        return True
    if not get_config()["enable_metadata_routing"]:
        return False
    consumed = get_routing_for_object(estimator).consumes("fit", ["sample_weight"])
    return bool(consumed)


def next_learner(last: Any, estimator: Any, update: str, random_state: Any) -> Any:
    """Return what to fit next; `last` is None in the first round."""
    if last is None:
        return _fresh(estimator, update, random_state)
    if update in ("warm_start", "partial_fit"):
        return last
    learned = hasattr(last, "coef_") or hasattr(last, "coefs_")
    if update == "auto" and learned and "warm_start" in last.get_params():
        return last.set_params(warm_start=True)
    return _fresh(estimator, update, random_state)


def _fresh(estimator: Any, update: str, random_state: Any) -> Any:
    learner = clone(estimator)
    own = learner.get_params()
    if isinstance(random_state, Integral) and own.get("random_state", 0) is None:
        learner.set_params(random_state=random_state)
    if update == "warm_start":
        if "warm_start" not in own:
            raise ValueError(
                f"update='warm_start', but {type(learner).__name__} has no "
                "parameter warm_start; use update='refit'."
            )
        learner.set_params(warm_start=True)
    if update == "partial_fit" and not hasattr(learner, "partial_fit"):
        raise ValueError(
            f"update='partial_fit', but {type(learner).__name__} has no such "
            "method; use update='refit'."
        )
    return learner
