"""Every bundled device: loads, names its sources, lies in plausible ranges."""

import re

import pytest

import device_catalog
from specmemo_sim.inputs.catalog import device_ids, load_device
from specmemo_sim.inputs.device import UNVERIFIED, DeviceKind
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.latency.efficiency import efficiency_of

GIB = 2**30
IDS = device_ids()


def test_the_catalogue_holds_a_hundred_devices_of_every_kind():
    assert len(IDS) >= 100
    assert {load_device(device_id).kind for device_id in IDS} == set(DeviceKind)


def test_every_file_of_the_folder_is_a_device():
    assert {path.name for path in device_catalog.DEVICES.iterdir()} == {f"{i}.toml" for i in IDS}


@pytest.mark.parametrize("device_id", IDS)
def test_the_id_is_the_file_name(device_id):
    assert load_device(device_id).id == device_id


@pytest.mark.parametrize("device_id", IDS)
def test_every_defined_source_is_used(device_id):
    """That every used one is defined, loading has checked."""
    device = load_device(device_id)
    used = {key for _, key in device.source_keys()} - {UNVERIFIED}
    assert used == set(device.sources)


@pytest.mark.parametrize("device_id", IDS)
def test_every_total_names_its_source(device_id):
    memory = load_device(device_id).memory
    for name in ("reported", "visible"):
        assert (getattr(memory, name) is None) == (getattr(memory, f"{name}_source") is None)


@pytest.mark.parametrize("device_id", IDS)
def test_usable_memory_is_most_of_a_card_and_never_more_than_it_has(device_id):
    device = load_device(device_id)
    share = device.usable_bytes / device.memory.capacity
    assert (0.45 if device.memory.shared else 0.90) <= share < 1
    assert device.usable_basis.split()[0].strip(",") in {"seen", "estimated"}


@pytest.mark.parametrize("device_id", IDS)
def test_figures_are_plausible(device_id):
    """Bounds of everything on sale from 2017 to 2026, with a margin."""
    device = load_device(device_id)
    assert 4 * GIB <= device.memory.capacity <= 512 * GIB
    assert 2017 <= device.launch_year <= 2026
    assert 25e9 <= device.require_bandwidth() <= 8.5e12
    assert device.dense_rate(DType.FP32) is not None
    for dtype in DType:
        rate = device.dense_rate(dtype)
        assert rate is None or 2e11 <= rate <= 6e15
    if device.board is not None and device.board.power_w is not None:
        assert 5 <= device.board.power_w <= 1500


@pytest.mark.parametrize("device_id", IDS)
def test_narrower_formats_are_not_slower(device_id):
    """Dense peaks double, or stay, from fp16 to fp8 and int8; on every catalogued GPU."""
    dense = load_device(device_id).compute.dense
    for narrow in (dense.fp8, dense.int8):
        if narrow is not None and dense.fp16 is not None:
            assert 0.99 <= narrow / dense.fp16 <= 4.01


@pytest.mark.parametrize("device_id", IDS)
def test_nvidia_before_ampere_has_no_native_bf16(device_id):
    device = load_device(device_id)
    if device.chip.arch in {"sm_70", "sm_75"}:
        assert device.compute.dense.bf16 is None
    elif device.vendor == "nvidia":
        assert device.compute.dense.bf16 == device.compute.dense.fp16


@pytest.mark.parametrize("device_id", IDS)
def test_shared_memory_is_that_of_systems_on_a_chip_and_processors(device_id):
    device = load_device(device_id)
    discrete = {"datacenter", "workstation", "desktop"}
    assert not (device.memory.shared and device.kind in discrete)
    assert device.memory.shared or device.kind not in {"edge", "apu", "apple", "phone", "cpu"}


def test_no_file_speaks_of_the_place_it_was_made():
    for folder in (device_catalog.DEVICES, device_catalog.MODELS):
        for path in folder.iterdir():
            text = path.read_text(encoding="utf-8").lower()
            for word in ("/work", "/tmp", "shared/", "this project", "code-index", "measured here"):
                assert word not in text, path.name


def test_the_least_device_of_the_readme_can_be_planned_for(tmp_path):
    readme = (device_catalog.DEVICES.parent / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", readme, re.S)
    path = tmp_path / "my-card.toml"
    path.write_text(block, encoding="utf-8")
    device = load_device(path)
    assert device.usable_bytes == int(23.2 * 2**30)
    assert device.require_bandwidth() == 900e9
    assert efficiency_of(device).device_class == "cuda_gddr"
