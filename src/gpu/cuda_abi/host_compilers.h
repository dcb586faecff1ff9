// The C++ compilers that make the host's images of kernels. Used by what runs one, and by what
// tells whether there is one.
#pragma once

namespace lambent::cuda_abi {

// The first that is there is taken.
constexpr const char* kHostCompilers[] = {"clang++", "g++"};

}  // namespace lambent::cuda_abi
