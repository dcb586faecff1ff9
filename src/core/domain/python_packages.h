// PythonPackages: which packages of an index a function's Python has, as the function's package
// carries it in kPythonPackagesFile. A value and pure functions; written by `lambent deploy`, read
// by the worker; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"

namespace lambent {

// Where it lies in the package of a function.
inline constexpr char kPythonPackagesFile[] = ".lambent/python.json";

inline constexpr size_t kMostRequirements = 2000;
inline constexpr size_t kRequirementLength = 64 << 10;  // bytes, with all hashes
inline constexpr Bytes kMostRequirementText = Bytes::mib(1);
inline constexpr size_t kMostPreloads = 64;
inline constexpr size_t kModuleNameLength = 200;

struct PythonPackages {
  std::string version;  // of Python, "3.11"; empty: the worker's
  // Each as in a requirements file: "numpy>=2 --hash=sha256:...". Sorted, each once.
  std::vector<std::string> requirements;
  // They are all that is installed: what they depend on is among them.
  bool locked = false;
  // Modules that are imported once, before sandboxes need them: "numpy", "torch.nn".
  std::vector<std::string> preload = {};

  bool operator==(const PythonPackages&) const = default;
};

// "3.11", or "" for the worker's. INVALID_ARGUMENT.
Result<void> check_python_version(std::string_view version);

// The names of modules, each of identifiers with points between. INVALID_ARGUMENT,
// RESOURCE_EXHAUSTED.
Result<void> check_preload(const std::vector<std::string>& modules);

// One requirement in its usual form: a name, perhaps extras, versions, a marker and hashes. What
// names a place (a URL, a path) or an option is refused, because only the
// worker's index has packages. INVALID_ARGUMENT.
Result<std::string> read_requirement(std::string_view text);

// Those of a requirements file, with comments and continued lines. INVALID_ARGUMENT with the line.
Result<std::vector<std::string>> read_requirements_file(std::string_view text);

// Sorts, removes repeats, checks how many there are. RESOURCE_EXHAUSTED.
Result<std::vector<std::string>> sorted_requirements(std::vector<std::string> requirements);

// The text of kPythonPackagesFile and back. INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
Result<PythonPackages> parse_python_packages(std::string_view json);
std::string to_json(const PythonPackages& packages);

}  // namespace lambent
