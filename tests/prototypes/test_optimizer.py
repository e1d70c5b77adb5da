"""States of the optimiser: moments follow the prototypes that stay."""

import numpy as np

from widemargin.prototypes import optimizer


def state_of(n):
    rng = np.random.default_rng(0)
    P, omega = rng.normal(size=(n, 3)), rng.normal(size=(n, 2, 3))
    state = {"prototypes": P, "omega": omega, "codes": np.arange(n), "spread": 2.0}
    for name in ("prototypes", "omega"):
        state |= optimizer.start(name, state[name])
        moments, _ = optimizer.adam(state, name, rng.normal(size=state[name].shape))
        state |= moments
    return state


def test_moments_stay_with_the_prototypes_that_are_kept_and_begin_anew_with_others():
    state, kept = state_of(4), np.array([True, False, True, True])
    before = {key: np.copy(value) for key, value in state.items()}
    added = {"prototypes": np.ones((1, 3)), "omega": np.full((1, 2, 3), 5.0)}
    after = optimizer.edited(state, kept, np.array([9]), added)
    assert after["codes"].tolist() == [0, 2, 3, 9]
    assert after["spread"] == 2.0
    for name, new in added.items():
        np.testing.assert_array_equal(after[name][:3], state[name][kept])
        np.testing.assert_array_equal(after[name][3:], new)
        for part in ("m", "v"):
            key = f"{name}_{part}"
            np.testing.assert_array_equal(after[key][:3], state[key][kept])
            assert not after[key][3].any()
        assert after[f"{name}_t"] == 1
    for key, value in before.items():
        np.testing.assert_array_equal(state[key], value)


def test_where_all_are_kept_and_none_is_added_the_state_is_the_same():
    state, none = state_of(3), {"prototypes": np.empty((0, 3))}
    assert optimizer.edited(state, np.ones(3, bool), np.empty(0, int), none) is state
