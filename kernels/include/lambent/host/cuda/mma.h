// Says what a host kernel cannot have.
#error "nvcuda::wmma is not supported in host kernels: there are no tensor cores"
