"""Files are there whole or not at all, and what a killed writer left goes away."""

import os
import time

import pytest

from widemargin.saving import write_atomically


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


@pytest.mark.parametrize("age", [1800, 7200])
def test_what_a_killed_writer_left_is_removed_and_what_a_living_one_writes_is_not(
    tmp_path, age
):
    path, own = tmp_path / "model[1]", tmp_path / ".model[1].mine.part"
    own.write_text("no part of ours")
    os.utime(own, (0, 0))

    def write_while_another_does(part):
        part.write_text("half")
        os.utime(part, (0, time.time() - age))
        write_atomically(path, lambda part: part.write_text("whole"))
        assert part.exists() == (age < 3600)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, write_while_another_does)
    assert sorted(tmp_path.iterdir()) == [own, path]
    assert path.read_text() == "whole"
