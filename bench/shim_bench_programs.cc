#include "bench/shim_bench_programs.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

namespace lambent::bench {
namespace {

using std::filesystem::path;

// What the shim implements: waiting at the gate and no more, or anything else.
const std::set<std::string> kGated = {
#define GATED(name, ...) #name,
#include "driver_gated.inc"
#undef GATED
};
const std::set<std::string> kImplemented = {
#define HOOK(name) #name,
#include "driver_hooks.inc"
#undef HOOK
};

// The file has lines "process count name"; processes that the program starts count as well.
void count_calls(const path& trace, ProgramCalls* program) {
  std::ifstream in(trace);
  long process = 0;
  double count = 0;
  for (std::string name; in >> process >> count >> name;) {
    if (kGated.count(name) != 0) {
      program->gated += count;
    } else if (kImplemented.count(name) != 0) {
      const bool allocates = name.starts_with("cuMem") && !name.starts_with("cuMemGet");
      (allocates ? program->allocations : program->others) += count;
    } else {
      program->forwarded += count;
    }
  }
}

// Nanoseconds that the command took, or a negative number if it failed.
double timed(const std::string& command) {
  const auto start = std::chrono::steady_clock::now();
  const int status = std::system(command.c_str());
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  return status == 0 ? took.count() : -1;
}

}  // namespace

std::vector<ProgramCalls> count_programs(const std::string& folder,
                                         const std::string& driver_folder) {
  std::vector<path> files;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    if (file.path().extension() == ".so")
      files.push_back(file.path().parent_path() / file.path().stem().stem());
  }
  std::sort(files.begin(), files.end());
  char name[] = "/tmp/shim_bench_programs_XXXXXX";
  const path scratch = mkdtemp(name);
  std::vector<ProgramCalls> programs;
  for (const path& file : files) {
    const path node = scratch / (file.filename().string() + ".node");
    const path trace = scratch / "trace";
    const std::string command =
        "EMULATED_CUDA_CONFIG=" LAMBENT_PROGRAMS_CONFIG " EMULATED_CUDA_NODE='" + node.string() +
        "' LD_LIBRARY_PATH='" + driver_folder + ":" + driver_folder + "_runtime' '" +
        file.string() + "' > /dev/null 2>&1";
    ProgramCalls program{file.filename()};
    bool is_whole = timed("EMULATED_CUDA_TRACE='" + trace.string() + "' " + command) >= 0;
    count_calls(trace, &program);
    program.runtime_ns = 1e18;
    for (int run = 0; run < 3 && is_whole; ++run) {
      const double took = timed(command);
      is_whole = took >= 0;
      program.runtime_ns = std::min(program.runtime_ns, took);
    }
    std::filesystem::remove(trace);
    if (is_whole) programs.push_back(program);
    if (!is_whole) std::fprintf(stderr, "shim_bench: %s failed\n", file.c_str());
  }
  std::filesystem::remove_all(scratch);
  return programs;
}

std::string share_of_runtime(const std::vector<ProgramCalls>& programs, const ExtraCosts& extra) {
  if (programs.empty()) return "null";
  std::string json;
  for (const ProgramCalls& program : programs) {
    const double extra_ns = program.forwarded * extra.forwarded_ns +
                            program.gated * extra.gated_ns + program.others * extra.look_up_ns +
                            program.allocations * extra.allocation_ns;
    char text[128];
    std::snprintf(text, sizeof text, "%s\"%s\":%.4f", json.empty() ? "{" : ",",
                  program.name.c_str(), 100 * extra_ns / program.runtime_ns);
    json += text;
  }
  return json + "}";
}

}  // namespace lambent::bench
