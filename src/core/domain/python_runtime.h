// Names of Python as a runtime, as clients of Lambda and manifests write them. Pure; any thread.
#pragma once

#include <string_view>

namespace lambent {

constexpr unsigned kNewestPython = 15;  // 3.15

// "python3", or a version of it that exists: "python3.11".
bool is_python_runtime(std::string_view name);

}  // namespace lambent
