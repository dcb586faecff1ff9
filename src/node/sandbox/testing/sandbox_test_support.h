// What the tests of whole sandboxes share: options, plans, a folder of code.
#pragma once

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "core/base/testing/testing.h"
#include "node/sandbox/sandbox_harness.h"

#ifndef LAMBENT_BINARY_DIR
#define LAMBENT_BINARY_DIR "build"
#endif

namespace lambent::sandbox {

inline LauncherOptions test_options() {
  LauncherOptions options;
  options.program = LAMBENT_BINARY_DIR "/bin/lambent-launcher";
  return options;
}

inline LaunchPlan program_plan(std::vector<std::string> argv) {
  static uint64_t next = 1;
  LaunchPlan plan;
  plan.sandbox = SandboxId(next++);
  plan.argv = std::move(argv);
  return plan;
}

inline LaunchPlan shell_plan(const std::string& script) {
  return program_plan({"/bin/bash", "-c", script});
}

// A folder that every user may read; gone afterwards.
class CodeFolder {
 public:
  CodeFolder() { chmod(path().c_str(), 0755); }
  const std::string& path() const { return folder_.path(); }
  std::string write(const std::string& name, const std::string& content, mode_t mode = 0755) {
    const std::string file = folder_ / name;
    std::ofstream(file) << content;
    chmod(file.c_str(), mode);
    return file;
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace lambent::sandbox
