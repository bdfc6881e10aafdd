"""What a mutant is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Mutant:
    """One way to break the code."""

    name: str
    breaks: str
    """What no longer holds, for people."""
    file: str
    """Inside the package. A pattern stands for the last file that matches: of migrations, the one
    that counts."""
    find: str
    """What is there, exactly once."""
    replace: str
    tests: tuple[str, ...]
    """What must notice it, the quickest first."""
    may_hang: bool = False
    """Whether a test that does not end has noticed it."""

    def file_in(self, package: Path) -> Path:
        """Return the file to change, in a copy of the package or where it is."""
        return max(package.glob(self.file))

    def applied_to(self, text: str) -> str:
        """Return the text of its file with the change."""
        count = text.count(self.find)
        if count != 1:
            raise ValueError(f"{self.name}: {self.find!r} is {count} times in {self.file}")
        return text.replace(self.find, self.replace)
