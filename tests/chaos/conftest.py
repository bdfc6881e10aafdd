import sys
from pathlib import Path

# What tests share is imported as `tests.chaos...`, also by processes that are not pytest.
ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)
