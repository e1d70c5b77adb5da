"""Downloads, from a server in this process: whole and right, or not at all."""

import functools
import gc
import gzip
import hashlib
import http.server
import struct
import threading

import numpy as np
import pytest

from widemargin.datasets import digits, get_data_home, home, tables
from widemargin.datasets.tables import TextTable

pytest.importorskip("pooch")
# After a refused download requests leaves its socket to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

X = np.array([[1.0, 2.5], [0.25, -3.0], [7.0, 8.0]])
Y = np.array([0, 1, 1])
TEXT = "1.0,2.5,R\n0.25,-3,M\n7,8,M\n"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Serve tmp_path/served and stand in for UCI; yields the folder."""
    served = tmp_path / "served"
    served.mkdir()
    handler = functools.partial(Quiet, directory=served)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
        thread.start()
        address = f"http://127.0.0.1:{httpd.server_address[1]}/"
        monkeypatch.setattr(tables, "UCI", address)
        yield served
        httpd.shutdown()
        thread.join()
    gc.collect()


@pytest.fixture
def table():
    return TextTable(
        "tiny",
        ["tiny.data"],
        [home.content_digest(X, Y)],
        ["R", "M"],
        label_codes={"R": 0, "M": 1},
    )


def load(table, home):
    return table.load(load, home, True, False)


def test_downloaded_once_and_read(server, table, tmp_path):
    (server / "tiny.data").write_text(TEXT)
    home = tmp_path / "home"
    first = load(table, home)
    np.testing.assert_array_equal(first.data, X)
    np.testing.assert_array_equal(first.target, Y)
    assert [path.name for path in (home / "tiny").iterdir()] == ["tiny.data"]
    (server / "tiny.data").unlink()
    np.testing.assert_array_equal(load(table, home).data, X)


def test_the_order_of_the_rows_does_not_matter(server, table, tmp_path):
    (server / "tiny.data").write_text("\r\n".join(reversed(TEXT.splitlines())))
    assert len(load(table, tmp_path / "home").data) == 3


@pytest.mark.parametrize("text", [TEXT.replace("7", "6"), TEXT[:-6], "<html>no</html>"])
def test_wrong_contents_leave_nothing(server, table, tmp_path, text):
    (server / "tiny.data").write_text(text)
    with pytest.raises(OSError, match="not what they should be"):
        load(table, tmp_path / "home")
    assert list((tmp_path / "home").iterdir()) == []


def test_no_network_says_where_to_put_which_file(server, table, tmp_path):
    with pytest.raises(OSError, match="could not be downloaded") as refusal:
        load(table, tmp_path / "home")
    message = str(refusal.value)
    assert str(tmp_path / "home" / "tiny") in message
    assert "tiny.data" in message
    assert table.sources[0].url in message
    assert "WIDEMARGIN_DATA" in message
    assert list((tmp_path / "home").iterdir()) == []


def test_without_download_nothing_is_touched(table, tmp_path):
    with pytest.raises(FileNotFoundError, match="are not there"):
        home.find_or_fetch(tmp_path / "tiny", table.sources, download=False)
    assert list(tmp_path.iterdir()) == []


def test_without_pooch_a_message(table, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(FileNotFoundError, match="pip install pooch"):
        load(table, tmp_path)


def test_a_published_checksum_is_checked(server, tmp_path):
    (server / "a.bin").write_bytes(b"content")
    url = tables.UCI + "a.bin"
    right = "md5:" + hashlib.md5(b"content").hexdigest()
    folder = tmp_path / "home" / "set"
    with pytest.raises(OSError, match="not what they should be"):
        home.find_or_fetch(folder, [home.Source("a.bin", url, "md5:" + 32 * "0")])
    assert not folder.exists()
    home.find_or_fetch(folder, [home.Source("a.bin", url, right)])
    assert (folder / "a.bin").read_bytes() == b"content"


def test_usps_as_libsvm_publishes_it(tmp_path):
    import bz2

    lines = ["10 1:-1 2:0.5 256:1", "1 1:0.25 2:-0.631"]
    for source in digits.USPS:
        packed = bz2.compress("\n".join(lines).encode())
        (tmp_path / "usps").mkdir(exist_ok=True)
        (tmp_path / "usps" / source.name).write_bytes(packed)
    X, y = digits.load_usps(subset="train", data_home=tmp_path, return_X_y=True)
    assert list(y) == [9, 0]
    np.testing.assert_allclose(X[0, [0, 1, 255]], [0, 0.75, 1])
    np.testing.assert_allclose(X[1, 1], 0.1845, rtol=1e-6)


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "usps").mkdir()
    for content in (b"", b"PK\x03\x04 cut short"):
        (tmp_path / "usps" / "usps.npz").write_bytes(content)
        with pytest.raises(OSError, match=r"usps\.npz is damaged.*remove it"):
            digits.load_usps(data_home=tmp_path)


def test_data_home(monkeypatch, tmp_path):
    monkeypatch.setenv("WIDEMARGIN_DATA", str(tmp_path))
    assert get_data_home() == tmp_path
    monkeypatch.delenv("WIDEMARGIN_DATA")
    assert get_data_home().name == "widemargin_data"


@pytest.mark.parametrize("dtype", ["u1", "i4", "f4"])
@pytest.mark.parametrize("packed", [False, True])
def test_idx_round_trip(tmp_path, dtype, packed):
    values = np.arange(12).reshape(3, 2, 2).astype(dtype)
    code = next(c for c, d in digits.DTYPES.items() if d == np.dtype(f">{dtype}"))
    raw = bytes([0, 0, code, 3]) + struct.pack(">3I", *values.shape)
    raw += values.astype(f">{dtype}").tobytes()
    path = tmp_path / "a.idx"
    path.write_bytes(gzip.compress(raw) if packed else raw)
    np.testing.assert_array_equal(digits.read_idx(path), values)
    path.write_bytes((gzip.compress(raw) if packed else raw)[:-3])
    with pytest.raises(ValueError, match=r"a\.idx"):
        digits.read_idx(path)


def test_idx_refuses_other_files(tmp_path):
    (tmp_path / "a").write_bytes(b"hello world")
    with pytest.raises(ValueError, match="not an idx file"):
        digits.read_idx(tmp_path / "a")
