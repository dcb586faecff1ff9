#include "bin/worker_setup.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "bin/nvidia_facts.h"

extern char** environ;

namespace lambent {
namespace {

// Runs a program of ours and waits for it; for set-up, before the loop runs.
Result<void> run_program(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  if (const int error = posix_spawn(&pid, argv[0], nullptr, nullptr, argv.data(), environ)) {
    return error_from_errno("start " + arguments[0], error);
  }
  int status = 0;
  if (waitpid(pid, &status, 0) != pid || status != 0) {
    return Error{ErrorCode::kInvalidArgument, arguments[0] + " failed; its message is above"};
  }
  return {};
}

NvidiaJudgement judge_nvidia(const WorkerConfig& config, const std::string& describer) {
  return judge(bin::find_nvidia_facts(
      {.library_folder = config.nvidia_driver_folder, .describer = describer, .root = ""}));
}

std::string with_remedy(const NvidiaJudgement& nvidia) {
  return nvidia.remedy.empty() ? nvidia.says : nvidia.says + "; " + nvidia.remedy;
}

// At once, where nothing says that there is one: NVML would be waited for.
Result<void> check_gpu(const WorkerConfig& config) {
  const std::string& folder = config.nvidia_driver_folder;
  if (!folder.empty() && !std::filesystem::exists(folder + "/libcuda.so.1")) {
    return Error{ErrorCode::kNotFound, "--nvidia-driver: there is no libcuda.so.1 in " + folder};
  }
  const NvidiaJudgement nvidia = judge_nvidia(config, "");
  if (nvidia.state != NvidiaState::kAbsent) return {};
  return Error{ErrorCode::kFailedPrecondition,
               "--gpu nvidia: " + with_remedy(nvidia) + "; --gpu emulated needs no GPU"};
}

// Whether files can be made there, by making one that goes away by itself or at once.
std::error_code try_to_write(const std::string& folder) {
  const std::string path = folder + "/.write-test";
  const OwnedFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid()) return {errno, std::generic_category()};
  unlink(path.c_str());
  return {};
}

// The user chose the folder: it is theirs to choose another, or to make room in it.
Error folder_refused(const std::string& folder, bool is_state, std::error_code why) {
  Error error = error_from_errno("", why.value());
  const bool is_known =
      error.code == ErrorCode::kPermissionDenied || error.code == ErrorCode::kStorageFull;
  if (!is_known) error.code = ErrorCode::kInvalidArgument;
  error.message =
      std::string("the ") + (is_state ? "state" : "run") + " folder " + folder +
      " cannot be made or written (" + why.message() + "); choose another with " +
      (is_state ? "--state" : "--run") +
      (error.code == ErrorCode::kStorageFull ? ", or free space on its disk"
                                             : ", or give this user the right to write there");
  return error;
}

constexpr const char* kCublasNames[] = {"libcublas.so.13", "libcublas.so.12"};

// Of the driver, the system and the toolkits, these by their names backwards: newer ones first.
std::vector<std::string> library_folders(const worker::GpuDriver& driver) {
  std::vector<std::string> folders = {driver.folder, "/usr/lib/x86_64-linux-gnu", "/usr/lib64",
                                      "/usr/local/cuda/lib64"};
  std::vector<std::string> toolkits;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/usr/local", ignored)) {
    if (!entry.path().filename().string().starts_with("cuda-")) continue;
    toolkits.push_back(entry.path() / "lib64");
  }
  std::sort(toolkits.rbegin(), toolkits.rend());
  folders.insert(folders.end(), toolkits.begin(), toolkits.end());
  return folders;
}

}  // namespace

Result<std::vector<std::string>> find_cublas(const WorkerConfig& config,
                                             const worker::GpuDriver& driver) {
  if (config.cublas == "off" || config.gpu == GpuKind::kNone) return std::vector<std::string>();
  if (config.cublas != "auto") {
    std::error_code error;
    const auto path = std::filesystem::canonical(config.cublas, error);
    if (error || !std::filesystem::is_regular_file(path)) {
      return Error{ErrorCode::kNotFound, "--cublas: there is no library " + config.cublas +
                                             "; it is auto, off, or the path of a libcublas.so"};
    }
    return std::vector<std::string>{path};
  }
  std::vector<std::string> found;
  // NVIDIA's own refuses every driver but NVIDIA's.
  if (config.gpu != GpuKind::kNvidia) return found;
  for (const char* name : kCublasNames) {
    for (const std::string& folder : library_folders(driver)) {
      std::error_code error;
      const auto path = std::filesystem::canonical(folder + "/" + name, error);
      if (error) continue;
      found.push_back(path);
      break;
    }
  }
  return found;
}

Result<void> check_state(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool has_catalog = fs::exists(folder + "/catalog.db", ignored);
  const bool has_code =
      fs::directory_iterator(folder + "/code", ignored) != fs::directory_iterator();
  if (has_catalog || !has_code) return {};
  return Error{ErrorCode::kDataLoss,
               folder +
                   " has code of functions but no catalog.db, which names them; restore it "
                   "from a backup, or move the folder away to start empty"};
}

Result<OwnedFd> make_folders(const WorkerConfig& config) {
  for (const std::string& folder : {config.state_folder, config.run_folder}) {
    std::error_code error;
    const bool is_new = std::filesystem::create_directories(folder, error);
    const bool is_state = folder == config.state_folder;
    // Tenants' code, logs and results are for the worker's user only.
    if (is_new && is_state) {
      std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
    }
    if (!error) error = try_to_write(folder);
    if (error) return folder_refused(folder, is_state, error);
  }
  const std::string path = config.run_folder + "/worker.lock";
  OwnedFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return error_from_errno("open " + path, errno);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return Error{ErrorCode::kAlreadyExists, "another worker runs in " + config.run_folder +
                                                "; give this one folders and an address of its own "
                                                "(--run, --state, --listen)"};
  }
  RETURN_IF_ERROR(check_state(config.state_folder));
  return lock;
}

Result<OwnedFd> open_signals(bool reloads) {
  signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGUSR2);
  if (reloads) sigaddset(&signals, SIGHUP);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  OwnedFd fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return error_from_errno("signalfd", errno);
  return fd;
}

void choose_gpu(WorkerConfig& config, const Installation& installation) {
  if (!config.chooses_gpu) return;
  const NvidiaJudgement nvidia = judge_nvidia(config, installation.program("lambent-device"));
  config.gpu = nvidia.state == NvidiaState::kUsable ? GpuKind::kNvidia : GpuKind::kEmulated;
  config.leaves_gpu = nvidia.state == NvidiaState::kBroken;
  config.gpu_reason = config.leaves_gpu ? with_remedy(nvidia) : nvidia.says;
}

Error gpu_missing(Error error, const WorkerConfig& config, const Installation& installation) {
  if (config.gpu != GpuKind::kNvidia) return error;
  const NvidiaJudgement nvidia = judge_nvidia(config, installation.program("lambent-device"));
  error.message += nvidia.state == NvidiaState::kUsable
                       ? ", though CUDA's driver has some: look at nvidia-smi"
                       : ": " + with_remedy(nvidia);
  return error;
}

std::string node_image(const worker::GpuDriver& driver) { return driver.emulated_node + ".image"; }

Result<worker::GpuDriver> find_driver(const WorkerConfig& config,
                                      const Installation& installation) {
  worker::GpuDriver driver;
  if (config.gpu == GpuKind::kNone) return driver;
  if (config.gpu == GpuKind::kEmulated) {
    driver.folder = installation.emulated_driver();
    driver.emulated_node = config.run_folder + "/gpu-node";
    const std::string image = node_image(driver);
    std::error_code ignored;
    std::filesystem::remove(image, ignored);
    RETURN_IF_ERROR(
        run_program({installation.program("emulated-gpu"), "create", "--node", image, "--config",
                     config.gpu_preset, "--time-scale", std::to_string(config.time_scale),
                     "--memory-scale", std::to_string(config.memory_scale)}));
    return driver;
  }
  RETURN_IF_ERROR(check_gpu(config));
  driver.folder =
      config.nvidia_driver_folder.empty() ? bin::find_nvidia_folder() : config.nvidia_driver_folder;
  if (driver.folder.empty()) {
    return Error{ErrorCode::kNotFound,
                 "no libcuda.so.1 was found; name its folder with --nvidia-driver, or use --gpu "
                 "emulated"};
  }
  return driver;
}

}  // namespace lambent
