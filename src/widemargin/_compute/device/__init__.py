"""The same mathematics on a device: torch tensors in, torch tensors out.

Nothing here is imported before a tensor on a device has been seen. Products are
cuBLAS's; what is left of a pair once its products are there is one Triton kernel where
Triton is present and plain torch where it is not (:mod:`.pairs`).
"""
