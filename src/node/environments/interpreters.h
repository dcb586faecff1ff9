// Interpreters: which versions of Python this machine has where sandboxes see them. A value; found
// at start, used by EnvironmentStore.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace lambent::environments {

struct Interpreter {
  std::string version;  // "3.11"
  std::string path;     // "/usr/bin/python3.11"

  bool operator==(const Interpreter&) const = default;
};

class Interpreters {
 public:
  // Looks into folders for programs named python3.N; those of earlier folders win. `usual` is the
  // worker's own Python, of the version that functions get which name none. Blocks.
  static Interpreters find(const std::vector<std::string>& folders, const std::string& usual);

  // INVALID_ARGUMENT, with those that are there.
  Result<Interpreter> get(const std::string& version) const;
  // Whether a function whose runtime is `runtime`, such as "python3.12", gets that Python.
  // `version` is what it chooses; empty: it has the worker's own. INVALID_ARGUMENT, with those that
  // are there.
  Result<void> check_runtime(const std::string& runtime, const std::string& version) const;
  const std::map<std::string, std::string>& paths() const { return paths_; }

 private:
  std::string list() const;

  std::map<std::string, std::string> paths_;  // by version
  std::string usual_;                         // a version; empty: it is not known
};

}  // namespace lambent::environments
