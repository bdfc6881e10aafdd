"""The registry: what is in it, which version begins, and what it refuses."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from perdure import Activity, activity, orchestration
from perdure.authoring.orchestration import Orchestration
from perdure.authoring.registry import Registry
from perdure.client.acting.starting import check_orchestration
from perdure.errors import DefinitionError, NotRegisteredError, UsageError

SHOP = """
from perdure import orchestration

@orchestration
async def checkout() -> None: ...
"""


def checkout(version: str) -> Orchestration[[], str]:
    """Return an orchestration of that version that tells it."""

    @orchestration(name="checkout", version=version)
    async def own() -> str:
        return version

    return own


@orchestration
async def shipping() -> None: ...


@activity
async def charge() -> None: ...


def test_versions_of_one_name_stand_side_by_side_in_semver_order() -> None:
    given = ["1.10.0", "1.2.0", "2.0.0-rc.1", "1.9.0"]
    registry = Registry([*(checkout(version) for version in given), shipping, charge])

    assert registry.names() == ["checkout", "shipping"]
    assert registry.versions("checkout") == ["1.2.0", "1.9.0", "1.10.0", "2.0.0-rc.1"]
    assert registry.versions("nothing") == []
    assert registry.orchestration("checkout", "1.9.0").version == "1.9.0"


def test_the_latest_version_begins_unless_an_exact_one_is_preferred() -> None:
    registry = Registry([checkout("1.0.0"), checkout("1.10.0"), checkout("1.9.0")])
    assert registry.preferred("checkout") == "1.10.0"

    registry.prefer("checkout", "1.9.0")
    assert registry.preferred("checkout") == "1.9.0"

    registry.prefer("checkout", None)
    assert registry.preferred("checkout") == "1.10.0"
    assert registry.preferred("nothing") is None


def test_preferring_what_is_not_there_is_refused() -> None:
    registry = Registry([checkout("1.0.0")])

    with pytest.raises(NotRegisteredError, match=r"checkout@2\.0\.0"):
        registry.prefer("checkout", "2.0.0")
    with pytest.raises(NotRegisteredError, match="'nothing'"):
        registry.prefer("nothing", None)


def test_two_definitions_of_one_name_and_version_are_refused_with_both_places() -> None:
    with pytest.raises(DefinitionError) as caught:
        Registry([checkout("1.0.0"), checkout("1.0.0")])

    text = str(caught.value)
    assert "two orchestration definitions are named 'checkout 1.0.0'" in text
    assert text.count("test_registry.py:") == 2
    assert "give one another name or version" in text


def test_merging_gives_both_and_changes_neither() -> None:
    old, new = Registry([checkout("1.0.0"), charge]), Registry([checkout("2.0.0"), shipping])
    old.prefer("checkout", "1.0.0")

    both = old.merge(new)

    assert both.versions("checkout") == ["1.0.0", "2.0.0"]
    assert both.preferred("checkout") == "1.0.0"
    assert list(both.activities) == ["charge"]
    assert old.versions("checkout") == ["1.0.0"]
    assert new.preferred("checkout") == "2.0.0"


def test_merging_refuses_duplicates_and_preferences_that_differ() -> None:
    first = Registry([checkout("1.0.0"), checkout("2.0.0")])
    first.prefer("checkout", "1.0.0")
    second = Registry(first)
    second.prefer("checkout", "2.0.0")

    with pytest.raises(DefinitionError, match=r"prefer different versions .* 1\.0\.0 and 2\.0\.0"):
        first.merge(second)
    with pytest.raises(DefinitionError, match="two orchestration definitions"):
        first.merge(Registry([checkout("1.0.0")]))


def test_a_registry_stands_for_its_definitions_wherever_those_are_handed_over() -> None:
    package = Registry([checkout("1.0.0"), charge.with_options(tag="gpu")])

    alone, among = Registry(package), Registry([shipping, package, package])

    assert alone.versions("checkout") == among.versions("checkout") == ["1.0.0"]
    assert alone.tags_of("charge") == among.tags_of("charge") == ["gpu"]
    assert among.names() == ["checkout", "shipping"]


def test_one_definition_or_a_module_needs_no_list() -> None:
    module = types.ModuleType("shop")
    module.__dict__.update(charge=charge, checkout=checkout("1.0.0"))

    assert list(Registry(charge).activities) == [charge.name]
    assert Registry(checkout("1.0.0")).names() == ["checkout"]
    assert Registry(module).names() == ["checkout"]


def test_a_worker_changes_the_policy_of_its_own_copy_only() -> None:
    handed_over = Registry([checkout("1.0.0"), checkout("2.0.0")])
    copy = Registry(handed_over)

    copy.prefer("checkout", "1.0.0")

    assert handed_over.preferred("checkout") == "2.0.0"


def test_one_file_has_one_digest_however_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a program beside it, through a link to its folder, and by a worker that is elsewhere."""
    (tmp_path / "real").mkdir()
    file = tmp_path / "real" / "once_of_this_test.py"
    file.write_text(SHOP)
    program = tmp_path / "real" / "program.py"
    program.write_text("import once_of_this_test")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    found = set()
    for folder, main in (("real", program), ("link", program), ("real", None)):
        with monkeypatch.context() as patch:
            patch.syspath_prepend(str(tmp_path / folder))
            patch.delitem(sys.modules, "once_of_this_test", raising=False)
            if main is not None:
                started = types.ModuleType("__main__")
                started.__file__ = str(main)
                patch.setitem(sys.modules, "__main__", started)
            shop = importlib.import_module("once_of_this_test")
            found.add(Registry([shop]).code_of("checkout", "1.0.0"))

    assert len(found) == 1


def test_files_are_read_once_for_all_registries_until_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "shop_of_this_test.py"
    file.write_text(SHOP)
    monkeypatch.syspath_prepend(str(tmp_path))
    shop = importlib.import_module("shop_of_this_test")
    read: list[str] = []
    read_bytes = Path.read_bytes

    def reading(path: Path) -> bytes:
        read.append(path.name)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", reading)
    codes = [Registry([shop]).code_of("checkout", "1.0.0") for _ in range(2)]
    assert (codes[0], read) == (codes[1], [file.name])

    file.write_text(f"{SHOP}\n")
    assert Registry([shop]).code_of("checkout", "1.0.0") != codes[0]
    assert read == [file.name] * 2


def test_where_loaded_modules_are_is_asked_once_for_all_registries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be thousands, and a program may start many engines."""
    (tmp_path / "lone_of_this_test.py").write_text(SHOP)
    monkeypatch.syspath_prepend(str(tmp_path))
    shop = importlib.import_module("lone_of_this_test")
    code = Registry([shop]).code_of("checkout", "1.0.0")
    asked: list[str] = []
    realpath = os.path.realpath

    def asking(path: str) -> str:
        asked.append(path)
        return realpath(path)

    monkeypatch.setattr(os.path, "realpath", asking)

    assert (Registry([shop]).code_of("checkout", "1.0.0"), asked) == (code, [])


def test_code_is_found_where_a_release_was_switched_and_the_old_one_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program has loaded its modules through a link that leads to another folder by now."""
    for release in ("one", "two"):
        (tmp_path / release).mkdir()
        (tmp_path / release / "switched_of_this_test.py").write_text(f"{SHOP}\n# {release}")
    current = tmp_path / "current"
    current.symlink_to(tmp_path / "one")
    monkeypatch.syspath_prepend(str(current))
    shop = importlib.import_module("switched_of_this_test")
    Registry([shop]).code_of("checkout", "1.0.0")

    current.unlink()
    current.symlink_to(tmp_path / "two")
    shutil.rmtree(tmp_path / "one")

    assert Registry([shop]).code_of("checkout", "1.0.0")


def test_one_code_may_serve_two_versions() -> None:
    code = checkout("2.0.0")
    registry = Registry([code, code.with_options(version="1.0.0")])

    assert registry.versions("checkout") == ["1.0.0", "2.0.0"]


@pytest.mark.parametrize("kind", ["activity", "orchestration"])
def test_reserved_and_empty_names_are_refused(kind: str) -> None:
    async def fn() -> None: ...

    make: Any = activity if kind == "activity" else orchestration
    known: Any = Activity if kind == "activity" else Orchestration
    with pytest.raises(DefinitionError, match=rf"are reserved: give {kind} 'perdure\.send'"):
        make(name="perdure.send")(fn)
    with pytest.raises(DefinitionError, match=rf"are reserved: give {kind} 'perdure\.send'"):
        known.named("perdure.send", int)
    with pytest.raises(Exception, match="has 0 bytes"):
        make(name="")(fn)
    with pytest.raises(Exception, match="has 0 bytes"):
        known.named("", int)


def test_definitions_are_printed_as_what_they_are() -> None:
    assert repr(charge) == "<activity charge>"
    assert repr(checkout("1.2.0")) == "<orchestration checkout 1.2.0>"
    assert repr(Orchestration.named("checkout", int)) == "<orchestration checkout>"
    with pytest.raises(UsageError, match=r"^<activity charge> is not an orchestration"):
        check_orchestration("start", charge)


@pytest.mark.parametrize("version", ["1", "1.0", "v1.0.0", "", "1.0.0-01", "1.0.0-a..b", None])
def test_a_version_that_is_not_semantic_is_refused_where_it_is_written(version: Any) -> None:
    with pytest.raises(DefinitionError, match="is not a semantic version"):
        checkout(version)
    with pytest.raises(DefinitionError, match="is not a semantic version"):
        checkout("1.0.0").with_options(version=version)


def test_what_is_known_by_name_only_is_refused_except_in_a_module() -> None:
    module = types.ModuleType("shop")
    module.remote = Activity.named("charge", int)  # type: ignore[attr-defined]
    module.shipping = shipping  # type: ignore[attr-defined]

    assert list(Registry([module]).orchestrations) == [("shipping", "1.0.0")]
    with pytest.raises(DefinitionError, match="known here by name only"):
        Registry([Activity.named("charge", int)])
    with pytest.raises(DefinitionError, match="known here by name only"):
        Registry([Orchestration.named("checkout", int)])


def test_what_is_no_definition_is_refused_and_named() -> None:
    with pytest.raises(DefinitionError, match="hand over modules, registries, functions"):
        Registry(["checkout"])  # type: ignore[list-item]
