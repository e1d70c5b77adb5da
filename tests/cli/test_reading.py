import csv

import numpy as np
import pandas
import pytest
from sklearn.datasets import dump_svmlight_file
from tests.cli.writing import text_rows, write_csv, write_idx

from widemargin.cli import Refusal
from widemargin.cli.read import kind_of, read


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_csv(tmp_path, iris_rows, delimiter):
    names, rows = iris_rows
    path = write_csv(tmp_path / "a.csv", names, rows, delimiter)
    table = read(path, target="species")
    assert table.names == names[:-1]
    np.testing.assert_array_equal(table.X, [[float(v) for v in r[:-1]] for r in rows])
    assert table.y.tolist() == [row[-1] for row in rows]
    dropped = read(path, target="species", drop=["sepal_width"])
    assert dropped.names == ["sepal_length", "petal_length", "petal_width"]
    kept = read(path, labelled=False, keep=["petal_width", "sepal_length"])
    np.testing.assert_array_equal(kept.X, table.X[:, [3, 0]])
    assert kept.y is None


def test_csv_without_header_and_integer_labels(tmp_path):
    (tmp_path / "a.csv").write_text("1,2,0\n3,4,1\n")
    table = read(tmp_path / "a.csv", target="-1")
    np.testing.assert_array_equal(table.X, [[1, 2], [3, 4]])
    assert table.y.dtype == np.int64
    assert table.target == "2"


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        (["1", "01", "001", "1"], ["1", "01", "001", "1"]),
        (["00", "01", "00", "01"], ["00", "01", "00", "01"]),
        (["+1", "-1", "-1", "+1"], ["+1", "-1", "-1", "+1"]),
        (["2", "-1", "10", "2"], [2, -1, 10, 2]),
        (["2.0", "1.0", "1.0", "2.0"], [2, 1, 1, 2]),
        (["a\nb", 'c "d"', "a\n\nb", "e\r\nf"], None),
        (['5" pipe', "x", "y", '5" pipe'], None),
    ],
)
@pytest.mark.parametrize("note", ["", "text"])
def test_labels_are_those_of_the_file(tmp_path, texts, labels, note):
    """`note` makes the reading go cell by cell: it begins as a number."""
    with (tmp_path / "a.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "k", "note"])
        for i, text in enumerate(texts):
            writer.writerow([i, text, note if i else "1"])
    drop = ["note"]
    table = read(tmp_path / "a.csv", target="k", drop=drop)
    assert table.y.tolist() == (labels or texts)
    np.testing.assert_array_equal(table.X[:, 0], range(4))
    # As they are written, without quotes that nobody needs.
    if "\n" not in "".join(texts):
        lines = [f"{i},{text},{note if i else 1}" for i, text in enumerate(texts)]
        (tmp_path / "b.csv").write_text("\r\n".join(["a,k,note", *lines, ""]))
        assert read(tmp_path / "b.csv", target="k", drop=drop).y.tolist() == (
            labels or texts
        )


def test_fast_and_slow_csv_agree(tmp_path):
    rng = np.random.default_rng(0)
    rows = [[f"{v:.4f}" for v in row] for row in rng.normal(size=(30, 3))]
    rows = [[*row, f"k{i % 3}"] for i, row in enumerate(rows)]
    fast = write_csv(tmp_path / "fast.csv", ["a", "b", "c", "k"], rows)
    # A column that begins as a number and goes on as text is read cell by cell.
    mixed = [[*row, "1" if i == 0 else "x, y"] for i, row in enumerate(rows)]
    slow = write_csv(tmp_path / "slow.csv", ["a", "b", "c", "k", "note"], mixed)
    one, two = read(fast, target="k"), read(slow, target="k", drop=["note"])
    np.testing.assert_array_equal(one.X, two.X)
    assert one.y.tolist() == two.y.tolist() == [row[-1] for row in rows]


def test_lines_are_counted_as_an_editor_counts_them(tmp_path):
    (tmp_path / "a.csv").write_text("a,k\n\n1,x\n\nno,y\n")
    with pytest.raises(Refusal, match="'no' in line 5"):
        read(tmp_path / "a.csv", target="k")


@pytest.mark.parametrize(("row", "n"), [("5", 1), ("5,6,x,7", 4), ('"5\n",x', 2)])
def test_rows_of_another_length_are_named(tmp_path, row, n):
    """Also behind a cell of two lines; pandas would fill or cut them."""
    (tmp_path / "a.csv").write_text(f'a,b,k\n1,2,x\n\n3,4,"y\nz"\n{row}\n7,8,x\n')
    with pytest.raises(Refusal, match=f"line 6: {n} cells where the first line has 3"):
        read(tmp_path / "a.csv", target="k", drop=["b"])


def test_words_that_pandas_takes_for_numbers_are_text(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,k\nTrue,1,x\nFalse,2,y\n")
    with pytest.raises(Refusal, match=r"'a' holds text \('True' in line 2\)"):
        read(tmp_path / "a.csv", target="k")
    (tmp_path / "a.csv").write_text("a,b,k\n1,inf,x\n1,2,y\n")
    with pytest.raises(Refusal, match=r"line 2, column 'b': inf is not finite"):
        read(tmp_path / "a.csv", target="k")


def test_parquet(tmp_path, iris_rows):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    names, rows = iris_rows
    columns = {n: [float(r[i]) for r in rows] for i, n in enumerate(names[:-1])}
    columns["species"] = [row[-1] for row in rows]
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    table = read(tmp_path / "a.parquet", target="species")
    np.testing.assert_array_equal(table.X[:, 1], columns["sepal_width"])
    assert table.y.tolist() == columns["species"]
    columns["sepal_width"][4] = None
    parquet.write_table(pyarrow.table(columns), tmp_path / "b.parquet")
    with pytest.raises(Refusal, match="row 5, column 'sepal_width': no value"):
        read(tmp_path / "b.parquet", target="species")
    (tmp_path / "c.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:500])
    with pytest.raises(Refusal, match="damaged Parquet"):
        read(tmp_path / "c.parquet", target="species")


def test_npz_keeps_shape_and_dtype(tmp_path, digits):
    X, y = digits
    np.savez(tmp_path / "a.npz", images=X.reshape(-1, 8, 8).astype("f4"), kind=y)
    table = read(tmp_path / "a.npz", target="kind")
    assert table.image_shape == (8, 8)
    assert table.X.dtype == np.float32
    np.testing.assert_array_equal(table.y, y)


@pytest.mark.parametrize("packed", [False, True])
def test_idx_finds_its_labels(tmp_path, digits, packed):
    X, y = digits
    grey = (255 * X).astype(np.uint8).reshape(-1, 8, 8)
    images = write_idx(tmp_path / "t-images-idx3-ubyte.gz", grey, packed)
    labels = write_idx(tmp_path / "t-labels-idx1-ubyte.gz", y, packed)
    for target in (None, str(labels)):
        table = read(images, target=target)
        np.testing.assert_allclose(table.X, grey.reshape(len(X), -1) / 255, rtol=1e-6)
        np.testing.assert_array_equal(table.y, y)
        assert table.image_shape == (8, 8)
    labels.unlink()
    with pytest.raises(Refusal, match="give the idx file of the labels"):
        read(images)


@pytest.mark.parametrize("name", ["a.libsvm", "a.txt", "a"])
def test_libsvm(tmp_path, digits, name):
    X, y = digits
    dump_svmlight_file(X, y, str(tmp_path / name), zero_based=False)
    assert kind_of(tmp_path / name) == "libsvm"
    table = read(tmp_path / name, n_features=64)
    np.testing.assert_allclose(table.X.toarray(), X)
    np.testing.assert_array_equal(table.y, y)
    assert table.X.indices.dtype == np.int32


@pytest.mark.parametrize("n_features", [10, 64, 70])
def test_features_that_a_libsvm_model_does_not_know(tmp_path, digits, n_features):
    X, y = digits
    dump_svmlight_file(X, y, str(tmp_path / "a"), zero_based=False)
    there = np.flatnonzero(X.any(axis=0)).max() + 1
    table = read(tmp_path / "a", n_features=n_features)
    both = min(n_features, there)
    np.testing.assert_allclose(table.X.toarray()[:, :both], X[:, :both])
    assert table.X.shape == (len(X), n_features)
    expected = f"{there - 10} features that the model does not know are passed over"
    assert table.notes == ([expected] if n_features == 10 else [])


def test_images(image_folder, digits):
    X, y = digits
    table = read(image_folder)
    assert table.image_shape == (8, 8)
    assert sorted(set(table.y)) == ["digit0", "digit1", "digit2"]
    first = np.flatnonzero(y == 0)[0]
    np.testing.assert_allclose(table.X[0], X[first], atol=1 / 255)
    assert table.rows[0] == f"digit0/{first:03d}.png"
    resized = read(image_folder, image_shape=(4, 4))
    assert resized.X.shape == (len(table.X), 16)
    flat = read(image_folder / "digit0", labelled=False)
    assert flat.y is None
    assert len(flat.X) == (y == 0).sum()


def pictures(X):
    """Ways to store the same grey levels in 0..1, by file name."""
    image = pytest.importorskip("PIL.Image")
    black = np.zeros((8, 8, 4), np.uint8)
    black[..., 3] = 255 - np.round(255 * X)
    symbol = image.fromarray(black)
    palette = image.fromarray(np.round(255 * X).astype(np.uint8)).convert("P")
    return {
        "16.png": image.fromarray(np.round(65535 * X).astype(np.uint16)),
        "16.tif": image.fromarray(np.round(65535 * X).astype(np.uint16)),
        "32.tif": image.fromarray(np.round(65535 * X).astype(np.int32)),
        "float.tif": image.fromarray(X.astype(np.float32)),
        "alpha.png": symbol,
        "grey_alpha.png": symbol.convert("LA"),
        "palette.png": palette,
        "colour.png": palette.convert("RGB"),
        "opaque.png": palette.convert("RGBA"),
    }


def test_grey_levels_are_kept_however_they_are_stored(tmp_path, digits):
    X = digits[0][3].reshape(8, 8)
    for name, picture in pictures(X).items():
        picture.save(tmp_path / name)
        found = read(tmp_path / name, labelled=False).X
        np.testing.assert_allclose(found[0], X.ravel(), atol=1 / 250, err_msg=name)
        # Resized as eight bits are.
        small = read(tmp_path / name, labelled=False, size=(4, 4)).X[0]
        (tmp_path / "8").mkdir(exist_ok=True)
        pictures(X)["colour.png"].convert("L").save(tmp_path / "8" / "a.png")
        usual = read(tmp_path / "8", labelled=False, image_shape=(4, 4)).X[0]
        np.testing.assert_allclose(small, usual, atol=1 / 100, err_msg=name)


def test_a_transparent_colour_of_a_palette_is_white(tmp_path, digits):
    picture = pictures(digits[0][3].reshape(8, 8))["palette.png"]
    picture.save(tmp_path / "a.png", transparency=picture.getpixel((0, 0)))
    assert read(tmp_path / "a.png", labelled=False).X[0, 0] == 1


def test_photographs_stand_as_the_camera_was_held(tmp_path, digits):
    image = pytest.importorskip("PIL.Image")
    pixels = (255 * digits[0][3].reshape(8, 8)[:, :6]).astype(np.uint8)
    exif = image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    table = read(tmp_path / "a.png", labelled=False)
    assert table.image_shape == (6, 8)
    turned = np.rot90(pixels, -1) / 255
    np.testing.assert_allclose(table.X[0], turned.ravel(), atol=1e-6)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.linspace(0, 255, 64, dtype=np.float32), r"holds 0 to 255 \(mode F\)"),
        (np.full(64, np.nan, np.float32), r"holds nan to nan \(mode F\)"),
        (np.arange(-1, 63, dtype=np.int32), r"holds -1 to 62 \(mode I\)"),
    ],
)
def test_images_of_unknown_white_are_refused(tmp_path, values, words):
    image = pytest.importorskip("PIL.Image")
    image.fromarray(values.reshape(8, 8)).save(tmp_path / "a.tif")
    with pytest.raises(Refusal, match=rf"a\.tif {words}"):
        read(tmp_path / "a.tif", labelled=False)


def test_white_on_transparent_is_refused(tmp_path):
    image = pytest.importorskip("PIL.Image")
    pixels = np.full((8, 8, 4), 255, np.uint8)
    pixels[2:4, :, 3] = 0
    image.fromarray(pixels).save(tmp_path / "a.png")
    with pytest.raises(Refusal, match=r"a\.png is white on transparent"):
        read(tmp_path / "a.png", labelled=False)


def test_the_first_row_of_a_file_without_names_is_kept(tmp_path):
    X, lines = text_rows()
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines))
    table = read(path, target="-1")
    np.testing.assert_array_equal(table.X, X)
    assert table.y[0] == "p"
    assert "taken for data" in table.notes[0]


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("a,b,c,k", ["a", "b", "c"]),
        ("a,2019,2020,k", ["a", "2019", "2020"]),
        # Numbers over numbers: the name that was asked for tells.
        ("2018,2019,2020,k", ["2018", "2019", "2020"]),
        ("0,1,2,k", ["0", "1", "2"]),
    ],
)
def test_names_are_known_as_such(tmp_path, header, names):
    X, lines = text_rows()
    (tmp_path / "a.csv").write_text("\n".join([header, *lines]))
    table = read(tmp_path / "a.csv", target="k")
    assert table.names == names
    np.testing.assert_array_equal(table.X, X)


def test_names_that_are_numbers_are_known_to_the_model(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("900.0,904.0,908.1\n1,2,3\n4,5,6\n")
    table = read(path, labelled=False, keep=["908.1", "900.0"])
    np.testing.assert_array_equal(table.X, [[3, 1], [6, 4]])
    # Places of columns are no names, even where a cell looks like one.
    path.write_text("1,2,0\n4,5,6\n")
    assert read(path, labelled=False, keep=["1", "2"]).X.tolist() == [[2, 0], [5, 6]]
    path.write_text("900.0,904.0\n1,2\n")
    with pytest.raises(Refusal, match=r"lack .*'1.5'.*--header yes"):
        read(path, labelled=False, keep=["900.0", "1.5", "2.5", "3.5"])


def test_counted_names_over_numbers_alone(tmp_path):
    rows = "\n".join(f"{v},{v},{v},{i % 2}" for i, v in enumerate(text_rows()[0][:, 0]))
    (tmp_path / "a.csv").write_text("0,1,2,3\n" + rows)
    table = read(tmp_path / "a.csv", target="3")
    assert len(table.X) == 30
    assert "names of columns" in table.notes[0]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("index", [None, "sample"])
def test_a_saved_index_is_no_feature(tmp_path, kind, index):
    pytest.importorskip("pyarrow")
    X, _ = text_rows()
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    frame["k"] = ["p", "q"] * 15
    frame = frame.sample(frac=1, random_state=0).rename_axis(index)
    path = tmp_path / f"a.{kind}"
    getattr(frame, f"to_{kind}")(path)
    table = read(path, target="k")
    if kind == "csv" and index:
        # Nothing says that this is an index, but it looks like one.
        assert table.names == ["sample", "a", "b", "c"]
        assert "--drop sample" in table.notes[0]
        return
    assert table.names == ["a", "b", "c"]
    assert "left out" in table.notes[0]
    np.testing.assert_array_equal(table.X, X[frame.index])


def test_the_table_is_read_once(tmp_path, monkeypatch):
    _, lines = text_rows()
    (tmp_path / "a.csv").write_text("\n".join(["a,b,c,k", *lines]))
    calls, original = [], pandas.read_csv
    monkeypatch.setattr(
        pandas, "read_csv", lambda *a, **k: calls.append(1) or original(*a, **k)
    )
    read(tmp_path / "a.csv", target="k")
    assert calls == [1]
