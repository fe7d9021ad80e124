"""The pipeline finds of every kind of the farm's proxies what the farm says is true, and the farm really does it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from proxypool.checks import direct, pipeline
from proxypool.checks.check import Check, Reason, Verdict
from proxypool.local.farm import LOOPBACK6, can_bind, growing
from proxypool.local.farm_kinds import KINDS, LEAKS, Spec
from proxypool.network import loop
from proxypool.proxies.proxy import Anonymity, Protocol, Proxy
from proxypool.settings import Settings

from tests.support.builders import NOW

KEY = b"the judge's key"
TOLD = [name for name, kind in KINDS.items() if not kind.ipv6 or can_bind(LOOPBACK6)]


def checked(folder: Path, specs: list[Spec], *, full: bool = True) -> list[Check]:
    """What the pipeline, with short limits, says of each proxy of such a farm."""

    async def check_all() -> list[Check]:
        async with growing(folder, specs, key=KEY) as (farm, ports):
            known = Settings(judge_url=f"http://127.0.0.1:{ports[0]}/", judge_https_url=f"https://127.0.0.1:{ports[1]}/",
                             judge_ca_file=str(folder / "ca.pem"), allow_loopback=True, detect_protocols=True,
                             check_connect_seconds=4, check_stage_seconds=4, check_total_seconds=12)  # fmt: skip
            bench = await direct.introduced(direct.bench(known, KEY))
            assert bench is not None
            return await asyncio.gather(
                *(pipeline.check(as_listed(entry), bench, now=NOW, full=full, first=full) for entry in farm.entries())
            )

    return loop.run(check_all())


def as_listed(entry: dict[str, Any]) -> Proxy:
    return Proxy(Protocol(entry["protocol"]), entry["host"], entry["port"], entry["user"], entry["password"])


pytestmark = pytest.mark.xdist_group("farm")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Check]:
    """One of each kind, checked at once."""
    specs = [Spec(kind=KINDS[name], exit_ip=f"127.68.0.{i}", country="de") for i, name in enumerate(TOLD, 1)]
    return dict(zip(TOLD, checked(tmp_path_factory.mktemp("farm"), specs), strict=True))


@pytest.mark.parametrize("name", TOLD)
def test_a_check_finds_the_truth_of_each_kind(name: str, found: dict[str, Check]) -> None:
    """Inputs 32-37, 39-41, 43-45, 51, 52; cases 1, 2, 4, 6: nothing ever passes for another reason than it should."""
    truth, check = KINDS[name].truth, found[name]

    assert (check.reason and check.reason.value) == truth.reason
    assert check.verdict is (Verdict.PASSED if truth.status == "active" else Verdict.FAILED)
    assert check.tampered == truth.tampered
    if truth.anonymity:
        spec = Spec(kind=KINDS[name], exit_ip=f"127.68.0.{TOLD.index(name) + 1}", country="de")
        assert (check.anonymity, check.https) == (Anonymity(truth.anonymity), truth.https)
        assert check.exits
        assert set(check.exits) <= set(spec.exit_ips)


def test_a_rotating_proxy_is_remembered_by_all_exits_that_it_showed(found: dict[str, Check]) -> None:
    """Input 45: another exit than last time is no error."""
    spec = Spec(kind=KINDS["rotating"], exit_ip=f"127.68.0.{TOLD.index('rotating') + 1}", country="de")

    assert set(found["rotating"].exits) <= set(spec.exit_ips)
    assert len(found["rotating"].exits) > 1


def test_a_leak_in_any_header_is_found(tmp_path: Path) -> None:
    """Input 42: our address in any header, known or invented."""
    specs = [
        Spec(kind=KINDS["leaking"], exit_ip=f"127.68.2.{i}", country="de", leak=leak) for i, leak in enumerate(LEAKS, 1)
    ]

    found = checked(tmp_path, specs)

    assert [check.anonymity for check in found] == [Anonymity.TRANSPARENT] * len(LEAKS)


def test_a_password_goes_to_the_proxy_that_it_belongs_to_and_no_further(tmp_path: Path) -> None:
    """Case 36: the judge, a plain target, sees no Proxy-Authorization."""
    specs = [
        Spec(kind=KINDS[name], exit_ip=f"127.68.3.{i}", country="de")
        for i, name in enumerate(("password", "socks5-password"), 1)
    ]

    found = checked(tmp_path, specs)

    assert [(check.verdict, check.anonymity) for check in found] == [(Verdict.PASSED, Anonymity.ELITE)] * 2


def test_a_judge_aware_proxy_passes_as_long_as_only_the_judge_is_asked(tmp_path: Path) -> None:
    """Input 41: honest to the judge, an advert everywhere else; only a page that it does not know shows it."""
    spec = Spec(kind=KINDS["judge-aware"], exit_ip="127.68.4.1", country="de")

    (plain,), (full,) = checked(tmp_path, [spec], full=False), checked(tmp_path, [spec])

    assert (plain.reason, plain.tampered) == (None, False)
    assert (full.reason, full.tampered) == (Reason.TAMPERED, True)


def test_a_proxy_of_another_protocol_than_listed_is_told_by_what_it_speaks(found: dict[str, Check]) -> None:
    """It ends the connection at words that are not its own."""
    assert found["misfiled"].spoken is Protocol.SOCKS5
