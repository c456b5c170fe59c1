"""The build hook: compiles the C sources into a library of the wheel, or of the source tree that is installed editably.

Without a compiler it warns and the wheel is pure: podsim compiles the library on first need, or says what to install.
"""

from __future__ import annotations

import importlib.util
import platform
import sys
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    """Adds the library to a wheel and tags the wheel with its platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say where the library goes."""
        package = Path(self.root, "src", "podsim")
        c_compiler = _load_module(package / "c_compiler.py")
        name = c_compiler.library_name(package)
        self.aside = tempfile.TemporaryDirectory(prefix="podsim-build-")
        folder = package if version == "editable" else Path(self.aside.name)
        try:
            if not (folder / name).exists():
                c_compiler.compile_library(package, folder / name)
        except (c_compiler.CompileError, OSError) as problem:
            self.app.display_warning(f"podsim is built without its C library: {problem}")
            return
        if version == "editable":
            _remove_others(package, name)
        else:
            build_data["force_include"][str(folder / name)] = f"podsim/{name}"
        # of a Python for two architectures only this one was compiled for
        system = sysconfig.get_platform().replace("universal2", platform.machine())
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{system.replace('-', '_').replace('.', '_')}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder that the library was compiled in."""
        self.aside.cleanup()


def _load_module(path: Path) -> ModuleType:
    """The module in a file, without the package around it, which needs numpy."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _remove_others(package: Path, name: str) -> None:
    """Remove libraries of earlier sources."""
    for path in package.glob("_native-*.so"):
        if path.name != name:
            path.unlink(missing_ok=True)
