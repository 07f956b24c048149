"""nccl.topology: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, snapshot


def island(links, visible="0,1"):
    return snapshot(settings={"parallel.tp": 2, "env.CUDA_VISIBLE_DEVICES": visible}, links=links)


LINKS = {(0, 1): "NV4", (0, 2): "SYS", (1, 2): "SYS"}


def test_cards_of_another_socket_are_named():
    finding = found("nccl.topology", island(LINKS, "0,2"), island(LINKS, "0,1"))
    assert finding.summary == "the GPUs of one group are linked by SYS at worst, NV when tuned"


def test_a_closer_pair_on_the_same_host_is_pointed_at():
    assert "a closer set of cards exists" in found("nccl.topology", island(LINKS, "0,2")).summary


def test_the_tuned_links_are_no_change():
    assert found("nccl.topology", island(LINKS, "0,2"), island(LINKS, "0,2")) is None


def test_one_root_complex_is_as_good_as_it_gets():
    assert found("nccl.topology", island({(0, 1): "PHB"})) is None


def test_cards_given_to_a_container_count_as_chosen():
    def container(ids):
        return snapshot(settings={"parallel.tp": 2, "env.NVIDIA_VISIBLE_DEVICES": ids}, links=LINKS)

    assert found("nccl.topology", container("1,2"), container("0,1"))
