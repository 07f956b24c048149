"""Which cards are the engine's: the driver's numbers, CUDA's numbers and ids are three things."""

from __future__ import annotations

import json
from dataclasses import replace

from dflash_doctor.model import Gap, Snapshot
from dflash_doctor.parsers import gpu
from dflash_doctor.rules.own_cards import own_cards
from tests.rules.build import card, found, snapshot


def four(**settings):
    """Three A6000 and a T4; the driver's numbers follow neither bus nor speed."""
    rows = [
        card(0, name="NVIDIA RTX A6000", pci_bus__id="00000000:81:00.0", uuid="GPU-a3"),
        card(1, name="NVIDIA T4", pci_bus__id="00000000:04:00.0", uuid="GPU-a0"),
        card(2, name="NVIDIA RTX A6000", pci_bus__id="00000000:05:00.0", uuid="GPU-a1"),
        card(3, name="NVIDIA RTX A6000", pci_bus__id="00000000:80:00.0", uuid="GPU-a2"),
    ]
    return snapshot(settings=settings, readings=rows)


VISIBLE = "env.CUDA_VISIBLE_DEVICES"


def test_in_bus_order_the_number_is_the_place_on_the_bus():
    by_bus = {"env.CUDA_DEVICE_ORDER": "PCI_BUS_ID", "parallel.tp": 2}
    assert own_cards(four(**{VISIBLE: "0,3"}, **by_bus)) == (1, 0)
    assert own_cards(four(**{VISIBLE: "1,2"}, **by_bus)) == (2, 3)


def test_among_unequal_cards_the_fastest_comes_first_and_nobody_knows_which_that_is():
    assert own_cards(four(**{VISIBLE: "0,1", "parallel.tp": 2})) is None


def test_ids_and_their_beginnings_are_found_anywhere():
    assert own_cards(four(**{VISIBLE: "GPU-a2,GPU-a1", "parallel.tp": 2})) == (3, 2)
    assert own_cards(four(**{VISIBLE: "GPU-a", "parallel.tp": 1})) is None  # of four cards


def test_equal_cards_stand_in_the_order_of_the_bus():
    rows = [card(0, pci_bus__id="00000000:C1:00.0"), card(1, pci_bus__id="00000000:41:00.0")]
    assert own_cards(snapshot(settings={VISIBLE: "0", "parallel.tp": 1}, readings=rows)) == (1,)


def test_who_holds_memory_is_believed_before_any_number():
    rows = four(**{VISIBLE: "0", "parallel.tp": 1}).readings
    held = [{"pid": 7, "name": "VLLM::EngineCore", "used_memory": 43292}]
    rows = [replace(r, values={**r.values, "processes": held if r.index == 3 else []}) for r in rows]
    assert own_cards(snapshot(settings={VISIBLE: "0", "parallel.tp": 1}, readings=rows)) == (3,)


def test_without_readings_the_numbers_are_all_there_is():
    assert own_cards(snapshot(settings={VISIBLE: "2,3", "parallel.tp": 2})) == (2, 3)
    assert own_cards(snapshot(engine="sglang", settings={"parallel.tp": 2, "parallel.base_gpu_id": 4})) == (4, 5)


def test_a_card_of_another_kind_that_nobody_uses_paces_nothing():
    host = four(**{VISIBLE: "1,2", "env.CUDA_DEVICE_ORDER": "PCI_BUS_ID", "parallel.tp": 2})
    assert found("parallelism.unequal_gpus", host) is None
    both = four(**{VISIBLE: "0,1", "env.CUDA_DEVICE_ORDER": "PCI_BUS_ID", "parallel.tp": 2})
    assert "NVIDIA T4" in found("parallelism.unequal_gpus", both).summary


def test_a_lost_card_has_no_name_and_makes_no_mixture():
    why = {"error": "GPU is lost"}
    cards = [{"index": 0, "name": "NVIDIA RTX A6000"}, {"index": 1, "name": why, "uuid": why}]
    text = json.dumps({"samples": [{"t": 1, "load": True, "gpus": cards}]})
    host = Snapshot(name="host", readings=gpu.parse(text, "gpu.json").readings)
    assert isinstance(host.readings[1].values["name"], Gap)
    assert host.gpu_names() == ("NVIDIA RTX A6000",)


def test_a_container_is_given_cards_by_the_drivers_numbers_and_counts_them_from_nought():
    given = {"env.NVIDIA_VISIBLE_DEVICES": "1,2", "parallel.tp": 2}
    rows = [card(i) for i in range(4)]
    assert own_cards(snapshot(settings=given, readings=rows)) == (1, 2)
    assert own_cards(snapshot(settings=given | {VISIBLE: "1", "parallel.tp": 1}, readings=rows)) == (2,)
    # seen from inside, where only the two given ones are there
    assert own_cards(snapshot(settings=given, readings=rows[:2])) == (0, 1)
