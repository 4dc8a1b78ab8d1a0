import os
import pwd
from pathlib import Path

import pytest

from testbed.errors import MachineError
from testbed.paths import cache_dir, calling_user, give_to_caller, make_dir

NOBODY = pwd.getpwnam("nobody")
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"CLIQUENET_CACHE": "/c", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/c"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/cliquenet"),
        ({"HOME": "/h"}, "/h/.cache/cliquenet"),
    ],
)
def test_the_cache_lies_where_it_is_told(environment: dict[str, str], expected: str) -> None:
    assert cache_dir(environment) == Path(expected)


def test_without_sudo_the_caller_is_this_user() -> None:
    caller = calling_user({"HOME": "/h"})
    assert (caller.uid, caller.gid, caller.home) == (os.getuid(), os.getgid(), Path("/h"))


@needs_root
def test_under_sudo_the_caller_is_the_user_before_it() -> None:
    sudo = {"SUDO_UID": str(NOBODY.pw_uid), "SUDO_GID": str(NOBODY.pw_gid), "HOME": "/root"}
    assert calling_user(sudo).home == Path(NOBODY.pw_dir)
    assert cache_dir(sudo) == Path(NOBODY.pw_dir) / ".cache" / "cliquenet"


def test_under_sudo_by_root_or_with_a_broken_environment_the_caller_is_this_user() -> None:
    for uid, gid in (("0", "0"), ("", ""), ("x", "1")):
        assert calling_user({"SUDO_UID": uid, "SUDO_GID": gid, "HOME": "/h"}).uid == os.getuid()


@needs_root
def test_what_root_makes_belongs_to_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", str(NOBODY.pw_uid))
    monkeypatch.setenv("SUDO_GID", str(NOBODY.pw_gid))
    before, outside = tmp_path / "before", tmp_path / "outside"
    before.mkdir()
    outside.touch()
    made = make_dir(before / "a" / "b")
    (made / "file").touch()
    (made / "link").symlink_to(outside)
    give_to_caller(made)
    for path in (made.parent, made, made / "file", made / "link"):
        assert path.lstat().st_uid == NOBODY.pw_uid
        assert path.lstat().st_gid == NOBODY.pw_gid
    assert before.stat().st_uid == outside.stat().st_uid == 0


def test_a_folder_that_cannot_be_made_is_an_error_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MachineError, match="cannot make the folder"):
        make_dir(tmp_path / "file" / "below")
