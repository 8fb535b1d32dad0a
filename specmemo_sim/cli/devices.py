"""``specmemo devices``: the catalogue as a table, or one device with its sources."""

import click
from rich.console import Console
from rich.table import Table

from specmemo_sim.cli.output import JSON_OPTION, plain, print_json, screen
from specmemo_sim.errors import InputError
from specmemo_sim.inputs.catalog import load_device, load_devices
from specmemo_sim.inputs.device import DeviceKind, DeviceSpec
from specmemo_sim.latency.efficiency import efficiency_of
from specmemo_sim.units import format_bytes, parse_bytes


@click.command("devices", epilog="Example: specmemo devices --kind laptop --min-memory '8 GiB'")
@click.argument("device", required=False)
@click.option("--vendor", help="Only this vendor, such as nvidia, amd, apple.")
@click.option(
    "--kind", type=click.Choice([kind.value for kind in DeviceKind]), help="Only this kind."
)
@click.option("--min-memory", help='Only devices with at least this much usable, as "16 GiB".')
@click.option("--search", help="Only devices whose id or name contains this text.")
@JSON_OPTION
def command(device: str | None, as_json: bool, **filters: str | None) -> int:
    """List the device catalogue, or print DEVICE (an id or your own TOML file) with its sources."""
    if device is not None:
        used = [name for name, value in filters.items() if value is not None]
        if used:
            raise InputError(
                f"--{used[0].replace('_', '-')} filters the list and has no effect on one device; "
                "drop it or the device"
            )
        _print_one(load_device(device), as_json)
        return 0
    chosen = [entry for entry in load_devices() if _passes(entry, filters)]
    if not chosen:
        raise InputError("no device of the catalogue passes these filters; loosen one of them")
    if as_json:
        print_json([_row(entry) for entry in chosen])
        return 0
    _print_table(chosen)
    return 0


def _passes(device: DeviceSpec, filters: dict[str, str | None]) -> bool:
    vendor, kind = filters["vendor"], filters["kind"]
    least, text = filters["min_memory"], filters["search"]
    if vendor is not None and device.vendor != vendor.lower():
        return False
    if kind is not None and device.kind.value != kind:
        return False
    if least is not None and device.usable_bytes < parse_bytes(least):
        return False
    return text is None or text.lower() in f"{device.id} {device.name}".lower()


def _row(device: DeviceSpec) -> dict[str, object]:
    return {
        "id": device.id,
        "name": device.name,
        "vendor": device.vendor,
        "kind": device.kind.value,
        "launch_year": device.launch_year,
        "capacity_bytes": device.memory.capacity,
        "usable_bytes": device.usable_bytes,
        "usable_basis": device.usable_basis,
        "shared_memory": device.memory.shared,
        "bandwidth_bytes_per_s": device.memory.bandwidth,
        "fp16_flop_per_s": device.compute.dense.fp16,
    }


def _rate(value: float | None, factor: float, unit: str) -> str:
    return "unknown" if value is None else f"{value / factor:,.4g} {unit}"


def _print_table(devices: list[DeviceSpec]) -> None:
    with screen() as out:
        out.print(_list_table(devices, out.width))
        out.print(
            f"[dim]{len(devices)} devices; usable is what a runtime can allocate, ~ an estimate; "
            "specmemo devices ID prints the sources[/]"
        )


def _list_table(devices: list[DeviceSpec], width: int) -> Table:
    """One line a device; a narrow screen gets the columns that have room, most important first."""
    room = {"usable": 0, "bandwidth": 64, "kind": 78, "fp16 dense": 90, "marketed": 100}
    shown = [name for name, least in room.items() if width >= least]
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("id", no_wrap=True)
    for name in shown:
        table.add_column(name, justify="left" if name == "kind" else "right", no_wrap=True)
    for device in devices:
        estimated = "" if device.usable_basis.startswith(("seen", "given")) else " ~"
        cells = {
            "usable": format_bytes(device.usable_bytes) + (estimated or "  "),
            "bandwidth": _rate(device.memory.bandwidth, 1e9, "GB/s"),
            "kind": device.kind.value,
            "fp16 dense": _rate(device.compute.dense.fp16, 1e12, "TFLOP/s"),
            "marketed": format_bytes(device.memory.capacity),
        }
        table.add_row(plain(device.id), *(cells[name] for name in shown))
    return table


def _print_one(device: DeviceSpec, as_json: bool) -> None:
    efficiency = efficiency_of(device)
    if as_json:
        document = device.model_dump(mode="json", exclude_none=True)
        print_json(
            {
                **document,
                "usable_bytes": device.usable_bytes,
                "usable_basis": device.usable_basis,
                "efficiency": efficiency.model_dump(mode="json"),
            }
        )
        return
    with screen() as out:
        out.print(
            f"[bold]{plain(device.name)}[/]  {device.id}  {device.kind.value}, {device.vendor}"
        )
        usable = format_bytes(device.usable_bytes)
        out.print(f"[bold]{usable}[/] usable ({plain(device.usable_basis)})")
        out.print()
        _print_numbers(out, device)
        moving = efficiency.bandwidth_fraction
        out.print(
            f"\nefficiency class {efficiency.device_class} ({efficiency.basis}): reaches "
            f"{moving.typical:.2f} ({moving.low:.2f} to {moving.high:.2f}) of peak bandwidth"
        )
        out.print("\n[dim]sources[/]")
        for key, source in device.sources.items():
            out.print(f"  [bold]{plain(key)}[/] {plain(source.title)} {plain(source.url or '')}")
        if device.notes:
            out.print(f"[dim]note:[/] {plain(device.notes)}")


def _print_numbers(out: Console, device: DeviceSpec) -> None:
    memory, compute, chip = device.memory, device.compute, device.chip
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(3):
        table.add_column()
    rows: list[tuple[str, str, str | None]] = [
        ("marketed memory", format_bytes(memory.capacity), memory.source),
        (
            "reported memory",
            format_bytes(memory.reported) if memory.reported else "unknown",
            memory.reported_source or memory.source,
        ),
        (
            "bandwidth",
            _rate(memory.bandwidth, 1e9, "GB/s"),
            memory.bandwidth_source or memory.source,
        ),
    ]
    for name in ("fp32", "fp16", "bf16", "fp8", "int8"):
        rate = getattr(compute.dense, name)
        if rate is not None:
            rows.append((f"{name} dense", _rate(rate, 1e12, "TFLOP/s"), compute.source))
        emulated = getattr(compute.emulated, name)
        if emulated is not None:
            measured = compute.emulated_source or compute.source
            rows.append((f"{name} emulated", _rate(emulated, 1e12, "TFLOP/s"), measured))
    rows.append(("architecture", chip.arch, chip.source))
    for name, value, source in rows:
        table.add_row(name, plain(value), f"[dim]{plain(source or '')}[/]")
    out.print(table)
