"""The kernel is compiled once, found again by what it depends on, and refused in one line."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agents.native.build import SOURCES, ensure_kernel_library, kernel_sources
from testbed.commands import run
from testbed.compiled import NoCompilerError, ensure_library, load
from testbed.errors import MachineError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLIQUENET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "native"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "answer.c"
    path.write_text('#include "cq.h"\nCQ_EXPORT int answer(void) { return 42; }\n')
    return path


def test_a_library_is_compiled_once_for_each_content(cache: Path, source: Path) -> None:
    library = ensure_library("answer", [source], SOURCES)
    assert load(library).answer() == 42
    made = library.stat().st_mtime_ns
    assert ensure_library("answer", [source], SOURCES) == library
    assert library.stat().st_mtime_ns == made
    source.write_text(source.read_text().replace("42", "43"))
    other = ensure_library("answer", [source], SOURCES)
    assert other != library
    assert load(other).answer() == 43
    assert {path.suffix for path in cache.iterdir()} == {".so", ""}


def test_several_builders_at_once_get_the_same_library(cache: Path, source: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: ensure_library("answer", [source], SOURCES), range(4)))
    assert len(set(made)) == 1
    assert [path for path in cache.iterdir() if path.suffix == ".so"] == [made[0]]


def test_what_does_not_compile_is_told_in_one_line(cache: Path, source: Path) -> None:
    source.write_text("int answer(void) { return fourty_two; }\n")
    with pytest.raises(MachineError, match=r"compiling the answer library: .*fourty_two") as caught:
        ensure_library("answer", [source], SOURCES)
    assert "\n" not in str(caught.value)
    assert [path.name for path in cache.iterdir()] == ["lock"]


def test_without_a_compiler_the_package_is_named(
    cache: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(cache))
    with pytest.raises(NoCompilerError, match=r"the answer library.*apt-get install gcc"):
        ensure_library("answer", [source], SOURCES)
    with pytest.raises(MachineError, match="engine=reference does without"):
        ensure_kernel_library()


def test_a_damaged_library_is_told_with_its_path(tmp_path: Path) -> None:
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"no library")
    with pytest.raises(MachineError, match=r"cannot load .*broken\.so.*remove it"):
        load(broken)


def test_the_kernel_compiles_without_a_warning(tmp_path: Path) -> None:
    run(["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
         f"-I{SOURCES}", *map(str, kernel_sources())])  # fmt: skip
