// The [python] table of lambent.toml: which packages a function's Python has. Read by
// parse_manifest; the files that it names are read by `lambent deploy`.
#pragma once

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/domain/python_packages.h"

namespace lambent::cli {

struct PythonSection {
  PythonPackages packages;
  // Of the files, seen from the manifest, at most one is named.
  std::string requirements_file;
  std::string lock_file;
  std::string pyproject_file;

  bool operator==(const PythonSection&) const = default;
};

// INVALID_ARGUMENT names file and line.
Result<PythonSection> read_python_section(const toml::table& table, const std::string& file,
                                          std::vector<std::string>& warnings);

// False: only the interpreter is told, or what it preloads.
bool names_requirements(const PythonSection& section);

// The packages, with those of the file that is named. `folder` is the manifest's.
Result<PythonPackages> load_python_packages(const PythonSection& section,
                                            const std::string& folder);

// The dependencies that a pyproject.toml lists.
Result<std::vector<std::string>> read_pyproject(std::string_view text);

}  // namespace lambent::cli
