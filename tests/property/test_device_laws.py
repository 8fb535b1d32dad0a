"""Laws of a device's memory: overrides are exact, reserves are small, units agree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmemo_sim.errors import InputError
from specmemo_sim.inputs.catalog import device_ids, load_device
from specmemo_sim.inputs.device import DeviceSpec, device_from_dict, reserve_bytes, with_memory

MIB, GIB = 2**20, 2**30
DEVICES = st.sampled_from(device_ids()).map(load_device)


@given(device=DEVICES, part=st.floats(0.001, 1.0))
def test_memory_given_by_the_user_is_taken_to_the_byte(device, part):
    wanted = max(MIB, int(device.memory.capacity * part))
    changed = with_memory(device, wanted)
    assert changed.usable_bytes == wanted
    assert changed.usable_basis == "given by the user"


@given(device=DEVICES, first=st.integers(MIB, 4 * GIB), second=st.integers(MIB, 4 * GIB))
def test_the_last_override_counts_and_nothing_but_memory_changes(device, first, second):
    changed = with_memory(with_memory(device, first), second)
    assert changed == with_memory(device, second)
    assert changed.model_dump(exclude={"memory"}) == device.model_dump(exclude={"memory"})
    assert changed.memory.bandwidth == device.memory.bandwidth


@given(device=DEVICES, excess=st.integers(1, 2**40))
def test_more_than_the_capacity_is_refused_for_cards_and_exact_for_shared_memory(device, excess):
    wanted = device.memory.capacity + excess
    if device.memory.shared:
        assert with_memory(device, wanted).usable_bytes == wanted
    else:
        with pytest.raises(InputError, match="more than the"):
            with_memory(device, wanted)


@given(device=DEVICES)
def test_a_device_survives_its_own_dump(device):
    assert DeviceSpec.model_validate(device.model_dump()) == device
    assert DeviceSpec.model_validate_json(device.model_dump_json()) == device
    assert hash(device) == hash(device.replace())


@given(size=st.integers(2**20, 2**50), more=st.integers(0, 2**40))
def test_the_reserve_grows_with_the_card_but_never_faster_than_it(size, more):
    assert 0 < reserve_bytes(size) <= 896 * MIB
    assert reserve_bytes(size) <= reserve_bytes(size + more) <= reserve_bytes(size) + more + 1


@given(mib=st.integers(1024, 2**20), unit=st.sampled_from([("MiB", 1), ("KiB", 1024)]))
def test_a_size_means_the_same_in_every_unit(mib, unit):
    def usable(text):
        data = load_device("nvidia-l4").model_dump()
        data["memory"] = {"capacity": text, "source": "unverified"}
        return device_from_dict(data | {"sources": {}, **_plain(data)}, "x").usable_bytes

    name, factor = unit
    assert usable(f"{mib * factor} {name}") == usable(mib * MIB)


def _plain(data):
    """The sections without their sources, so that none needs to be defined."""
    return {
        "compute": {"source": "unverified"},
        "chip": {"arch": data["chip"]["arch"], "source": "unverified"},
        "link": None,
        "board": None,
    }
