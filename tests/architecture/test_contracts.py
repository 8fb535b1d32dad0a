"""The house rules that no single module can keep: imports, sizes, start-up, wheel contents."""

import ast
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("specmemo_sim", "specmemo_gpu", "kernels/specmemo_kernels", "device_catalog")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
HEAVY = {"torch", "transformers", "triton", "matplotlib"}
MAX_FILE_LINES = 310
MAX_FUNCTION_LINES = 50


def python(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout


def test_no_simulator_module_loads_torch():
    """Importing every module of the simulator leaves torch and its company out of sys.modules."""
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in SOURCES
        if path.parts[len(ROOT.parts)] in ("specmemo_sim", "device_catalog")
    ]
    assert len(names) > 50
    code = f"import importlib, sys, json\nfor n in {names!r}: importlib.import_module(n)\n"
    loaded = json.loads(python(code + "print(json.dumps(sorted(sys.modules)))"))
    assert not HEAVY & {name.split(".")[0] for name in loaded}


def test_help_loads_neither_numpy_nor_pydantic():
    """The top-level help needs click alone, so that it starts at once."""
    code = (
        "import sys, contextlib, io\nfrom specmemo_sim.cli.main import run\n"
        "with contextlib.redirect_stdout(io.StringIO()): code = run(['--help'])\n"
        "import json; print(json.dumps([code, sorted(sys.modules)]))"
    )
    exit_code, loaded = json.loads(python(code))
    assert exit_code == 0
    assert not {"numpy", "scipy", "pydantic", "rich"} & set(loaded)


def test_imports_follow_the_layers():
    """import-linter keeps the one-way flow declared in pyproject.toml."""
    linter = Path(sys.executable).with_name("lint-imports")
    if not linter.exists():
        pytest.skip("import-linter is not installed beside this Python; install .[test]")
    done = subprocess.run([linter], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_stay_small_and_documented(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= MAX_FILE_LINES
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "a module says its job in its first line"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = (body[-1].end_lineno - body[0].lineno + 1) if body else 0
            assert lines <= MAX_FUNCTION_LINES, node.name


def test_kernels_folder_is_no_package():
    """A kernels/__init__.py would shadow the PyPI package of that name, which transformers uses."""
    assert not (ROOT / "kernels" / "__init__.py").exists()


def test_the_wheel_holds_code_data_and_licence(tmp_path):
    """Whoever installs the wheel has the catalogue, the class defaults and the type marker."""
    pytest.importorskip("hatchling", reason="hatchling builds the wheel; install .[test]")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        check=True,
        capture_output=True,
        cwd=ROOT,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for wanted in (
        "specmemo_sim/py.typed",
        "specmemo_sim/inputs/class_defaults.json",
        "device_catalog/devices/nvidia-titan-rtx.toml",
        "device_catalog/models/lmsys--vicuna-7b-v1.3.toml",
        "device_catalog/acceptance/medusa-vicuna-7b.toml",
        "device_catalog/efficiency.toml",
        "specmemo_kernels/__init__.py",
    ):
        assert wanted in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_no_file_tells_where_it_was_made():
    """No machine path stands in a tracked text."""
    suspicious = ("/work" + "/", "/tmp" + "/", "/root" + "/")
    for path in SOURCES + sorted((ROOT / "device_catalog").rglob("*.toml")):
        text = path.read_text(encoding="utf-8")
        assert not any(word in text for word in suspicious), path


def test_the_public_names_are_these_and_all_load():
    """Whoever adds or drops a public name does so here too."""
    import specmemo_sim

    assert set(specmemo_sim.__all__) == {
        "__version__", "Plan", "PlanRequest", "TokenTree", "Workload", "explain", "load_device",
        "load_devices", "load_model", "load_profile", "load_tree", "make_plan",
        "model_from_config", "plan_search", "read_plan", "write_plan",
    }  # fmt: skip
    for name in specmemo_sim.__all__:
        assert getattr(specmemo_sim, name) is not None
