"""The bundled class defaults are those of the pinned transformers release."""

import pytest
import transformers

from oracle.extract_class_defaults import DATA_FILE, rendered

PINNED = "5.24"


@pytest.mark.skipif(
    not transformers.__version__.startswith(PINNED + "."),
    reason=f"class defaults were extracted from transformers {PINNED}",
)
def test_the_data_file_is_what_an_extraction_gives_now():
    """``python tests/oracle/extract_class_defaults.py`` refreshes it."""
    assert DATA_FILE.read_text(encoding="utf-8") == rendered()
