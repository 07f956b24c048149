from __future__ import annotations

from dflash_doctor.report import pages

PAGE = """The GPU's clock is lower under load than it should be.

    ## What it sees
    The median clock under load is below the baseline's, and the driver gives a reason. It is a long line that goes on.

    - heat
    - power

    ## When it is wrong
    An idle GPU clocks down by design.
    """


def test_a_page_has_its_cause_its_fault_and_its_sections():
    assert pages.page(PAGE, cause="gpu.clock_throttle") == (
        "gpu.clock_throttle\n"
        "The GPU's clock is lower under load than it should be.\n"
        "\n"
        "What it sees\n"
        "  The median clock under load is below the baseline's, and the driver gives a\n"
        "  reason. It is a long line that goes on.\n"
        "\n"
        "  - heat\n"
        "  - power\n"
        "\n"
        "When it is wrong\n"
        "  An idle GPU clocks down by design.\n"
    )


def test_a_page_fits_its_width():
    assert max(map(len, pages.page(PAGE, width=40).splitlines())) <= 40


def test_colour_is_only_added_where_it_is_wanted():
    assert "\x1b" in pages.page(PAGE, color=True) and "\x1b" not in pages.page(PAGE)


def test_the_list_of_causes_has_one_line_each_and_families_apart():
    listed = pages.contents({"gpu.clock_throttle": PAGE, "gpu.power_cap": "A limit.", "kv.preemption": "Evicted."})
    assert listed.splitlines()[-2:] == ["", "kv.preemption       Evicted."]
    assert listed.startswith("gpu.clock_throttle  The GPU's clock is lower")


def test_an_empty_page_is_empty():
    assert pages.page("") == ""
    assert pages.contents({}) == ""
