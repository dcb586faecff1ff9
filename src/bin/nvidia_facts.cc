#include "bin/nvidia_facts.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>

#include "gpu/bundle/child_process.h"

namespace lambent::bin {
namespace {

namespace fs = std::filesystem;

// CUDA reserves addresses for all memory that it could ever map.
constexpr bundle::ChildLimits kPatience = {.wall_time = seconds(10), .memory = Bytes::gib(1 << 20)};
constexpr char kLibrary[] = "libcuda.so.1";

bool is_there(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::vector<std::string> device_files(const std::string& root) {
  std::vector<std::string> files;
  std::error_code ignored;
  const std::regex device("nvidia[0-9]+");
  for (const fs::directory_entry& entry : fs::directory_iterator(root + "/dev", ignored)) {
    const std::string name = entry.path().filename().string();
    if (std::regex_match(name, device)) files.push_back("/dev/" + name);
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string module_version(const std::string& root) {
  std::ifstream file(root + "/sys/module/nvidia/version");
  std::string version;
  std::getline(file, version);
  return version;
}

// Of "lambent-device: UNAVAILABLE: cuInit: ..." what follows the program's name and the code.
std::string message_in(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  std::smatch found;
  const std::regex known("lambent-device: (?:[A-Z_]+: )?(.*)");
  return std::regex_match(line, found, known) ? found[1].str() : line;
}

// In a process of its own, for the driver may hang or crash.
Result<bundle::ChildOutcome> ask(const std::string& describer, const std::string& folder,
                                 const std::string& question) {
  return bundle::run_child({"env", "LD_LIBRARY_PATH=" + folder, describer, question}, kPatience);
}

Result<unsigned> ask_driver(const std::string& describer, const std::string& folder) {
  const auto outcome = ask(describer, folder, "--describe-driver");
  if (!outcome.ok()) return outcome.error();
  if (outcome->timed_out) {
    return Error{ErrorCode::kDeadlineExceeded, "the driver did not answer within 10 s"};
  }
  if (outcome->exit_code != 0) {
    return Error{ErrorCode::kUnavailable, message_in(outcome->standard_error)};
  }
  const std::string& lines = outcome->standard_output;
  return static_cast<unsigned>(std::count(lines.begin(), lines.end(), '\n'));
}

std::optional<CudaVersion> ask_version(const std::string& describer, const std::string& folder) {
  const auto outcome = ask(describer, folder, "--cuda-version");
  if (!outcome.ok() || outcome->exit_code != 0) return std::nullopt;
  return cuda_version_of(outcome->standard_output);
}

}  // namespace

const std::vector<std::string>& nvidia_library_folders() {
  // The last is Debian's own, where no link leads to it.
  static const std::vector<std::string> folders = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64",
                                                   "/usr/local/nvidia/lib64", "/usr/lib",
                                                   "/usr/lib/x86_64-linux-gnu/nvidia/current"};
  return folders;
}

std::string find_nvidia_folder() {
  for (const std::string& folder : nvidia_library_folders()) {
    if (is_there(folder + "/" + kLibrary)) return folder;
  }
  return "";
}

NvidiaFacts find_nvidia_facts(const NvidiaPlaces& places) {
  NvidiaFacts facts;
  facts.device_files = device_files(places.root);
  facts.module_version = module_version(places.root);
  const std::string folder =
      places.library_folder.empty() ? find_nvidia_folder() : places.library_folder;
  if (folder.empty() || !is_there(folder + "/" + kLibrary)) return facts;
  facts.library = folder + "/" + kLibrary;
  facts.has_nvml = is_there(folder + "/libnvidia-ml.so.1");
  if (places.describer.empty()) return facts;
  facts.devices = ask_driver(places.describer, folder);
  facts.cuda = ask_version(places.describer, folder);
  return facts;
}

}  // namespace lambent::bin
