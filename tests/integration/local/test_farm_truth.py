"""The pipeline's result for each kind of the farm's proxies equals the farm's declared truth."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from proxypool.checks.check import Check, Reason, Verdict
from proxypool.checks.judge import judges
from proxypool.checks.probe import pipeline
from proxypool.config.settings import Settings
from proxypool.local.farm.kinds import KINDS, LEAKS, Spec
from proxypool.local.farm.server import LOOPBACK6, can_bind, serve_farm
from proxypool.network import loop
from proxypool.proxies.proxy import Anonymity, Protocol, Proxy

from tests.support.builders import NOW

KEY = b"the judge's key"
KIND_NAMES = [name for name, kind in KINDS.items() if not kind.ipv6 or can_bind(LOOPBACK6)]


def check_farm(folder: Path, specs: list[Spec], *, full: bool = True) -> list[Check]:
    """The pipeline's result, with short time limits, for each proxy of such a farm."""

    async def check_all() -> list[Check]:
        async with serve_farm(folder, specs, key=KEY) as (farm, ports):
            settings = Settings(judge_url=f"http://127.0.0.1:{ports[0]}/", judge_https_url=f"https://127.0.0.1:{ports[1]}/",
                             judge_ca_file=str(folder / "ca.pem"), allow_loopback=True, detect_protocols=True,
                             check_connect_seconds=4, check_stage_seconds=4, check_total_seconds=12)  # fmt: skip
            context = await judges.probe_judges(judges.build_context(settings, KEY))
            assert context is not None
            return await asyncio.gather(
                *(
                    pipeline.check(proxy_from_entry(entry), context, now=NOW, full=full, is_first=full)
                    for entry in farm.entries()
                )
            )

    return loop.run(check_all())


def proxy_from_entry(entry: dict[str, Any]) -> Proxy:
    return Proxy(Protocol(entry["protocol"]), entry["host"], entry["port"], entry["user"], entry["password"])


pytestmark = pytest.mark.xdist_group("farm")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Check]:
    """One proxy of each kind, all checked concurrently."""
    specs = [Spec(kind=KINDS[name], exit_ip=f"127.68.0.{i}", country="de") for i, name in enumerate(KIND_NAMES, 1)]
    return dict(zip(KIND_NAMES, check_farm(tmp_path_factory.mktemp("farm"), specs), strict=True))


@pytest.mark.parametrize("name", KIND_NAMES)
def test_the_result_of_each_kind_is_the_declared_truth(name: str, results: dict[str, Check]) -> None:
    """Inputs 32-37, 39-41, 43-45, 51, 52; cases 1, 2, 4, 6: verdict and reason are those of the kind."""
    truth, check = KINDS[name].truth, results[name]

    assert (check.reason and check.reason.value) == truth.reason
    assert check.verdict is (Verdict.PASSED if truth.status == "active" else Verdict.FAILED)
    assert check.tampered == truth.tampered
    if truth.anonymity:
        spec = Spec(kind=KINDS[name], exit_ip=f"127.68.0.{KIND_NAMES.index(name) + 1}", country="de")
        assert (check.anonymity, check.https) == (Anonymity(truth.anonymity), truth.https)
        assert check.exits
        assert set(check.exits) <= set(spec.exit_ips)


def test_all_exits_of_a_rotating_proxy_are_recorded(results: dict[str, Check]) -> None:
    """Input 45: a change of the exit IP is not an error."""
    spec = Spec(kind=KINDS["rotating"], exit_ip=f"127.68.0.{KIND_NAMES.index('rotating') + 1}", country="de")

    assert set(results["rotating"].exits) <= set(spec.exit_ips)
    assert len(results["rotating"].exits) > 1


def test_a_leak_in_any_header_is_detected(tmp_path: Path) -> None:
    """Input 42: our address in any header, standard or not."""
    specs = [
        Spec(kind=KINDS["leaking"], exit_ip=f"127.68.2.{i}", country="de", leak=leak) for i, leak in enumerate(LEAKS, 1)
    ]

    results = check_farm(tmp_path, specs)

    assert [check.anonymity for check in results] == [Anonymity.TRANSPARENT] * len(LEAKS)


def test_a_password_is_sent_to_its_proxy_only(tmp_path: Path) -> None:
    """Case 36: the judge does not receive Proxy-Authorization."""
    specs = [
        Spec(kind=KINDS[name], exit_ip=f"127.68.3.{i}", country="de")
        for i, name in enumerate(("password", "socks5-password"), 1)
    ]

    results = check_farm(tmp_path, specs)

    assert [(check.verdict, check.anonymity) for check in results] == [(Verdict.PASSED, Anonymity.ELITE)] * 2


def test_a_judge_aware_proxy_is_detected_by_a_full_check_only(tmp_path: Path) -> None:
    """Input 41: it is honest to the judge and injects elsewhere; only a page that it cannot recognise detects it."""
    spec = Spec(kind=KINDS["judge-aware"], exit_ip="127.68.4.1", country="de")

    (plain,), (full,) = check_farm(tmp_path, [spec], full=False), check_farm(tmp_path, [spec])

    assert (plain.reason, plain.tampered) == (None, False)
    assert (full.reason, full.tampered) == (Reason.TAMPERED, True)


def test_the_protocol_of_a_proxy_with_a_wrong_listing_is_detected(results: dict[str, Check]) -> None:
    """It closes the connection on an unknown protocol."""
    assert results["misfiled"].detected_protocol is Protocol.SOCKS5
