#include "node/sandbox/plan.h"

#include <array>
#include <cmath>
#include <string_view>

#include "core/domain/limits.h"
#include "core/domain/secret.h"
#include "node/sandbox/limits.h"
#include "node/sandbox/start_limits.h"
#include "node/sandbox/zygote_limits.h"

namespace lambent::sandbox {
namespace {

// Places that belong to the sandbox itself or show the system; nothing may be bound over or below.
constexpr std::array<std::string_view, 13> kReservedPlaces = {
    "/usr", "/lib",  "/lib32", "/lib64", "/libx32", "/bin",     "/sbin",
    "/etc", "/proc", "/sys",   "/dev",   "/tmp",    "/var/task"};

Error invalid(const std::string& field, const std::string& why) {
  return Error{ErrorCode::kInvalidArgument, "launch plan: " + field + " " + why};
}

// `inner` is `outer` or lies below it; both are absolute and without a trailing slash.
bool lies_within(std::string_view inner, std::string_view outer) {
  return inner.starts_with(outer) && (inner.size() == outer.size() || inner[outer.size()] == '/');
}

Result<void> check_text(const std::string& field, const std::string& text) {
  if (text.find('\0') != std::string::npos) return invalid(field, "holds a NUL byte");
  return {};
}

Result<void> check_path(const std::string& field, const std::string& path) {
  RETURN_IF_ERROR(check_text(field, path));
  if (path.empty() || path[0] != '/') {
    return invalid(field, "is not an absolute path: '" + path + "'");
  }
  if (path.size() > limits::kSandboxPathLength) {
    return invalid(field,
                   "is longer than " + std::to_string(limits::kSandboxPathLength) + " characters");
  }
  if (path.size() > 1 && path.back() == '/') return invalid(field, "ends in '/': '" + path + "'");
  for (size_t start = 1; start <= path.size() && path.size() > 1;) {
    const size_t end = std::min(path.find('/', start), path.size());
    const std::string_view part = std::string_view(path).substr(start, end - start);
    if (part.empty() || part == "." || part == "..") {
      return invalid(field, "holds an empty part, '.' or '..': '" + path + "'");
    }
    start = end + 1;
  }
  return {};
}

Result<void> check_program(const LaunchPlan& plan) {
  if (plan.argv.empty()) return invalid("argv", "is empty");
  if (plan.argv[0].empty()) return invalid("argv[0]", "is empty");
  if (plan.argv.size() > limits::kSandboxArguments) {
    return invalid("argv",
                   "has more than " + std::to_string(limits::kSandboxArguments) + " entries");
  }
  for (const std::string& argument : plan.argv) {
    RETURN_IF_ERROR(check_text("argv", argument));
  }
  for (const auto& [name, value] : plan.environment) {
    RETURN_IF_ERROR(check_text("environment", name));
    RETURN_IF_ERROR(check_text("environment variable '" + name + "'", value));
    if (name.empty() || name.find('=') != std::string::npos) {
      return invalid("environment", "has a variable with a bad name: '" + name + "'");
    }
  }
  return {};
}

Result<void> check_binds(const LaunchPlan& plan) {
  if (plan.binds.size() > limits::kSandboxBinds) {
    return invalid("binds", "has more than " + std::to_string(limits::kSandboxBinds) + " entries");
  }
  for (size_t i = 0; i < plan.binds.size(); ++i) {
    const Bind& bind = plan.binds[i];
    RETURN_IF_ERROR(check_path("a bind's host path", bind.host_path));
    RETURN_IF_ERROR(check_path("a bind's sandbox path", bind.sandbox_path));
    if (bind.sandbox_path == "/") return invalid("a bind's sandbox path", "is the root");
    for (const std::string_view place : kReservedPlaces) {
      if (lies_within(bind.sandbox_path, place) || lies_within(place, bind.sandbox_path)) {
        return invalid("a bind's sandbox path",
                       "collides with " + std::string(place) + ": '" + bind.sandbox_path + "'");
      }
    }
    for (size_t other = 0; other < i; ++other) {
      const std::string& taken = plan.binds[other].sandbox_path;
      if (lies_within(bind.sandbox_path, taken) || lies_within(taken, bind.sandbox_path)) {
        return invalid("a bind's sandbox path",
                       "collides with another's: '" + bind.sandbox_path + "' and '" + taken + "'");
      }
    }
  }
  return {};
}

Result<void> check_secret_files(const LaunchPlan& plan) {
  size_t size = 0;
  for (const auto& [name, content] : plan.secret_files) {
    if (auto valid = validate_secret_name(name); !valid.ok()) {
      return invalid("secret_files", "has a bad name: " + valid.error().message);
    }
    size += name.size() + content.size();
  }
  if (size > limits::kSandboxSecretFiles.count) {
    return invalid("secret_files",
                   "are together larger than " + to_string(limits::kSandboxSecretFiles));
  }
  if (plan.secret_files.empty()) return {};
  for (const Bind& bind : plan.binds) {
    if (lies_within(bind.sandbox_path, kSecretFolder) ||
        lies_within(kSecretFolder, bind.sandbox_path)) {
      return invalid("a bind's sandbox path",
                     "collides with the files of secrets: '" + bind.sandbox_path + "'");
    }
  }
  return {};
}

Result<void> check_devices(const LaunchPlan& plan) {
  if (plan.devices.size() > limits::kSandboxBinds) {
    return invalid("devices",
                   "has more than " + std::to_string(limits::kSandboxBinds) + " entries");
  }
  if (plan.binds.size() + plan.devices.size() > limits::kSandboxSources) {
    return invalid("devices", "has more than " + std::to_string(limits::kSandboxSources) +
                                  " entries together with binds");
  }
  for (size_t i = 0; i < plan.devices.size(); ++i) {
    const std::string& device = plan.devices[i].sandbox_path;
    RETURN_IF_ERROR(check_path("a device's host path", plan.devices[i].host_path));
    RETURN_IF_ERROR(check_path("a device", device));
    if (!device.starts_with("/dev/")) {
      return invalid("a device", "lies outside /dev: '" + device + "'");
    }
    for (size_t other = 0; other < i; ++other) {
      const std::string& taken = plan.devices[other].sandbox_path;
      if (lies_within(device, taken) || lies_within(taken, device)) {
        return invalid("a device", "collides with another: '" + device + "' and '" + taken + "'");
      }
    }
    for (const std::string_view own :
         {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/shm",
          "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr"}) {
      if (lies_within(device, own)) {
        return invalid("a device", "is there already: '" + device + "'");
      }
    }
  }
  return {};
}

Result<void> check_limits(const SandboxLimits& limits) {
  if (limits.memory < Bytes::mib(4)) return invalid("limits.memory", "is below 4 MiB");
  if (limits.processes == 0) return invalid("limits.processes", "is zero");
  if (limits.open_files < 8) return invalid("limits.open_files", "is below 8");
  if (limits.scratch < Bytes::kib(64)) return invalid("limits.scratch", "is below 64 KiB");
  if (limits.shared_memory < Bytes::kib(64)) {
    return invalid("limits.shared_memory", "is below 64 KiB");
  }
  if (limits.file_size.count == 0) return invalid("limits.file_size", "is zero");
  if (limits.cpus && !(*limits.cpus >= 0.01 && *limits.cpus <= 10'000)) {
    return invalid("limits.cpus", "is not between 0.01 and 10,000");
  }
  return {};
}

Result<void> check_processors(const LaunchPlan& plan) {
  if (plan.processors.size() > kMostProcessors) {
    return invalid("processors", "has more than " + std::to_string(kMostProcessors) + " entries");
  }
  for (const uint32_t processor : plan.processors) {
    if (processor >= kMostProcessors) {
      return invalid("processors", "has number " + std::to_string(processor));
    }
  }
  return {};
}

// A plan travels as one message: its texts, with room for their lengths, must fit. For files of
// secrets there is more room (Channel).
Result<void> check_size(const LaunchPlan& plan) {
  constexpr size_t kPerText = 8;
  size_t size = plan.code.size() + plan.working_directory.size();
  for (const std::string& argument : plan.argv) size += argument.size() + kPerText;
  for (const auto& [name, value] : plan.environment) {
    size += name.size() + value.size() + 2 * kPerText;
  }
  for (const Bind& bind : plan.binds) {
    size += bind.host_path.size() + bind.sandbox_path.size() + 2 * kPerText;
  }
  for (const DeviceNode& device : plan.devices) {
    size += device.host_path.size() + device.sandbox_path.size() + 2 * kPerText;
  }
  if (plan.network) {
    size += text_of(plan.network->access).size() + text_of(plan.network->bounds).size();
  }
  size += plan.processors.size() * sizeof(uint32_t);
  if (plan.image) size += plan.image->host_path.size() + kPerText;
  if (plan.zygote) {
    size += plan.zygote->key.size();
    for (const std::string& argument : plan.zygote->argv) size += argument.size() + kPerText;
    for (const auto& [name, value] : plan.zygote->environment) {
      size += name.size() + value.size() + 2 * kPerText;
    }
    for (const Bind& bind : plan.zygote->binds) {
      size += bind.host_path.size() + bind.sandbox_path.size() + 2 * kPerText;
    }
  }
  if (size + 1024 > limits::kLauncherMessage.count) {
    return invalid("argv, environment and paths",
                   "are together larger than " + to_string(limits::kLauncherMessage));
  }
  return {};
}

Result<void> check_hostname(const std::string& hostname) {
  if (hostname.empty() || hostname.size() > 64) {
    return invalid("hostname", "has not between 1 and 64 characters");
  }
  for (const char c : hostname) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.';
    if (!plain) return invalid("hostname", "may hold only letters, digits, '-' and '.'");
  }
  return {};
}

Result<void> check_zygote(const LaunchPlan& plan) {
  if (!plan.zygote) return {};
  const ZygotePlan& zygote = *plan.zygote;
  RETURN_IF_ERROR(check_text("a zygote's key", zygote.key));
  if (zygote.key.empty() || zygote.key.size() > limits::kZygoteKeyLength) {
    return invalid("a zygote's key", "is empty or too long");
  }
  LaunchPlan own;
  own.argv = zygote.argv;
  own.environment = zygote.environment;
  own.binds = zygote.binds;
  RETURN_IF_ERROR(check_program(own));
  return check_binds(own);
}

}  // namespace

Result<void> validate(const LaunchPlan& plan) {
  RETURN_IF_ERROR(check_program(plan));
  RETURN_IF_ERROR(check_path("working_directory", plan.working_directory));
  if (!plan.code.empty()) RETURN_IF_ERROR(check_path("code", plan.code));
  RETURN_IF_ERROR(check_binds(plan));
  RETURN_IF_ERROR(check_secret_files(plan));
  RETURN_IF_ERROR(check_devices(plan));
  RETURN_IF_ERROR(check_processors(plan));
  RETURN_IF_ERROR(check_hostname(plan.hostname));
  RETURN_IF_ERROR(check_zygote(plan));
  if (plan.image) RETURN_IF_ERROR(check_path("the image's root", plan.image->host_path));
  if (plan.image && plan.zygote) return invalid("image", "goes with no zygote");
  if (plan.network) RETURN_IF_ERROR(validate(plan.network->access));
  RETURN_IF_ERROR(check_size(plan));
  return check_limits(plan.limits);
}

}  // namespace lambent::sandbox
