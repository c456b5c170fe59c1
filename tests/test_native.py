"""The C core: its declarations agree with Python's, and it comes from somewhere in every kind of installation."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import numpy as np
import pytest

from podsim import native
from podsim.axes import Floats
from podsim.c_compiler import compile_library, library_name, source_files
from podsim.errors import NativeError

PACKAGE = native.PACKAGE
C_NAMES = {
    "int64": "int64_t",
    "int32": "int32_t",
    "float64": "double",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "uint8_t",
}
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
SOURCES = [
    path for path in source_files(PACKAGE) if re.search(r"^struct \w+ \{", path.read_text(), re.MULTILINE)
]


def _structs(path: Path) -> dict[str, list[str]]:
    """name -> its fields as "type name" (a pointer: "type * name"), of every struct that a source defines."""
    text = COMMENT.sub("", path.read_text())
    for name, value in re.findall(r"\b([A-Z]+) = (\d+)", text):
        text = text.replace(f"[{name}]", f"[{value}]")
    return {
        name: [_normal(field) for field in body.split(";") if field.strip()]
        for name, body in re.findall(r"struct (\w+) \{(.*?)\};", text, re.DOTALL)
    }


def _normal(declaration: str) -> str:
    words = declaration.replace("const", "").replace("struct ", "").replace("*", " * ").split()
    return " ".join(words)


def _modules(folder: Path) -> list[Any]:
    """The modules next to a source that use the C core or hold what it mirrors."""
    return [
        importlib.import_module(".".join(["podsim", *path.relative_to(PACKAGE).with_suffix("").parts]))
        for path in sorted(folder.glob("*.py"))
        if any(word in path.read_text() for word in ("c_function(", "np.dtype(["))
    ]


def _python_fields(name: str, modules: list[Any]) -> list[str] | None:
    """The fields of the NamedTuple of this name, or of the records of this name in capitals, as C declares them."""
    capitals = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
    for module in modules:
        kind = getattr(module, name, None)
        if isinstance(kind, type) and issubclass(kind, tuple):
            return [_c_field(field, hint, module) for field, hint in _hints(kind)]
        dtype = getattr(module, f"{capitals}_RECORD", getattr(module, capitals, None))
        if isinstance(dtype, np.dtype):
            return [_record_field(field, dtype[field]) for field in dtype.names]
    return None


def _record_field(field: str, dtype: np.dtype[Any]) -> str:
    """A field of a record as C declares it; an array in it has its length in brackets."""
    length = "".join(f"[{size}]" for size in dtype.shape)
    return f"{C_NAMES[dtype.base.name]} {field}{length}"


def _hints(kind: type) -> list[tuple[str, Any]]:
    return list(get_type_hints(kind, include_extras=True).items())


def _c_field(field: str, hint: Any, module: Any) -> str:
    if hint in (int, bool):
        return f"int64_t {field}"
    if hint is float:
        return f"double {field}"
    dtype = native._dtype(hint)
    if dtype is None or dtype.names:
        return f"RECORD * {field}"
    return f"{C_NAMES[dtype.name]} * {field}"


@pytest.mark.parametrize("header", SOURCES, ids=lambda path: path.name)
def test_structs_mirror_named_tuples_and_records(header: Path) -> None:
    modules = _modules(header.parent)
    text = header.read_text()
    for name, fields in _structs(header).items():
        if header.suffix == ".c" and not re.search(rf"EXPORT[^{{]*struct {name} ", text):
            continue  # Python does not see it
        expected = _python_fields(name, modules)
        assert expected is not None, f"{header.name}: no NamedTuple or dtype for struct {name}"
        bare = [
            re.sub(r"^\w+ \*", "RECORD *", field) if wanted.startswith("RECORD") else field
            for field, wanted in zip(fields, expected, strict=False)
        ]
        assert bare == expected, name
        assert len(fields) == len(expected), name


def _exported() -> dict[str, list[str]]:
    """name -> [result, kinds of arguments]: struct, pointer, int64_t, double; of every exported function."""
    out = {}
    for path in source_files(PACKAGE):
        text = COMMENT.sub("", path.read_text())
        for result, name, arguments in re.findall(r"EXPORT (\w+) (\w+)\(([^)]*)\)\s*\{", text):
            kinds = [" ".join(_normal(argument).split()[:-1]) for argument in arguments.split(",")]
            out[name] = [result, *kinds]
    return out


def test_functions_are_declared_as_they_are() -> None:
    declared = {}
    for folder in {path.parent for path in SOURCES}:
        for module in _modules(folder):
            for value in vars(module).values():
                if isinstance(value, native.CFunction):
                    result = (
                        "double"
                        if value.result is float
                        else "int64_t"
                        if value.result in (int, bool)
                        else "void"
                    )
                    declared[value.name] = [result, *(_c_kind(kind) for kind in value.arguments)]
    exported = _exported()
    assert declared == {name: exported[name] for name in declared}
    assert set(declared) == set(exported)


def _c_kind(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, tuple):
        return f"{kind.__name__} *"
    return _c_field("", kind, None).strip()


def test_c_files_keep_the_house_limits() -> None:
    for path in source_files(PACKAGE):
        lines = path.read_text().splitlines()
        assert len(lines) <= 400, path.name
        start = 0
        for number, line in enumerate(lines):
            if line and line[0] not in " }/*#":
                start = number
            assert not (line == "}" and number - start >= 60), f"{path.name}:{start + 1}"


class Mixed(NamedTuple):
    """Every kind of field."""

    values: Floats
    count: int
    share: float


def test_a_struct_holds_addresses_and_numbers() -> None:
    array = np.arange(3.0)
    struct: Any = native.c_struct(Mixed(array, 3, 0.5))
    assert (struct.values, struct.count, struct.share) == (array.ctypes.data, 3, 0.5)


@pytest.mark.parametrize(
    "array", [np.arange(3), np.arange(6.0)[::2], [1.0, 2.0], np.arange(3, dtype=np.float32)], ids=str
)
def test_an_array_of_another_kind_is_refused(array: Any) -> None:
    with pytest.raises(TypeError, match=r"Mixed\.values: a C-contiguous float64 array is needed"):
        native.c_struct(Mixed(array, 3, 0.5))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two sources, without a library, and an empty cache."""
    folder = tmp_path / "podsim"
    (folder / "network").mkdir(parents=True)
    for name in ("native.h", "network/flow.h", "network/flow.c"):
        shutil.copy(PACKAGE / name, folder / name)
    monkeypatch.setattr(native, "PACKAGE", folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def _load() -> Path:
    """Where the library comes from, in a process that has none yet."""
    library = native.load_library.__wrapped__()
    assert library.flow_fill
    return Path(library._name)


def test_the_library_of_the_package_comes_first(package: Path) -> None:
    compile_library(package, package / library_name(package))
    assert _load().parent == package


def test_else_it_is_compiled_once_into_a_private_folder(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _load()
    assert path.parent == tmp_path / "cache" / "podsim" / "native"
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert capsys.readouterr().err == "podsim: compiling its C library, once (a few seconds)\n"
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    assert _load() == path
    assert not capsys.readouterr().err


def test_a_changed_source_has_another_library(package: Path) -> None:
    first = _load()
    source = package / "network" / "flow.c"
    source.write_text(source.read_text() + "EXPORT double flow_new(void) { return 2.5; }\n")
    second = native.load_library.__wrapped__()
    assert Path(second._name) != first
    assert second.flow_new is not None


@pytest.mark.parametrize("mode", [0o777, 0o720])
def test_a_folder_that_others_write_to_is_not_used(package: Path, tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "cache" / "podsim" / "native"
    folder.mkdir(parents=True)
    (folder / library_name(package)).write_text("not mine")
    folder.chmod(mode)
    assert _load().parent.parent != folder.parent


def test_without_a_writable_folder_it_lasts_as_long_as_the_process(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert not _load().exists()
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert not _load().exists()


def test_a_damaged_library_is_not_the_end(package: Path) -> None:
    (package / library_name(package)).write_bytes(b"not a library")
    assert _load().parent != package


def test_without_a_compiler_the_error_says_what_to_install(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(NativeError, match="apt-get install gcc, or pip install ziglang"):
        _load()


def test_a_compiler_that_fails_is_quoted(package: Path) -> None:
    (package / "network" / "flow.c").write_text("int wrong(void) { return }\n")
    with pytest.raises(NativeError, match=r"(?s)cc cannot compile podsim's C sources: .*flow\.c:1"):
        _load()


def test_two_processes_at_once_both_get_it(package: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from podsim import native; "
        f"native.PACKAGE = Path({str(package)!r}); assert native.load_library().flow_fill"
    )
    runs = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) for _ in range(3)]
    assert [run.wait() for run in runs] == [0, 0, 0]
    assert len(list(_load().parent.iterdir())) == 1


def test_closed_forms_and_searches_need_no_library(tmp_path: Path) -> None:
    code = "import podsim; podsim.predict('gpt2', on='dgx-a100-80gb:1'); podsim.plan('gpt2', on='dgx-a100-80gb:1')"
    environment = {**os.environ, "PATH": "", "CC": "/no/compiler", "XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
