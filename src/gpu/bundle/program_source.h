// A CUDA program rewritten so that a host compiler accepts it whole and finds its kernels: launches
// become plain calls, which never run and only say which instances of templates there are, and
// what has a name only in its file gets one that can be found. Pure. Used by program_files.cc.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/bundle/program_macros.h"

namespace lambent::bundle {

// The namespace that stands for unnamed ones (gpu/cuda_abi/device_names.h knows it
// too).
constexpr std::string_view kUnnamedNamespace = "lambent_unnamed";

// What a text says of the code of the device, seen by its words alone: it may say too much.
struct DeviceWords {
  bool has_volatile = false;  // anywhere but in the bodies of functions of the host
  bool launches = false;      // a kernel launches kernels, or asks for copies that are as good
};

// What the rewriting asks of its caller for each #include: the path of the copy to be read instead
// of this file; empty if there is none.
using CopyOfHeader = std::function<std::string(std::string_view file, bool quoted)>;

// `kernel<<<grid, block>>>(x)` becomes `LAMBENT_LAUNCH kernel(x)`, which is never called and ends
// the kernel in which it is reached (lambent/host/failures.h), and in the body of a kernel a launch
// by that (lambent/host/nested.h); `static` is taken from kernels and
// variables of the device; an unnamed namespace gets a name; an explicit instantiation of a kernel
// becomes the argument of LAMBENT_INSTANTIATION. Lines stay where they are. The files of
// `#include <...>` that have no copy are added to `headers`, what is said of macros to `events`,
// and `words` learns what the text says of the device.
std::string rewrite_program(std::string_view text, const CopyOfHeader& copy_of,
                            std::vector<std::string>* headers,
                            std::vector<MacroEvent>* events = nullptr,
                            DeviceWords* words = nullptr);

}  // namespace lambent::bundle
