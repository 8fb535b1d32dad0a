"""Tree-attention kernels: tensors in, tensors out; they know no plans."""
