"""The device's mathematics on CPU tensors, against the library's on the CPU."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from widemargin._core import arrays
from widemargin.metrics import (
    TangentMetric,
    image_distortion_distances,
    pseudo_2d_distortion_distances,
    tangent_distances,
)
from widemargin.neighbors import TangentKNeighborsClassifier
from widemargin.tangents import ImageTangents, orthonormalize

torch = pytest.importorskip("torch", reason="torch is not installed")

from widemargin._compute.device import (  # noqa: E402
    distortion,
    pairs,
    search,
)

# Blanks are meant.
pytestmark = pytest.mark.filterwarnings("ignore:.*have no tangents at all")
SIDES = ("query", "reference", "both", "mean")
# Thousands of small operations: threads would only wait for each other.
torch.set_num_threads(1)


def projections(F):
    return np.einsum("nld,nle->nde", F, F)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 8))
def test_frames_span_what_the_cpu_says(seed, n_tangents, n_features):
    rng = np.random.default_rng(seed)
    T = rng.normal(size=(9, n_tangents, n_features))
    T *= 10.0 ** rng.integers(-100, 100, size=(9, n_tangents, 1))
    T[0] = 0
    T[1] = T[1, :1]
    T[2, -1] = T[2, 0]
    found = pairs.gram_schmidt(torch.tensor(T), 1e-11).numpy()
    expected = orthonormalize(T, rtol=1e-11)
    np.testing.assert_allclose(projections(found), projections(expected), atol=1e-9)
    filled = (found != 0).any(axis=2)
    np.testing.assert_array_equal(filled, (expected != 0).any(axis=2))
    gram = found @ found.transpose(0, 2, 1)
    diagonal = filled[:, :, None] * np.eye(n_tangents)
    np.testing.assert_allclose(gram, diagonal, atol=1e-13)


def ends(rng, dtype, n_x=17, n_y=23, d=12, l_x=3, l_y=2):
    X, Y = (rng.normal(size=(n, d)).astype(dtype) for n in (n_x, n_y))
    U = orthonormalize(rng.normal(size=(n_x, l_x, d)).astype(dtype))
    V = orthonormalize(rng.normal(size=(n_y, l_y, d)).astype(dtype))
    Y[:3], V[:3] = X[:3], U[:3, :l_y]
    V[5] = 0
    return X, U, Y, V


@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("spring", [0.0, 1e-5, 0.3])
@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances(sides, spring, offset, dtype):
    rng = np.random.default_rng(0)
    X, U, Y, V = ends(rng, dtype)
    X, Y = X + dtype(offset), Y + dtype(offset)
    found = pairs.pair_distances(
        *map(torch.tensor, (X, U, Y, V)), sides=sides, spring=spring, squared=False
    ).numpy()
    assert found.dtype == dtype
    expected = tangent_distances(
        *(a.astype(float) for a in (X, Y)),
        X_tangents=U.astype(float),
        Y_tangents=V.astype(float),
        sides=sides,
        spring=spring,
        squared=False,
    )
    rtol = 2e-4 if dtype == np.float32 else 1e-8
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.0, 1e-5, 0.1]),
    st.sampled_from([1e-7, 1e-4, 1e-3]),
    st.booleans(),
)
def test_bounds_bound(seed, spring, error, parallel):
    """Products wrong by `error` per unit of norm never push a bound past the truth."""
    rng = np.random.default_rng(seed)
    X, U, Y, V = ends(rng, np.float64)
    if parallel:
        V[:] = orthonormalize(U[0, :2] + 1e-3 * rng.normal(size=V.shape))
    true = tangent_distances(X, Y, X_tangents=U, Y_tangents=V, spring=spring)
    x, y = (
        pairs.Ends.prepare(torch.tensor(P), torch.tensor(F), torch.zeros(12).double())
        for P, F in ((X, U), (Y, V))
    )
    G = pairs.stacked_products(x, y, y.stack(tangent_major=True))
    lengths = [torch.linalg.vector_norm(end.rows, dim=2) for end in (x, y)]
    norms = lengths[0][:, :, None, None] * lengths[1].T[None, None]
    wrong = torch.tensor(rng.uniform(-1, 1, size=tuple(G.shape)))
    given = (x.norms, x.coefficients, y.norms, y.coefficients.T, spring)
    floor = pairs.floor_of(spring, torch.float64)
    below, _ = pairs.tail(G + error * norms * wrong, *given, floor, error)
    above, _ = pairs.tail(G + error * norms * wrong, *given, floor, -error)
    assert np.all(below.numpy() <= true + 1e-9)
    assert np.all(above.numpy() >= true - 1e-9)


def test_rows_rounded_to_float16():
    rows = torch.randn(9, 3, 40, generator=torch.Generator().manual_seed(0))
    rows[:, 1:] /= torch.linalg.vector_norm(rows[:, 1:], dim=2, keepdim=True)
    rows[:, 0] *= 10.0 ** torch.arange(-12, 15, 3)[:, None]
    rows[0, 0] = 0
    halves, units, error = search.rounded(rows)
    hats = halves.double()
    hats[:, 0] *= units[:, None]
    lengths = torch.linalg.vector_norm(rows.double(), dim=2)
    errors = torch.linalg.vector_norm(rows - hats, dim=2)
    assert 0 < error <= 2**-11
    assert bool((errors <= 1.001 * error * lengths).all())
    # TF32 has as many digits: products of what is rounded lose nothing more.
    mantissas = np.frexp(hats.numpy())[0] * 2**11
    np.testing.assert_array_equal(mantissas, np.round(mantissas))


@pytest.mark.parametrize("n_components", [None, 20])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_neighbours_are_those_of_brute_force(n_components, offset, monkeypatch):
    X, y = load_digits(return_X_y=True)
    X = (X[:600] / 16).astype(np.float32)
    # Duplicates, blanks and ties, at both ends.
    X[200:220], y[200:220] = X[:20], y[:20]
    X[300:303] = 0
    X = X + np.float32(offset)
    generator = ImageTangents((8, 8), background=offset)
    known, asked = generator.bundle(X[:450]), generator.bundle(X[440:])
    brute = TangentKNeighborsClassifier(5, tangents=generator, algorithm="brute")
    brute.fit(X[:450], y[:450])
    distances, indices = brute.kneighbors(X[440:])
    monkeypatch.setattr(arrays, "EVERY_TENSOR_IS_ON_A_DEVICE", True)
    finder = search.DeviceSearch(
        known.to("cpu"),
        np.zeros(450, int),
        1,
        TangentMetric(generator),
        n_components=n_components,
    )
    queries = torch.tensor(asked.points), torch.tensor(asked.frames)
    d2, found = finder.nearest(*queries, 5)
    np.testing.assert_allclose(np.sqrt(d2.numpy()), distances, atol=1e-12)
    np.testing.assert_array_equal(found.numpy(), indices)


@pytest.mark.parametrize(("window", "patch"), [(2, 1), (1, 0), (2, 2)])
@pytest.mark.parametrize("pseudo", [False, True])
def test_distortion(window, patch, pseudo):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(5, 70)), rng.normal(size=(6, 70))

    def gradients(Z, pad):
        return distortion.gradient_images(torch.tensor(Z), pad, (7, 10), 0.0, -1.0)

    ours = distortion.pseudo_2d_distances if pseudo else distortion.distortion_distances
    slow = pseudo_2d_distortion_distances if pseudo else image_distortion_distances
    found = ours(
        gradients(X, patch),
        gradients(Y, patch + window + pseudo),
        patch=patch,
        window=window,
    )
    expected = slow(X, Y, shape=(7, 10), window=window, patch=patch)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9)


def test_pseudo_2d_distances_in_blocks(monkeypatch):
    x, y = torch.rand(3, 2, 6, 7), torch.rand(5, 2, 10, 11)
    whole = distortion.pseudo_2d_distances(x, y, patch=1, window=1)
    monkeypatch.setattr(distortion, "_NUMBERS", 3 * 5 * 42 * 2)
    blocks = distortion.pseudo_2d_distances(x, y, patch=1, window=1)
    np.testing.assert_array_equal(blocks.numpy(), whole.numpy())


def test_chunks_shrink_where_memory_runs_out():
    sizes = []

    def work(rows):
        sizes.append(rows.stop - rows.start)
        if sizes[-1] > 3:
            raise torch.cuda.OutOfMemoryError("too much")

    pairs.chunk_until_fits(16, 10, work)
    assert sizes == [10, 8, 4, 2, 2, 2, 2, 2]
    with pytest.raises(MemoryError, match="row 0 of 10"):
        pairs.chunk_until_fits(
            4, 10, lambda rows: (_ for _ in ()).throw(torch.cuda.OutOfMemoryError())
        )


@pytest.mark.parametrize("lengths", [(5, 5, 5), (4, 5, 4, 2)])
def test_replayed_steps_are_the_steps(lengths):
    from widemargin._compute.device.replay import Replayed

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    X = np.random.default_rng(0).normal(size=(sum(lengths), 3))
    there = torch.from_numpy(X).to(device)

    def step(now, rows, rate):
        return {
            "P": now["P"] + rate * now["P"] * there[rows].mean(0),
            "t": now["t"] + 1,
        }

    stops = np.cumsum(lengths).tolist()
    pieces = [slice(b - n, b) for b, n in zip(stops, lengths, strict=True)]
    replayed = Replayed(step, device, recorded=True)
    P, t = np.ones((2, 3)), 0
    for rates in ([0.1] * len(pieces), np.linspace(1, 0.5, len(pieces)).tolist()):
        batches = list(zip(pieces, rates, strict=True))[::-1]
        found = replayed.run({"P": P, "t": t}, batches)
        for rows, rate in batches:
            P, t = P + rate * P * X[rows].mean(0), t + 1
        np.testing.assert_allclose(found["P"], P, rtol=1e-12)
        assert found["t"] == t
        assert isinstance(found["t"], int)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_and_steps_on_a_device_are_those_of_the_cpu(dtype):
    from widemargin.margins import Exponential, Sigmoid
    from widemargin.prototypes import optimizer
    from widemargin.prototypes.glvq import Centred, glvq_sums
    from widemargin.prototypes.gmlvq import FullMatrix

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rng = np.random.default_rng(0)
    X, P, omega = (
        rng.normal(size=s).astype(dtype) for s in ((300, 9), (23, 9), (4, 9))
    )
    codes, labels = rng.integers(5, size=300), rng.integers(4, size=23)
    weights = rng.uniform(size=300).astype(dtype)
    rows = Centred(X, codes, weights, (X * X).sum(1))

    def put(*arrays):
        return [torch.from_numpy(a).to(device) for a in arrays]

    for loss in (Sigmoid(beta=3.0), Exponential()):
        for sums, more in ((glvq_sums, ()), (matrix_sums(FullMatrix()), (omega,))):
            here = sums(rows, P, *more, labels, loss)
            there = sums(rows.at(device), *put(P, *more, labels), loss)
            rtol = float(1e3 * np.finfo(dtype).eps)
            assert float(there.loss) == pytest.approx(here.loss, rel=rtol)
            assert there.wins.tolist() == here.wins.tolist()
            for name, value in here.gradients.items():
                found = there.gradients[name].cpu().numpy()
                scale = rtol * np.abs(value).max()
                np.testing.assert_allclose(found, value, rtol=rtol, atol=scale)
    state = optimizer.start("P", P)
    moved = {key: torch.as_tensor(value).to(device) for key, value in state.items()}
    for gradient in (P, 1e-6 * P, 0 * P):
        moments, here = optimizer.adam(state, "P", gradient)
        state |= moments
        moments, there = optimizer.adam(moved, "P", *put(gradient))
        moved |= moments
        rtol = 50 * np.finfo(dtype).eps
        np.testing.assert_allclose(there.cpu().numpy(), here, rtol=rtol, atol=1e-30)


def matrix_sums(metric):
    def sums(rows, P, omega, labels, loss):
        return metric.sums(rows, P, omega, labels, labels, loss)

    return sums


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("n", [1, 7])
@pytest.mark.parametrize("sides", [(0, 2), (2, 2), (7, 5)])
def test_one_kernel_of_tails_is_what_torch_does(n, sides, monkeypatch):

    l_x, l_y = sides
    rng = torch.Generator().manual_seed(0)
    G = 0.1 * torch.randn(3, 1 + l_x, 1 + l_y, n, generator=rng).cuda()
    nx, ny = 9 + torch.rand(3, device="cuda"), 9 + torch.rand(n, device="cuda")
    a0 = torch.randn(3, l_x, device="cuda")
    b0 = torch.randn(l_y, n, device="cuda")
    found = pairs.tail(G, nx, a0, ny, b0, 0.1, 1e-6)
    monkeypatch.setattr(pairs, "triton_for", lambda _: None)
    for one, other in zip(found, pairs.tail(G, nx, a0, ny, b0, 0.1, 1e-6), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
