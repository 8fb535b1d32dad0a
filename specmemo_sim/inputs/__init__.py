"""What goes in: devices, models, drafters, workloads, and the files they come from."""
