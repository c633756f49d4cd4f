"""mlxcommctl's reports about RDMA with fake verbs: rails, and each reason why there is none."""

import json
import re
import tarfile

import pytest

from conftest import Process, completed, find_program, wait_until
from operations.test_rdma import fake_verbs, rdma_rails, start, verbs  # noqa: F401

# A device named after the loopback interface, as rdma_en2 is after en2.
OF_INTERFACE = "device rdma_127.0.0.1 "


def settings(verbs, more=""):
    return f'rdma {{ enabled: true library: "{verbs.library}" limits: APPLE {more} }}'


def await_finding(cluster, code):
    wait_until(lambda: code in cluster.findings(), f"doctor finds {code}")
    finding = cluster.findings()[code]
    assert finding["found"] and finding["expected"] and finding["remedy"], finding
    return finding


def test_a_rail_that_is_up_is_shown_with_its_device(cluster, verbs):
    c = start(cluster, verbs, 2, "APPLE")
    text = c.ctl("status", "-v")
    assert re.search(r"rdma device rdma_en1  1 of 10 queue pairs, 1 of 100 memory regions\n", text), text
    assert re.search(r"\n      rdma 127.0.0.1 rdma_en1 127.0.0.1 queue pair \d+ - \S.* up  UC  plain  out",
                     text), text
    assert text.endswith("health: all is well\n")
    rail = rdma_rails(c, 0)[0]
    assert (rail["device"], rail["service"]) == ("rdma_en1", "UC")
    found = c.findings()
    lacks = {code for code in found if "MC306" <= code <= "MC307" or "MC310" <= code <= "MC320"}
    assert not lacks - {"MC319"}, "but for what this user may lock"
    assert "rdma_en1 active, 1 of 10 queue pairs" in found["MC321"]["found"]


def test_a_cable_shows_its_rails(cluster, verbs):
    c = start(cluster, verbs, 2, "APPLE")
    cable, = json.loads(c.ctl("topology", "--json"))["cables"]
    assert [(rail["transport"], rail["state"]) for rail in cable["rails"]] == [("tcp", "up"), ("rdma", "up")]
    assert re.search(r"up  .*  \(tcp.*, rdma.*\)\n", c.ctl("topology"))


def test_bench_reports_the_rails_that_carried_the_bytes(cluster, verbs):
    c = start(cluster, verbs, 2, "APPLE")
    words = [find_program("mlxcommctl"), "bench", "-b", "1M", "-e", "4M", "-i", "3", "-w", "1",
             "--size", "2", "--job", "b"]
    other = Process([*words, "--rank", "1"], {"MLXCOMM_SOCKET": c.socket(1)})
    done = completed([*words, "--rank", "0", "--json", "--socket", c.socket(0)])
    assert other.finish() == 0 and done.returncode == 0, done.stderr
    for link in json.loads(done.stdout)["results"][-1]["links"]:
        rails = {rail["transport"]: rail["bytes_per_operation"] for rail in link["rails"]}
        assert set(rails) == {"rdma", "tcp"}
        assert sum(rails.values()) == pytest.approx(link["bytes_per_operation"])
        assert link["fraction_of_best"] <= 1.001


def test_rdma_is_not_reported_if_it_is_off(duo):
    assert "rdma" not in duo.ctl("status", "-v").lower() and "rdma" not in duo.ctl("topology").lower()
    text = duo.ctl("doctor", codes=(0, 1, 4))
    assert "MC31" not in text and "MC32" not in text, text
    assert duo.findings()["MC321"]["found"].startswith("off")


CASES = [
    ("MC306", OF_INTERFACE + "127.0.0.1\ndown rdma_127.0.0.1\n", "port 1 is down"),
    ("MC313", OF_INTERFACE + "::\n", "rdma_127.0.0.1 has no GID"),
    ("MC313", OF_INTERFACE + "fe80::347c:94ff:fecd:45c4\nipv4_gids_only 1\n", "from a GID without IPv4"),
    ("MC311", "\n", "lists no device"),
    ("MC314", "device rdma_en1 127.0.0.1\ncrash ibv_open_device\n", "by signal"),
    ("MC318", "device rdma_en1 127.0.0.1\nfail ibv_create_cq\n", "did not create a completion queue"),
    ("MC319", "device rdma_en1 127.0.0.1\nfail ibv_reg_mr\n", "did not register memory"),
    ("MC316", "device rdma_en1 127.0.0.1\nfail ibv_open_device\n", "cannot be opened"),
]


@pytest.mark.parametrize("code, control, found", CASES, ids=[f"{case[0]} {case[2]}" for case in CASES])
def test_doctor_and_status_report_why_there_is_no_rail(cluster, verbs, code, control, found):
    verbs.write(control)
    c = cluster(2, top_settings=settings(verbs))
    finding = await_finding(c, code)
    assert found in finding["found"], finding
    assert "rdma" in c.ctl("status", "-v") and "health: all is well" in c.ctl("status"), "TCP carries on"


def test_a_rail_is_made_once_the_device_has_an_ipv4_gid(cluster, verbs):
    """Why: a Mac's port gets its IPv4 address, and its device the GID, some time after the cable is plugged
    in."""
    gids = "fe80::347c:94ff:fecd:45c4,127.0.0.77\nipv4_gids_only 1\n"
    verbs.write(OF_INTERFACE + gids + "no_ipv4 rdma_127.0.0.1\n")
    c = cluster(2, top_settings=settings(verbs))
    finding = await_finding(c, "MC313")
    assert "ifconfig 127.0.0.1 inet 169.254.x.y/16 alias" in finding["remedy"]
    verbs.write(OF_INTERFACE + gids)
    wait_until(lambda: any(rail["state"] == "up" for rail in rdma_rails(c, 0)), "an RDMA rail is up")
    assert "127.0.0.77" in c.ctl("status", "-v")


def test_a_driver_that_hangs_is_reported(cluster, verbs):
    verbs.want("hang ibv_open_device\n")
    c = cluster(2, top_settings=settings(verbs))
    assert "does not answer" in await_finding(c, "MC314")["found"]
    verbs.want("")


def test_a_missing_library_is_reported(cluster, tmp_path):
    c = cluster(2, top_settings=f'rdma {{ enabled: true library: "{tmp_path}/none.so" }}')
    finding = await_finding(c, "MC310")
    assert "none.so" in finding["found"] and "enabled: false" in finding["remedy"]


def test_a_neighbour_without_rdma_is_reported(cluster, verbs):
    c = cluster(2, start=False, top_settings=settings(verbs))
    c.start_daemon(0)
    c.settings = ("", "", "")
    c.start_daemon(1)
    c.wait_linked()
    finding = await_finding(c, "MC317")
    assert "RDMA is off" in finding["found"] and "configuration of node-1" in finding["remedy"]


def test_encryption_is_shown(cluster, verbs):
    c = cluster(2, top_settings=settings(verbs), peer_settings="security: TLS")
    assert "security: PLAIN" in await_finding(c, "MC320")["remedy"]


def verdicts(text):
    return dict(re.findall(r"^    (\S+) +(worked|refused|hung|crashed)  ", text, re.MULTILINE))


def report(cluster, folder):
    output = folder / "report.tar.gz"
    shown = cluster.ctl("bugreport", "--rdma", "-o", str(output), cwd=folder)
    with tarfile.open(output) as archive:
        text = next(archive.extractfile(m).read().decode() for m in archive.getmembers()
                    if m.name.endswith("/rdma.txt"))
    assert shown.startswith(text)
    return text


def test_a_report_checks_what_is_assumed_about_devices(cluster, fake_verbs, tmp_path):
    """Its trials break the rules of Apple's devices, which the fake reports; here that is not a fault."""
    c = start(cluster, fake_verbs, 2, "APPLE")
    text = report(c, tmp_path)
    assert verdicts(text) == {
        "describe": "worked", "pair-uc": "worked", "pair-rc": "refused", "region-local": "refused",
        "region-remote": "worked", "channel": "worked", "depth": "worked", "receives-after": "worked",
        "receives-before": "refused", "message": "worked", "message-frame": "worked",
        "message-short": "refused", "destroy": "worked",
        "region-large": "worked", "region-shared": "worked", "region-boundary": "worked",
        "pairs": "worked", "regions": "worked"}, text
    assert "max_qp 11" in text and "10 queue pairs at once" in text and "100 at once" in text
    assert re.search(r"receives_after_ready +true +assumed for Apple's devices", text), text
    assert re.search(r"library +\S+libfake_verbs.so +configured", text), text
    assert re.search(r"rdma 127.0.0.1 .*rdma_en1 .*  up  .*UC  .*out ", text), text
    # The daemon's own rails are not affected.
    wait_until(lambda: all(rail["state"] == "up" for rail in rdma_rails(c, 0)), "the rail is up")


def test_a_report_outlives_a_driver_that_hangs_and_one_that_crashes(cluster, fake_verbs, tmp_path):
    fake_verbs.want("hang ibv_create_comp_channel\ncrash ibv_modify_qp\n")
    c = cluster(1, top_settings=settings(fake_verbs, "completion_events: false"))
    text = report(c, tmp_path)
    found = verdicts(text)
    assert found["channel"] == "hung" and found["pair-uc"] == found["message"] == "crashed", text
    assert found["describe"] == found["depth"] == found["regions"] == "worked", text
