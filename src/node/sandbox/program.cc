#include "node/sandbox/program.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <sstream>
#include <vector>

#include "node/sandbox/syscalls.h"

namespace lambent::sandbox {
namespace {

Result<void> set_limit(__rlimit_resource resource, uint64_t amount) {
  rlimit both{amount, amount};
  if (setrlimit(resource, &both) == 0) return {};
  // An ordinary user may be bound lower already: that is at least as strict.
  rlimit now{};
  if (getrlimit(resource, &now) == 0 && now.rlim_max < amount) {
    now.rlim_cur = now.rlim_max;
    if (setrlimit(resource, &now) == 0) return {};
  }
  return error_from_errno("set a resource limit", errno);
}

Result<void> set_limits(const SandboxLimits& limits) {
  RETURN_IF_ERROR(set_limit(RLIMIT_CORE, 0));
  RETURN_IF_ERROR(set_limit(RLIMIT_NOFILE, limits.open_files));
  return set_limit(RLIMIT_FSIZE, limits.file_size.count);
}

uint32_t user_of(const LaunchPlan& plan) { return plan.image ? plan.image->user : kNobody; }

Result<void> give_up_rights(const LaunchPlan& plan, const Confinement& confinement) {
  // Init hides its /proc/self, and so does a change of user; oom_score_adj and the maps need it.
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  // The kernel shall pick the program, not the sandbox's init, when memory runs out.
  (void)write_text("/proc/self/oom_score_adj", "500");
  if (confinement.change_user) RETURN_IF_ERROR(become_nobody());
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  if (confinement.own_user_namespace) RETURN_IF_ERROR(enter_user_namespace(user_of(plan), 0));
  // After the user namespace was made: set earlier it would bind all processes of the host's user
  // together; set now it counts only those in this sandbox.
  if (confinement.limit_by_rlimit) RETURN_IF_ERROR(set_limit(RLIMIT_NPROC, plan.limits.processes));
  return drop_capabilities();
}

std::vector<std::string> candidates(const LaunchPlan& plan) {
  const std::string& name = plan.argv[0];
  if (name.find('/') != std::string::npos) return {name};
  const auto path = plan.environment.find("PATH");
  std::istringstream folders(path == plan.environment.end() ? "/usr/local/bin:/usr/bin:/bin"
                                                            : path->second);
  std::vector<std::string> all;
  std::string folder;
  while (std::getline(folders, folder, ':')) {
    if (!folder.empty()) all.push_back(folder + "/" + name);
  }
  return all;
}

Error cannot_execute(const std::string& path, int error_number) {
  Error error = error_from_errno("execute " + path, error_number);
  const bool there = access(path.c_str(), F_OK) == 0;
  if (error_number == ENOENT && there) {
    error.message +=
        " (the file is there: its '#!' line or its dynamic loader names one that is not)";
  } else if (error_number == EACCES) {
    error.code = ErrorCode::kPermissionDenied;
    error.message += " (the file needs to be executable, and readable for all users)";
  } else if (error_number == ENOEXEC) {
    error.code = ErrorCode::kInvalidArgument;
    error.message += " (neither a program for this machine nor a script with a '#!' line)";
  }
  if (error_number == ENOENT) error.code = ErrorCode::kNotFound;
  return error;
}

Error execute(const LaunchPlan& plan) {
  std::vector<char*> argv;
  for (const std::string& argument : plan.argv) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::vector<std::string> variables;
  for (const auto& [name, value] : plan.environment) variables.push_back(name + "=" + value);
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);

  Error error{ErrorCode::kNotFound, "execute " + plan.argv[0] + ": not found in PATH"};
  for (const std::string& path : candidates(plan)) {
    execve(path.c_str(), argv.data(), environment.data());
    const bool searched = path != plan.argv[0];
    if (!(searched && (errno == ENOENT || errno == ENOTDIR))) return cannot_execute(path, errno);
  }
  return error;
}

}  // namespace

// Nearness is a wish: whatever is wrong with it, the program starts.
void stay_near(pid_t pid, const std::vector<uint32_t>& processors) {
  if (processors.empty()) return;
  // The kernel's sets are as long as the host is large; ours are as long as any may be.
  const size_t size = CPU_ALLOC_SIZE(kMostProcessors);
  std::vector<unsigned long> allowed(size / sizeof(unsigned long));
  std::vector<unsigned long> near(allowed.size());
  auto* const may = reinterpret_cast<cpu_set_t*>(allowed.data());
  auto* const wants = reinterpret_cast<cpu_set_t*>(near.data());
  if (sched_getaffinity(pid, size, may) != 0) return;
  for (const uint32_t processor : processors) {
    if (CPU_ISSET_S(processor, size, may)) CPU_SET_S(processor, size, wants);
  }
  if (CPU_COUNT_S(size, wants) > 0) (void)sched_setaffinity(pid, size, wants);
}

Result<void> become_nobody() {
  if (setgroups(0, nullptr) != 0) return error_from_errno("drop the groups", errno);
  // The capabilities are needed once more, for the user namespace; drop_capabilities() follows.
  prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
  if (setresgid(kNobody, kNobody, kNobody) != 0) return error_from_errno("change group", errno);
  if (setresuid(kNobody, kNobody, kNobody) != 0) return error_from_errno("change user", errno);
  prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
  return raise_permitted_capabilities();
}

Error become_program(const LaunchPlan& plan, const Confinement& confinement, int output) {
  auto prepare = [&]() -> Result<void> {
    setsid();
    if (dup2(output, 1) < 0 || dup2(output, 2) < 0) return error_from_errno("dup2", errno);
    RETURN_IF_ERROR(set_limits(plan.limits));
    stay_near(0, plan.processors);
    RETURN_IF_ERROR(give_up_rights(plan, confinement));
    if (chdir(plan.working_directory.c_str()) != 0) {
      return error_from_errno("enter " + plan.working_directory, errno);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    return install_seccomp_filter(confinement.filter);
  };
  if (auto prepared = prepare(); !prepared.ok()) return prepared.error();
  return execute(plan);
}

Error become_zygote(const LaunchPlan& plan, const Confinement& confinement, int channel) {
  auto prepare = [&]() -> Result<void> {
    setsid();
    rlimit files{};
    if (getrlimit(RLIMIT_FSIZE, &files) != 0) return error_from_errno("getrlimit", errno);
    RETURN_IF_ERROR(set_limit(RLIMIT_CORE, 0));
    RETURN_IF_ERROR(set_limit(RLIMIT_NOFILE, plan.limits.open_files));
    // Plans of its forks may allow larger files, and no one can raise a bound again.
    files.rlim_cur = std::min<rlim_t>(files.rlim_max, plan.limits.file_size.count);
    if (setrlimit(RLIMIT_FSIZE, &files) != 0) return error_from_errno("setrlimit", errno);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    // The kernel shall pick it, not its root, when memory runs out.
    (void)write_text("/proc/self/oom_score_adj", "500");
    RETURN_IF_ERROR(drop_capabilities({CAP_SYS_ADMIN, CAP_SYS_CHROOT}));
    if (chdir(plan.working_directory.c_str()) != 0) {
      return error_from_errno("enter " + plan.working_directory, errno);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    const int dup = channel == 3 ? fcntl(3, F_SETFD, 0) : dup2(channel, 3);
    if (dup < 0) return error_from_errno("dup2", errno);
    return install_seccomp_filter(confinement.zygote_filter);
  };
  if (auto prepared = prepare(); !prepared.ok()) return prepared.error();
  return execute(plan);
}

}  // namespace lambent::sandbox
