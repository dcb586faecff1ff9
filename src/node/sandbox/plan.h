// LaunchPlan: everything that decides how one sandbox is started, and its validation.
// A value; made by the worker, carried to lambent-launcher, applied there; any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "core/domain/function_limits.h"
#include "core/domain/limits.h"
#include "core/domain/network_access.h"
#include "node/sandbox/limits.h"

namespace lambent::sandbox {

// Where every sandbox finds its Runtime API, and where its code lies.
constexpr char kRuntimeApiAddress[] = "127.0.0.1:9001";
constexpr uint16_t kRuntimeApiPort = limits::kRuntimeApiPort;
constexpr char kCodeFolder[] = "/var/task";
constexpr uint32_t kMostProcessors = 8192;  // of a host
constexpr uint32_t kNobodyInside = 65534;   // the user of programs without an image

// A file or folder of the host, shown inside the sandbox. Read-only binds are read-only for every
// mount below them; set-user-id bits and device files below a bind never work.
struct Bind {
  std::string host_path;
  std::string sandbox_path;
  bool writable = false;
  // Whether the host's path has to lead there without a symbolic link: for paths that were checked
  // and that others than the worker can change.
  bool without_links = false;

  bool operator==(const Bind&) const = default;
};

// A device file of the host, shown inside the sandbox below /dev. Only those that a plan names are
// there: nothing else below its mounts works as a device, and it has no right to make one.
struct DeviceNode {
  std::string host_path;
  std::string sandbox_path;

  bool operator==(const DeviceNode&) const = default;
};

// What the sandbox may use altogether. Scratch space lies in memory and counts into `memory` too.
struct SandboxLimits {
  Bytes memory = limits::kDefaultMemory;
  unsigned processes = limits::kSandboxProcesses;  // threads count as well
  std::optional<double> cpus;                      // 0.5 = half a core; none: no quota
  unsigned open_files = limits::kSandboxOpenFiles;
  Bytes scratch = limits::kSandboxScratch;             // size of /tmp
  Bytes shared_memory = limits::kSandboxSharedMemory;  // size of /dev/shm
  Bytes file_size = limits::kSandboxFileSize;          // of a single file

  bool operator==(const SandboxLimits&) const = default;
};

// The root file system of a container image, in place of the system's folders. What the program
// writes to it lies in memory, as scratch space does, and ends with the sandbox.
struct ImageRoot {
  std::string host_path;
  // What the program's user is called inside, where sandboxes have user namespaces. Every file of
  // the image is that user's, as it is another one's outside.
  uint32_t user = kNobodyInside;

  bool operator==(const ImageRoot&) const = default;
};

// Where the program may connect to, and what the operator lets any reach.
struct NetworkPlan {
  NetworkAccess access;
  NetworkBounds bounds;

  bool operator==(const NetworkPlan&) const = default;
};

// A program that has loaded what the sandbox's program needs and is forked into the sandbox. What
// it has in common with others of its key is loaded once, and nothing of one sandbox is in it.
struct ZygotePlan {
  // Sandboxes with the same key may be forked from one process: what follows is the same then.
  std::string key;
  std::vector<std::string>
      argv;  // as that of a LaunchPlan; speaks zygote_protocol.h on descriptor 3
  std::map<std::string, std::string> environment;
  std::vector<Bind> binds;  // the sandbox has them at the same places

  bool operator==(const ZygotePlan&) const = default;
};

struct LaunchPlan {
  SandboxId sandbox;
  // argv[0] is executed: an absolute path inside the sandbox, or a name looked up in the PATH of
  // `environment` (default /usr/local/bin:/usr/bin:/bin).
  std::vector<std::string> argv;
  // The whole environment: nothing is inherited.
  std::map<std::string, std::string> environment;
  std::string working_directory = kCodeFolder;
  // The function's unpacked code on the host, shown read-only at /var/task; empty: an empty folder.
  std::string code;
  // The emulated GPU's node file, shim libraries, layers at /opt, ... Their sandbox paths are new
  // places: outside /var/task, /tmp, /dev, /proc, /sys and the system's own folders, and not inside
  // one another. A sandbox path may be given to a file or a folder; both ends have the same kind.
  std::vector<Bind> binds;
  // Names and contents of files in kSecretFolder, which is there if there are any: read-only, and
  // in memory of the sandbox that is never swapped. No other path of the plan may lie there.
  std::map<std::string, std::string> secret_files;
  // Character devices, each at a place of its own: /dev/nvidia0, say.
  std::vector<DeviceNode> devices;
  std::string hostname = "sandbox";
  // None: a loopback in a network of its own, with no route out.
  std::optional<NetworkPlan> network = {};
  // The host's processors that it is kept on, as far as the launcher may use them; if it may use
  // none of them, or the list is empty, all that it may use. Numbers from 0, each once.
  std::vector<uint32_t> processors;
  SandboxLimits limits;
  // Where one is ready, its fork takes `argv` over instead of its being executed.
  std::optional<ZygotePlan> zygote = {};
  // None: the system's folders, and /etc as we make it. With one `code` is empty most often, and
  // argv[0] may be a path seen from the working directory.
  std::optional<ImageRoot> image = {};

  bool operator==(const LaunchPlan&) const = default;
};

// INVALID_ARGUMENT naming the field and the value: relative paths, "..", NUL bytes, reserved or
// nested places, limits of zero, too many or too long entries.
Result<void> validate(const LaunchPlan& plan);

}  // namespace lambent::sandbox
