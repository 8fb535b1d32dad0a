"""Plans of known requests stay as they were, unless somebody wants the change and reads it."""

import json

import pytest

from golden.golden_plans import FOLDER, REQUESTS, golden_text


@pytest.mark.parametrize("name", REQUESTS)
def test_a_plan_is_the_golden_one(name):
    """Numbers may differ in the last digits of a float; ``golden_plans.py`` rewrites the files."""
    kept = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    compare(json.loads(golden_text(name)), kept, name)


def compare(new, kept, where):
    if isinstance(kept, dict):
        assert list(new) == list(kept), where
        for key in kept:
            compare(new[key], kept[key], f"{where}.{key}")
    elif isinstance(kept, list):
        assert len(new) == len(kept), where
        for number, (left, right) in enumerate(zip(new, kept, strict=True)):
            compare(left, right, f"{where}[{number}]")
    elif isinstance(kept, float):
        assert new == pytest.approx(kept, rel=1e-9), where
    else:
        assert new == kept, where
