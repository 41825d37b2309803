"""Files of the user's: what is read, what is refused, what is left behind."""

from __future__ import annotations

import pytest

from specgen.errors import PromptError
from specgen.files import beside, read_text


def test_what_is_read(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree\n")
    assert read_text(str(file), "") == "one\r\ntwo\rthree\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"caf\xe9", "is not UTF-8"), (None, "cannot read .*: No such file or directory")],
)
def test_what_is_refused(tmp_path, content, message):
    file = tmp_path / "file"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(PromptError, match=message) as caught:
        read_text(str(file), "give another")
    assert caught.value.hint == (
        "give another" if content is None else "iconv -f latin1 -t utf-8 converts a Western European file"
    )


@pytest.mark.parametrize("broken", [True, False])
def test_a_file_is_whole_or_as_it_was(tmp_path, broken):
    file = tmp_path / "file"
    file.write_text("before")
    try:
        with beside(file) as scratch:
            scratch.write_text("half")
            assert file.read_text() == "before"
            if broken:
                raise KeyboardInterrupt
            scratch.replace(file)
    except KeyboardInterrupt:
        pass
    assert file.read_text() == ("before" if broken else "half")
    assert list(tmp_path.iterdir()) == [file]
