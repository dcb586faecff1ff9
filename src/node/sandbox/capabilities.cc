#include "node/sandbox/capabilities.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "node/sandbox/cgroup.h"
#include "node/sandbox/channel.h"
#include "node/sandbox/network_device.h"
#include "node/sandbox/program.h"
#include "node/sandbox/syscalls.h"

namespace lambent::sandbox {
namespace {

// Runs `attempt` in a child process and brings its outcome back.
Result<void> try_in_child(const std::function<Result<void>()>& attempt) {
  ASSIGN_OR_RETURN(auto ends, Channel::make_pair());
  ASSIGN_OR_RETURN(Cloned cloned, clone_process(0, -1));
  if (cloned.pid == 0) {
    const Result<void> outcome = attempt();
    if (!outcome.ok()) (void)ends.second.send(FailedReply{SandboxId(), outcome.error()});
    _exit(0);
  }
  ends.second.close();
  auto word = ends.first.receive();
  waitpid(cloned.pid, nullptr, 0);
  if (word.ok() && *word) return std::get<FailedReply>((*word)->message).error;
  return {};
}

// What init does: every namespace, and a fresh /proc (which a container with a masked /proc does
// not allow).
Result<void> make_namespaces() {
  ASSIGN_OR_RETURN(Cloned cloned, clone_process(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET |
                                                    CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP,
                                                -1));
  if (cloned.pid == 0) {
    const bool mounted = mount("", "/", nullptr, MS_SLAVE | MS_REC, nullptr) == 0 &&
                         mount("proc", "/sys", "proc", 0, nullptr) == 0;
    _exit(mounted ? 0 : errno);
  }
  int status = 0;
  waitpid(cloned.pid, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return error_from_errno("mount a fresh /proc", WIFEXITED(status) ? WEXITSTATUS(status) : EIO);
}

Result<void> try_launcher(bool root, bool nested) {
  return try_in_child([=]() -> Result<void> {
    RETURN_IF_ERROR(enter_launcher_namespaces(root));
    RETURN_IF_ERROR(make_namespaces());
    if (root) RETURN_IF_ERROR(become_nobody());
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // or the maps of a namespace could not be written
    return nested ? enter_user_namespace(65534, 0) : Result<void>{};
  });
}

}  // namespace

Result<void> enter_launcher_namespaces(bool root) {
  if (root) {
    if (unshare(CLONE_NEWNS) != 0) return error_from_errno("create a mount namespace", errno);
  } else {
    RETURN_IF_ERROR(enter_user_namespace(0, CLONE_NEWNS));
  }
  if (mount("", "/", nullptr, MS_SLAVE | MS_REC, nullptr) != 0) {
    return error_from_errno("detach the mounts", errno);
  }
  return {};
}

Capabilities probe_namespaces() {
  Capabilities capabilities;
  const bool superuser = geteuid() == 0;
  const Result<void> as_root =
      superuser ? try_launcher(true, false)
                : Result<void>(Error{ErrorCode::kPermissionDenied, "not the superuser"});
  capabilities.root = as_root.ok();
  // As root of a user namespace with one user we do as ordinary users do.
  if (superuser && !as_root.ok()) capabilities.same_user_reason = as_root.error().message;
  const Result<void> with_users = try_launcher(capabilities.root, true);
  capabilities.user_namespaces = with_users.ok();
  if (!capabilities.root && !with_users.ok()) {
    capabilities.impossible =
        "without root they need user namespaces (" + with_users.error().message +
        "; see kernel.unprivileged_userns_clone, user.max_user_namespaces and "
        "kernel.apparmor_restrict_unprivileged_userns)";
    if (superuser) capabilities.impossible += "; as root: " + as_root.error().message;
  }
  capabilities.network_reason = try_network_device();
  return capabilities;
}

Capabilities probe_capabilities(const std::string& cgroup_parent) {
  Capabilities capabilities = probe_namespaces();
  CgroupTree::open(cgroup_parent).describe(capabilities);
  return capabilities;
}

std::vector<std::string> weaker_limits(const Capabilities& capabilities) {
  std::vector<std::string> weaker;
  const std::string why =
      capabilities.cgroup_reason.empty() ? "" : " (" + capabilities.cgroup_reason + ")";
  if (!capabilities.memory_cgroup) {
    weaker.push_back("memory is only looked at every 20 ms, not held to its limit by a cgroup" +
                     why);
  }
  if (!capabilities.pids_cgroup) {
    weaker.push_back("processes are limited by RLIMIT_NPROC, not by a cgroup" + why);
  }
  if (!capabilities.cpu_cgroup) weaker.push_back("a CPU quota is not enforced" + why);
  if (!capabilities.same_user_reason.empty()) {
    weaker.push_back("outside, programs are the worker's own user, with its groups (" +
                     capabilities.same_user_reason + ")");
  }
  if (!capabilities.user_namespaces) {
    weaker.push_back("programs share the host's user namespace (as nobody)");
  }
  return weaker;
}

std::string to_string(const Capabilities& capabilities) {
  auto yes_no = [](bool flag) { return flag ? "yes\n" : "no\n"; };
  if (!capabilities.impossible.empty()) {
    return "sandboxes: impossible: " + capabilities.impossible + "\n";
  }
  std::string text = "sandboxes: possible\n";
  text += std::string("rights: ") + (capabilities.root ? "root\n" : "user namespace\n");
  text += std::string("own user namespace: ") + yes_no(capabilities.user_namespaces);
  const char* versions[] = {"none\n", "v1\n", "v2\n"};
  text += std::string("cgroup: ") + versions[static_cast<int>(capabilities.cgroup)];
  text += std::string("memory cgroup: ") + yes_no(capabilities.memory_cgroup);
  text += std::string("pids cgroup: ") + yes_no(capabilities.pids_cgroup);
  text += std::string("cpu cgroup: ") + yes_no(capabilities.cpu_cgroup);
  text += "network: " +
          (capabilities.network_reason.empty() ? "yes" : "no, " + capabilities.network_reason) +
          "\n";
  for (const std::string& sentence : weaker_limits(capabilities)) {
    text += "weaker: " + sentence + "\n";
  }
  return text;
}

}  // namespace lambent::sandbox
