"""Which priors a device gets, and that they are the published fits."""

import pytest

from specmemo_sim.errors import CatalogError
from specmemo_sim.inputs.catalog import device_ids, load_device, load_devices
from specmemo_sim.latency.efficiency import (
    EfficiencyClass,
    device_class,
    efficiency_classes,
    efficiency_of,
)
from specmemo_sim.spec import validated

CLASS_OF = {
    "nvidia-rtx-4090": "cuda_gddr",
    "nvidia-t4": "cuda_gddr",
    "nvidia-l40s": "cuda_gddr",
    "nvidia-rtx-pro-6000-blackwell": "cuda_gddr",
    "nvidia-v100-sxm2-16gb": "cuda_hbm",
    "nvidia-a30": "cuda_hbm",
    "nvidia-a100-pcie-40gb": "cuda_hbm",
    "nvidia-h200-sxm": "cuda_hbm",
    "nvidia-b200-sxm": "cuda_hbm",
    "nvidia-jetson-agx-orin-64gb": "cuda_shared",
    "nvidia-gb10-dgx-spark": "cuda_shared",
    "amd-mi250-gcd": "rocm",
    "amd-rx-7900-xtx": "rocm",
    "amd-ryzen-ai-max-395": "apu",
    "intel-arc-a770-16gb": "intel_gpu",
    "intel-core-ultra-258v-140v": "intel_gpu",
    "apple-m2-ultra-192gb": "metal",
    "apple-a17-pro-8gb": "phone",
    "qualcomm-x-elite-32gb": "phone",
    "cpu-epyc-9374f-12ch": "cpu",
    "cpu-i9-13900k-ddr5-6400": "cpu",
    "cpu-cloud-2c-avx512": "cpu_streaming",
}


@pytest.mark.parametrize("device_id", CLASS_OF)
def test_a_device_is_placed_by_its_memory_and_maker(device_id):
    assert efficiency_of(load_device(device_id)).device_class == CLASS_OF[device_id]


@pytest.mark.parametrize("device_id", device_ids())
def test_every_device_has_priors(device_id):
    found = efficiency_of(load_device(device_id))
    assert 0.2 <= found.bandwidth_fraction.low <= found.bandwidth_fraction.high <= 1
    assert found.fixed_cost_per_layer.high <= 1e-3


def test_every_class_is_reached_by_some_device():
    assert {device_class(device) for device in load_devices()} == set(efficiency_classes())


def test_high_bandwidth_memory_means_more_than_a_wide_gddr_bus_can_give():
    """NVIDIA cards of 1.8 TB/s and more carry HBM, those under 0.8 TB/s carry GDDR."""
    for device in load_devices():
        if device.vendor == "nvidia" and not device.memory.shared:
            if device.memory.bandwidth > 1.8e12:
                assert device_class(device) == "cuda_hbm"
            if device.memory.bandwidth < 0.8e12:
                assert device_class(device) == "cuda_gddr"


@pytest.mark.parametrize(
    ("name", "fraction", "constant_s"),
    [("metal", 0.92, 5.9e-3), ("cuda_gddr", 0.86, 1.1e-3), ("cuda_hbm", 0.72, 2.0e-3)],
)
def test_calibrated_classes_hold_the_published_fit_of_a_32_layer_model(name, fraction, constant_s):
    found = efficiency_classes()[name]
    assert found.basis == "calibrated"
    assert found.bandwidth_fraction.typical == fraction
    assert found.fixed_cost_per_layer.typical * 32 == pytest.approx(constant_s, rel=0.02)


@pytest.mark.parametrize(
    ("device_id", "tokens_per_s"),
    [
        ("nvidia-rtx-5090", 290.02),
        ("nvidia-rtx-3090", 158.2),
        ("nvidia-a100-sxm-80gb", 190.88),
        ("nvidia-jetson-agx-orin-64gb", 33.58),
        ("amd-rx-7900-xtx", 167.11),
        ("apple-m2-ultra-192gb", 94.27),
    ],
)
def test_the_interval_covers_a_published_speed(device_id, tokens_per_s):
    """Llama-2-7B Q4_0 at batch 1, llama.cpp discussions 15013, 15021 and 4167.

    A token reads 3.75 GB: the file less the input embedding.
    """
    weight_bytes = 3.75e9
    device = load_device(device_id)
    found = efficiency_of(device)
    times = [
        weight_bytes / (fraction * device.require_bandwidth()) + 32 * cost
        for fraction, cost in [
            (found.bandwidth_fraction.high, found.fixed_cost_per_layer.low),
            (found.bandwidth_fraction.low, found.fixed_cost_per_layer.high),
        ]
    ]
    assert times[0] <= 1 / tokens_per_s <= times[1]


def test_a_measured_matrix_product_replaces_the_prior_of_the_class():
    """H200: 759.4 of 989.4 TFLOP/s is 0.7675; T4: 41.9 to 42.7 of 65.1."""
    h200 = efficiency_of(load_device("nvidia-h200-sxm"))
    assert h200.compute_basis == "measured"
    assert h200.compute_fraction.typical == pytest.approx(0.7675, abs=1e-4)
    assert h200.compute_fraction.high / h200.compute_fraction.low > 1.2
    titan = efficiency_of(load_device("nvidia-titan-rtx"))
    assert titan.compute_basis == "class"
    assert titan.compute_fraction == efficiency_classes()["cuda_gddr"].compute_fraction


def test_a_maker_without_priors_is_told_what_to_add():
    alien = load_device("nvidia-t4").replace(vendor="acme")
    with pytest.raises(CatalogError, match=r"add efficiency_class = .* cuda_gddr"):
        efficiency_of(alien)
    assert efficiency_of(alien.replace(efficiency_class="rocm")).device_class == "rocm"
    with pytest.raises(CatalogError, match="'warp' of device 'nvidia-t4' does not exist"):
        efficiency_of(alien.replace(efficiency_class="warp"))


def test_a_range_that_decreases_is_refused():
    broken = efficiency_classes()["rocm"].model_dump()
    broken["bandwidth_fraction"] = {"low": 0.9, "typical": 0.8, "high": 1.0}
    with pytest.raises(CatalogError, match="must not decrease"):
        validated(EfficiencyClass, broken, "x", CatalogError)
