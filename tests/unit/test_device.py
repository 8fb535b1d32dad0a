"""What a device file may say, and what follows from it."""

import pytest

from specmemo_sim.errors import CatalogError, InputError
from specmemo_sim.inputs.catalog import load_device
from specmemo_sim.inputs.device import device_from_dict, reserve_bytes, with_memory
from specmemo_sim.inputs.dtypes import DType

MIB, GIB = 2**20, 2**30

# (listed by nvidia-smi in MiB, lowest total CUDA was seen to report in GiB), public logs.
SEEN_PAIRS = [
    (24564, 23.64),
    (24576, 23.68),
    (15360, 14.74),
    (16384, 15.78),
    (40960, 39.39),
    (81920, 79.15),
    (81559, 79.14),
    (143771, 139.72),
]


def table(**memory):
    return {
        "schema_version": 1,
        "id": "my-card",
        "name": "My card",
        "vendor": "nvidia",
        "kind": "desktop",
        "memory": {"capacity": "8 GiB", "bandwidth": "200 GB/s", "source": "page"} | memory,
        "compute": {"source": "unverified", "dense": {"fp16": "50 TFLOP/s"}},
        "chip": {"arch": "sm_89", "source": "unverified"},
        "sources": {"page": {"title": "A page", "url": "https://example.org/card"}},
    }


def device(**memory):
    return device_from_dict(table(**memory), "my.toml")


def refusal(data):
    with pytest.raises(CatalogError) as caught:
        device_from_dict(data, "my.toml")
    message = str(caught.value)
    assert message.startswith("my.toml: ")
    assert "\n" not in message
    return message


@pytest.mark.parametrize(("listed_mib", "allocatable_gib"), SEEN_PAIRS)
def test_the_reserve_never_promises_more_than_was_seen_and_wastes_little(
    listed_mib, allocatable_gib
):
    estimate = listed_mib * MIB - reserve_bytes(listed_mib * MIB)
    assert allocatable_gib - 0.5 < estimate / GIB <= allocatable_gib


def test_known_devices_have_their_published_figures():
    assert load_device("nvidia-rtx-4090").usable_bytes == int(23.64 * GIB)
    assert load_device("nvidia-t4").usable_bytes == int(14.74 * GIB)
    titan = load_device("nvidia-titan-rtx")
    assert titan.memory.reported == 24220 * MIB
    assert titan.memory.bandwidth == 672e9
    assert 23.1 * GIB < titan.usable_bytes < 24220 * MIB
    h200 = load_device("nvidia-h200-sxm")
    assert (h200.memory.visible, h200.memory.visible_high) == (
        int(139.72 * GIB),
        int(139.81 * GIB),
    )
    assert h200.memory.bandwidth == 4.8e12
    assert h200.dense_rate(DType.FP8) == 1978.9e12
    gcd = load_device("amd-mi250-gcd")
    assert gcd.memory.capacity == 64 * GIB
    assert gcd.memory.bandwidth == 1.638e12
    assert gcd.chip.num_units == 104
    ultra = load_device("apple-m2-ultra-192gb")
    assert ultra.usable_bytes == 144 * GIB
    assert ultra.memory.bandwidth == 800e9


def test_fp16_peaks_are_dense_and_accumulate_in_fp32():
    """The RTX 4090's advertised 330 TFLOP/s is the fp16-accumulate or the sparse rate."""
    assert load_device("nvidia-rtx-4090").dense_rate(DType.FP16) == 165.2e12


def test_bf16_without_hardware_is_its_measured_rate_or_unknown_never_the_fp16_rate():
    for device_id, rate in [
        ("nvidia-t4", 2.3e12),
        ("nvidia-v100-sxm2-16gb", 10e12),
        ("nvidia-rtx-2080-ti", 7e12),
    ]:
        card = load_device(device_id)
        assert card.dense_rate(DType.BF16) == rate
        assert card.emulates(DType.BF16)
        assert not card.emulates(DType.FP16)
    titan = load_device("nvidia-titan-rtx")
    assert titan.dense_rate(DType.BF16) is None
    with pytest.raises(CatalogError, match=r"no known bf16 rate \(known: fp32, fp16, int8\)"):
        titan.require_dense_rate(DType.BF16)
    assert load_device("nvidia-a100-sxm-40gb").dense_rate(DType.BF16) == 311.9e12


def test_an_npu_rate_is_not_taken_for_the_gpu():
    """Snapdragon X Elite advertises 45 int8 TOPS, which are the NPU's."""
    assert load_device("qualcomm-x-elite-32gb").dense_rate(DType.INT8) is None


def test_four_bit_weights_have_no_compute_rate_of_their_own():
    assert load_device("nvidia-h100-sxm").dense_rate(DType.INT4) is None


def test_usable_memory_takes_the_best_known_figure_and_says_which():
    sizes = [
        (device(), "estimated as marketed"),
        (device(reported="7.9 GiB", reported_source="page"), "estimated as reported"),
        (device(reported="7.9 GiB", reported_source="unverified"), "estimated as unverified"),
        (device(reported="7.9 GiB", visible="7.6 GiB"), "seen"),
        (device(visible="7.6 GiB", visible_source="unverified"), "estimated, unverified"),
        (device(shared=True, default_share=0.5), "estimated as 0.5 of the shared"),
        (device(visible="7.6 GiB", usable="5 GiB"), "given"),
    ]
    for spec, basis in sizes:
        assert spec.usable_basis.startswith(basis)
    by_hand = [
        8 * GIB - 150323856,  # 1.75 % of 8589934592 is 150323855.36
        8482560409 - 148444808,  # 7.9 GiB rounded down; 1.75 % is 148444807.2
        8482560409 - 148444808,
        int(7.6 * GIB),
        int(7.6 * GIB),
        4 * GIB,
        5 * GIB,
    ]
    assert [spec.usable_bytes for spec, _ in sizes] == by_hand


def test_a_device_without_bandwidth_loads_and_the_question_for_it_says_what_to_add():
    spec = device(bandwidth=None)
    assert spec.usable_bytes > 0
    with pytest.raises(InputError) as caught:
        spec.require_bandwidth()
    assert "bandwidth = " in str(caught.value)
    assert "my-card" in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("memory", "capcity"), "8 GiB", "memory.capcity"),
        (("memory", "capacity"), "8", "memory.capacity: the missing unit"),
        (("memory", "capacity"), "8 Gb", "memory.capacity: unit 'Gb'"),
        (("memory", "capacity"), "0 GiB", "memory.capacity"),
        (("memory", "capacity"), "-8 GiB", "memory.capacity"),
        (("memory", "bandwidth"), "200 GB", "memory.bandwidth: unit 'GB'"),
        (("memory", "bandwidth"), "200 B/s", "memory.bandwidth"),
        (("memory", "visible"), "9 GiB", "visible 9.00 GiB is larger than capacity 8.00 GiB"),
        (("memory", "usable"), "9 GiB", "usable 9.00 GiB is larger than capacity"),
        (("memory", "visible_high"), "7 GiB", "visible_high"),
        (("memory", "default_share"), 1.5, "memory.default_share"),
        (("memory", "default_share"), 0.5, "shared = true"),
        (("memory", "source"), "pgae", "memory.source names source 'pgae'"),
        (("memory", "reported_source"), "nvidia", "memory.reported_source"),
        (("compute", "dense"), {"fp16": "50 TB/s"}, "compute.dense.fp16"),
        (("compute", "dense"), {"fp15": "50 TFLOP/s"}, "compute.dense.fp15"),
        (
            ("compute", "measured_gemm_fp16"),
            {"low": "5 TFLOP/s", "high": "4 TFLOP/s"},
            "low is larger",
        ),
        (("chip", "num_units"), 2.5, "chip.num_units"),
        (("sources", "page"), {"title": "x", "url": "javascript:alert(1)"}, "sources.page.url"),
    ],
)
def test_a_wrong_field_is_refused_with_its_path(path, value, expected):
    data = table()
    data[path[0]] = data[path[0]] | {path[1]: value}
    assert expected in refusal(data)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schema_version", 2),
        ("id", "My Card"),
        ("id", "../../etc/passwd"),
        ("kind", "toaster"),
        ("launch_year", 1066),
        ("notes", "x" * 2000),
        ("colour", "green"),
    ],
)
def test_a_wrong_top_level_value_is_refused_with_its_path(key, value):
    assert key in refusal(table() | {key: value})


@pytest.mark.parametrize("section", ["memory", "compute", "chip", "id", "vendor"])
def test_a_missing_section_is_named(section):
    data = table()
    del data[section]
    assert refusal(data) == f"my.toml: {section} is missing"


def test_equal_devices_are_one_key():
    assert len({device(), device(), device(capacity="9 GiB")}) == 2


def test_memory_given_by_the_user_must_fit_the_card():
    card = load_device("nvidia-rtx-4090")
    with pytest.raises(InputError, match=r"30\.00 GiB is more than the 24\.00 GiB"):
        with_memory(card, 30 * GIB)
    for wrong in (0, -1, True, 2.5, 1023):
        with pytest.raises(InputError, match="at least 1 MiB"):
            with_memory(card, wrong)


def test_shared_memory_grows_with_what_the_user_says_is_usable():
    """The buyer chooses how much RAM a mini-PC has."""
    apu = with_memory(load_device("amd-ryzen-ai-9-hx370-x1pro"), 48 * GIB)
    assert apu.usable_bytes == 48 * GIB
    assert apu.memory.capacity == 48 * GIB
