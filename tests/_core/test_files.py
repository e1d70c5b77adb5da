"""Files are there whole or not at all, and what a killed writer left goes away."""

import os
import signal
import subprocess
import sys
import time

import pytest

from widemargin._core.files import write_atomically


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fail(part):
        part.write_text("half")
        raise error

    with pytest.raises(type(error)):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_error_names_the_file_and_not_its_part(tmp_path):
    path = tmp_path / "no" / "file.txt"
    with pytest.raises(OSError) as caught:
        write_atomically(path, lambda part: part.write_text("new"))
    assert caught.value.filename == str(path)


def test_a_new_file_follows_the_umask_and_a_link_stays_one(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(real)
    write_atomically(link, lambda part: part.write_text("new"))
    assert link.is_symlink()
    assert real.read_text() == "new"
    umask = os.umask(0)
    os.umask(umask)
    assert real.stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.skipif(os.name != "posix", reason="kills a process")
def test_what_a_killed_writer_left_is_removed_and_what_a_living_one_writes_is_not(
    tmp_path,
):
    code = (
        "import sys, time; from widemargin._core.files import write_atomically\n"
        "def write(part):\n"
        "    part.write_text('half'); print('begun', flush=True); time.sleep(60)\n"
        "write_atomically(sys.argv[1], write)"
    )
    path = tmp_path / "model"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for writer in writers:
        assert writer.stdout.readline() == "begun\n"
    parts = set(tmp_path.iterdir())
    assert len(parts) == 2
    writers[0].send_signal(signal.SIGKILL)
    writers[0].wait()
    foreign = tmp_path / ".model.elsewhere-1.part"
    foreign.write_text("half")
    write_atomically(path, lambda part: part.write_text("whole"))
    left = set(tmp_path.iterdir()) - {path, foreign}
    assert [str(writers[1].pid) in part.name for part in left] == [True]
    writers[1].send_signal(signal.SIGKILL)
    writers[1].wait()
    # Of another machine's process nobody here knows whether it lives; a day decides.
    os.utime(foreign, (0, time.time() - 2 * 24 * 3600))
    write_atomically(path, lambda part: part.write_text("whole"))
    assert list(tmp_path.iterdir()) == [path]
    for writer in writers:
        writer.stdout.close()
