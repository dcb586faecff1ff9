#include "bin/machine_facts.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "bin/lambent_paths.h"
#include "bin/nvidia_facts.h"
#include "core/base/error.h"
#include "gpu/bundle/child_process.h"
#include "gpu/cuda_abi/host_compilers.h"

namespace lambent::bin {
namespace {

namespace fs = std::filesystem;

constexpr Duration kPatience = seconds(10);

Result<bundle::ChildOutcome> run(const std::vector<std::string>& command) {
  return bundle::run_child(command, {.wall_time = kPatience});
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// What a program says of itself; none if it cannot be run.
std::optional<std::string> version_of(const std::string& program) {
  const auto outcome = run({program, "--version"});
  if (!outcome.ok() || outcome->exit_code != 0) return std::nullopt;
  return first_line(outcome->standard_output);
}

// nvcc says it in the middle of other lines.
std::optional<std::string> version_of_nvcc() {
  for (const char* program : {"nvcc", "/usr/local/cuda/bin/nvcc"}) {
    const auto outcome = run({program, "--version"});
    if (!outcome.ok() || outcome->exit_code != 0) continue;
    std::smatch found;
    const bool has =
        std::regex_search(outcome->standard_output, found, std::regex("release ([0-9.]+)"));
    return has ? found[1].str() : first_line(outcome->standard_output);
  }
  return std::nullopt;
}

// A program of ours that reports; what it printed, or why it could not.
Result<bundle::ChildOutcome> ask_sibling(const std::string& program, const std::string& flag) {
  auto outcome = run({own_folder() + "/" + program, flag});
  if (outcome.ok() && outcome->timed_out) {
    return Error{ErrorCode::kDeadlineExceeded, program + " did not answer"};
  }
  return outcome;
}

void find_sandboxes(cli::MachineFacts& facts) {
  const auto probe = ask_sibling("lambent-launcher", "--probe");
  if (!probe.ok()) {
    facts.sandboxes = probe.error();
    return;
  }
  facts.sandboxes = probe->standard_output;
  facts.sandboxes_possible = probe->exit_code == 0;
}

// Of the nearest folder that exists, which has to let us make the rest.
Result<Bytes> free_for(const std::string& folder) {
  fs::path nearest(folder);
  std::error_code ignored;
  while (!fs::exists(nearest, ignored) && nearest.has_relative_path()) {
    nearest = nearest.parent_path();
  }
  if (access(nearest.c_str(), W_OK) != 0) {
    return error_from_errno("write to " + nearest.string(), errno);
  }
  struct statvfs disk {};
  if (statvfs(nearest.c_str(), &disk) != 0) {
    return error_from_errno("ask for the free space of " + nearest.string(), errno);
  }
  return Bytes(uint64_t{disk.f_bavail} * disk.f_frsize);
}

// Behind comments PTX states its version: ".version 7.0".
std::optional<CudaVersion> version_stated_in(const fs::path& ptx) {
  std::ifstream file(ptx);
  constexpr std::string_view kDirective = ".version ";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kDirective)) return cuda_version_of(line.substr(kDirective.size()));
  }
  return std::nullopt;
}

// Of several images the one that asks for least: an older driver takes that.
std::map<std::string, CudaVersion> find_kernel_ptx() {
  std::map<std::string, CudaVersion> found;
  std::error_code ignored;
  for (const auto& bundle : fs::directory_iterator(find_shared("kernels"), ignored)) {
    for (const auto& image : fs::directory_iterator(bundle.path(), ignored)) {
      if (image.path().extension() != ".ptx") continue;
      const auto version = version_stated_in(image.path());
      if (!version) continue;
      const auto [known, is_new] = found.try_emplace(bundle.path().filename(), *version);
      if (!is_new) known->second = std::min(known->second, *version);
    }
  }
  return found;
}

void find_worker(cli::Transport& transport, cli::MachineFacts& facts) {
  const auto answer = transport.send({.method = "GET", .target = "/v1/version"}, kPatience);
  if (!answer.ok()) return;
  const auto json = nlohmann::json::parse(answer->body, nullptr, false);
  if (answer->status == 200 && json.is_object() && json.contains("policy")) {
    facts.worker = json.value("version", "a worker");
  } else {
    facts.other_one = "HTTP " + std::to_string(answer->status);
  }
}

}  // namespace

cli::MachineFacts find_machine_facts(const std::string& state_folder,
                                     const std::string& nvidia_driver, cli::Transport& transport,
                                     const std::string& endpoint) {
  cli::MachineFacts facts;
  find_sandboxes(facts);
  facts.nvidia = find_nvidia_facts(
      {.library_folder = nvidia_driver, .describer = own_folder() + "/lambent-device", .root = ""});
  facts.state_folder = state_folder;
  facts.state_free = free_for(state_folder);
  facts.python = version_of("python3");
  facts.uv = version_of("uv");
  for (const char* compiler : cuda_abi::kHostCompilers) {
    if (!facts.compiler) facts.compiler = version_of(compiler);
  }
  facts.nvcc = version_of_nvcc();
  facts.kernel_ptx = find_kernel_ptx();
  facts.endpoint = endpoint;
  find_worker(transport, facts);
  return facts;
}

}  // namespace lambent::bin
