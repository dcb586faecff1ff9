// Says what a host kernel cannot have.
#error \
    "cooperative_groups::memcpy_async is not supported in host kernels: copy with the threads of the block"
