"""attention.library_mismatch: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, signal, snapshot


def test_a_library_that_hides_the_one_that_was_meant_is_named():
    error = signal("unknown", "ModuleNotFoundError: No module named 'flash_attn.ops'", "ERROR")
    now = snapshot(packages={"flash-attn-4": "4.0.0b12", "vllm": "0.20.1"}, signals=[error], served=False)
    finding = found("attention.library_mismatch", now)
    assert finding.summary == (
        "attention kernel library: flash-attn-4 4.0.0b12 is installed where FlashAttention 2 or 3 is meant; "
        "the server does not start"
    )
    assert "flash-attn<3" in finding.next_steps[0]


def test_a_changed_version_of_the_library_is_named():
    now, was = snapshot(packages={"flashinfer-python": "0.6.2"}), snapshot(packages={"flashinfer-python": "0.5.3"})
    finding = found("attention.library_mismatch", now, was)
    assert finding.summary == "attention kernel library: flashinfer-python: 0.5.3 -> 0.6.2"
    assert finding.next_steps == ("pip install 'flashinfer-python==0.5.3'",)


def test_a_library_that_came_with_a_new_engine_is_not_the_first_suspect():
    now = snapshot(packages={"flashinfer-python": "0.6.2"}, version="0.28.0")
    was = snapshot(packages={"flashinfer-python": "0.5.3"}, version="0.27.1")
    assert found("attention.library_mismatch", now, was).confidence < 0.5


def test_the_same_packages_are_no_mismatch():
    same = snapshot(packages={"flashinfer-python": "0.6.2", "flash-attn": "2.8.3"})
    assert found("attention.library_mismatch", same, same) is None


def generation(number, torch, **more):
    settings = {"attention.backend": "flash_attn", "attention.fa_version": number}
    return snapshot(version="0.20.1", packages={"torch": torch}, settings=settings, **more)


def test_kernels_of_an_older_generation_that_nobody_asked_for_are_put_down_to_the_package_that_changed():
    finding = found("attention.library_mismatch", generation(2, "2.12.0"), generation(3, "2.11.0"))
    assert "attention.fa_version: 3 -> 2 with the same engine, and nobody asked for it" in finding.summary
    assert finding.confidence > 0.7
    noted = generation(2, "2.11.0", host={"note": "ImportError: _vllm_fa3_C.abi3.so: undefined symbol: aoti_x"})
    assert found("attention.library_mismatch", noted, generation(3, "2.11.0")).evidence[0].source == "capture.yaml"
