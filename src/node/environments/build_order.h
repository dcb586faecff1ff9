// BuildOrder and BuildReport: what lambent-environment is told to build, and what it says when it
// is done. Values; written and read by the worker and that program, any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::environments {

struct BuildOrder {
  std::string folder;              // of all environments: ready/, work/
  std::string key;                 // names the environment: ready/KEY
  std::string uv;                  // the program
  std::string python;              // the interpreter, "/usr/bin/python3.11"
  std::string index;               // URL, perhaps with credentials; empty: PyPI
  std::vector<std::string> files;  // further URLs, of places where the index has its files
  std::string wheels;              // a folder of wheels; empty: none
  bool offline = false;            // nothing but the folder of wheels
  bool locked = false;             // nothing but the requirements
  std::vector<std::string> requirements;
  std::vector<std::string> variables;  // "NAME=VALUE" for uv: the node's proxies
  Bytes most;                          // of the environment and what was fetched for it
  Duration timeout{};

  bool operator==(const BuildOrder&) const = default;
};

struct BuildReport {
  Bytes size;                         // of the environment
  Bytes cache;                        // of what is kept of downloads and in no environment
  std::vector<std::string> packages;  // "numpy==2.4.6"

  bool operator==(const BuildReport&) const = default;
};

std::string to_json(const BuildOrder& order);
Result<BuildOrder> parse_build_order(std::string_view json);
std::string to_json(const BuildReport& report);
Result<BuildReport> parse_build_report(std::string_view json);

}  // namespace lambent::environments
