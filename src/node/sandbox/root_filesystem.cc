#include "node/sandbox/root_filesystem.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "core/domain/function_limits.h"
#include "core/domain/secret.h"
#include "node/network/inner_network.h"
#include "node/sandbox/syscalls.h"

namespace lambent::sandbox {
namespace {

// The new root grows here, in the sandbox's own view of the host, until it replaces that view. No
// plan shows anything of /sys, so nothing that is needed gets hidden.
const std::string kStaging = "/sys";

constexpr uint64_t kHarmless = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

Error failed(const std::string& doing) { return error_from_errno(doing, errno); }

Result<void> make_folder(const std::string& path) {
  if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return failed("create folder " + path);
  return {};
}

// `inside` and the folders above it, all below `root`.
Result<void> make_folders(const std::string& root, const std::string& inside) {
  for (size_t end = inside.find('/', 1);; end = inside.find('/', end + 1)) {
    RETURN_IF_ERROR(make_folder(root + inside.substr(0, end)));
    if (end == std::string::npos) return {};
  }
}

Result<void> make_file(const std::string& path, std::string_view content, mode_t mode = 0644) {
  OwnedFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, mode));
  if (!fd.valid()) return failed("create " + path);
  return write_all(fd.get(), content);
}

Result<void> make_link(const std::string& target, const std::string& path) {
  if (symlink(target.c_str(), path.c_str()) != 0) return failed("link " + path);
  return {};
}

Result<void> set_attributes(const std::string& path, uint64_t attributes, bool recursive) {
  if (attributes == 0) return {};
  mount_attr attribute{};
  attribute.attr_set = attributes;
  if (syscall(SYS_mount_setattr, AT_FDCWD, path.c_str(), recursive ? AT_RECURSIVE : 0, &attribute,
              sizeof(attribute)) != 0) {
    return failed("protect the mount at " + path);
  }
  return {};
}

// Shows `host` at `inside`, with everything that is mounted below it: the kernel does not let a
// user namespace look under mounts that it was given.
Result<void> show_at(const std::string& host, const std::string& inside, uint64_t attributes) {
  const std::string target = kStaging + inside;
  if (mount(host.c_str(), target.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) {
    return failed("show " + host + " at " + inside);
  }
  return set_attributes(target, attributes, true);
}

Result<void> mount_new(const char* type, const std::string& inside, unsigned long flags,
                       const std::string& options) {
  if (mount(type, (kStaging + inside).c_str(), type, flags, options.c_str()) != 0) {
    return failed("mount " + std::string(type) + " at " + inside);
  }
  return {};
}

// A folder stays a folder and a link stays a link: /bin -> usr/bin.
Result<void> show_system_folders() {
  for (const char* name : {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}) {
    struct stat status {};
    if (lstat(name, &status) != 0) continue;
    if (S_ISLNK(status.st_mode)) {
      std::array<char, 256> target{};
      if (readlink(name, target.data(), target.size() - 1) < 0) return failed("read a link");
      RETURN_IF_ERROR(make_link(target.data(), kStaging + name));
    } else if (S_ISDIR(status.st_mode)) {
      RETURN_IF_ERROR(make_folder(kStaging + name));
      RETURN_IF_ERROR(show_at(name, name, kHarmless | MOUNT_ATTR_RDONLY));
    }
  }
  return {};
}

// What programs need of /etc. Nothing here tells one host from another, and no accounts or secrets.
Result<void> make_etc() {
  RETURN_IF_ERROR(make_folder(kStaging + "/etc"));
  RETURN_IF_ERROR(make_file(kStaging + "/etc/passwd",
                            "root:x:0:0:root:/:/usr/sbin/nologin\n"
                            "nobody:x:65534:65534:nobody:/tmp:/usr/sbin/nologin\n"));
  RETURN_IF_ERROR(make_file(kStaging + "/etc/group", "root:x:0:\nnogroup:x:65534:\n"));
  // Programs look their own host up (Java, torch.distributed); all functions have the same name.
  RETURN_IF_ERROR(make_file(kStaging + "/etc/hosts",
                            "127.0.0.1 localhost " + LaunchPlan().hostname + "\n::1 localhost\n"));
  RETURN_IF_ERROR(make_file(kStaging + "/etc/nsswitch.conf",
                            "passwd: files\ngroup: files\nhosts: files\nservices: files\n"));
  RETURN_IF_ERROR(make_file(kStaging + "/etc/resolv.conf", ""));
  for (const char* name :
       {"/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl/certs", "/etc/localtime",
        "/etc/services", "/etc/protocols", "/etc/mime.types", "/etc/python3", "/etc/python3.11",
        "/etc/fonts", "/etc/OpenCL", "/etc/R", "/etc/java-11-openjdk", "/etc/java-17-openjdk",
        "/etc/java-21-openjdk", "/etc/java-25-openjdk"}) {
    struct stat status {};
    if (stat(name, &status) != 0) continue;
    if (S_ISDIR(status.st_mode)) {
      RETURN_IF_ERROR(make_folders(kStaging, name));
    } else {
      RETURN_IF_ERROR(make_file(kStaging + name, ""));
    }
    RETURN_IF_ERROR(show_at(name, name, kHarmless | MOUNT_ATTR_RDONLY));
  }
  return {};
}

Result<void> make_dev() {
  RETURN_IF_ERROR(make_folder(kStaging + "/dev"));
  for (const char* name : {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}) {
    RETURN_IF_ERROR(make_file(kStaging + name, "", 0));
    RETURN_IF_ERROR(show_at(name, name, MOUNT_ATTR_NOSUID));
  }
  RETURN_IF_ERROR(make_link("/proc/self/fd", kStaging + "/dev/fd"));
  RETURN_IF_ERROR(make_link("/proc/self/fd/0", kStaging + "/dev/stdin"));
  RETURN_IF_ERROR(make_link("/proc/self/fd/1", kStaging + "/dev/stdout"));
  RETURN_IF_ERROR(make_link("/proc/self/fd/2", kStaging + "/dev/stderr"));
  RETURN_IF_ERROR(make_folder(kStaging + "/dev/shm"));
  return mount_new(
      "tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV | MS_NOEXEC,
      "mode=1777,nr_inodes=16k,size=" + std::to_string(limits::kSandboxSharedMemory.count));
}

// The kernel's switches are read-only, and what tells of the host is covered.
Result<void> make_proc() {
  RETURN_IF_ERROR(make_folder(kStaging + "/proc"));
  RETURN_IF_ERROR(mount_new("proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, ""));
  for (const char* name : {"/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs"}) {
    const std::string path = kStaging + name;
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) continue;
    RETURN_IF_ERROR(show_at(path, name, kHarmless | MOUNT_ATTR_RDONLY));
  }
  for (const char* name : {"/proc/sysrq-trigger", "/proc/kcore", "/proc/keys", "/proc/kallsyms",
                           "/proc/timer_list", "/proc/sched_debug", "/proc/kmsg"}) {
    struct stat status {};
    if (stat((kStaging + name).c_str(), &status) != 0) continue;
    RETURN_IF_ERROR(show_at("/dev/null", name, 0));
  }
  return {};
}

Result<OwnedFd> open_source(const std::string& path) {
  // With everything that is mounted below: the kernel does not let it be left out.
  const long fd = syscall(SYS_open_tree, AT_FDCWD, path.c_str(),
                          OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
  if (fd < 0) return failed("show " + path);
  return OwnedFd(static_cast<int>(fd));
}

// The same of a path that may have no symbolic link in any of its parts.
Result<OwnedFd> open_source_without_links(const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const OwnedFd place(
      static_cast<int>(syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof(how))));
  if (!place.valid()) return failed("show " + path);
  const long fd = syscall(SYS_open_tree, place.get(), "",
                          AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
  if (fd < 0) return failed("show " + path);
  return OwnedFd(static_cast<int>(fd));
}

// A folder or a file in a device's place could show more than a device.
Result<OwnedFd> open_device(const std::string& path) {
  ASSIGN_OR_RETURN(OwnedFd source, open_source(path));
  struct stat status {};
  if (fstat(source.get(), &status) != 0) return failed("show " + path);
  if (!S_ISCHR(status.st_mode)) {
    return Error{ErrorCode::kInvalidArgument, "show " + path + ": it is no character device"};
  }
  return source;
}

// Attaches an opened source at `inside`, making a place of its kind for it.
Result<void> attach(const OwnedFd& source, const std::string& inside, uint64_t attributes) {
  struct stat status {};
  if (fstat(source.get(), &status) != 0) return failed("show something at " + inside);
  if (S_ISDIR(status.st_mode)) {
    RETURN_IF_ERROR(make_folders("", inside));
  } else {
    if (const size_t slash = inside.rfind('/'); slash > 0) {
      RETURN_IF_ERROR(make_folders("", inside.substr(0, slash)));
    }
    RETURN_IF_ERROR(make_file(inside, ""));
  }
  if (syscall(SYS_move_mount, source.get(), "", AT_FDCWD, inside.c_str(),
              MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return failed("show something at " + inside);
  }
  return set_attributes(inside, attributes, true);
}

// In a file system whose pages are never swapped, so that they reach no disk, and which ends with
// the sandbox's mounts, however that ends.
Result<void> show_secrets(const std::map<std::string, std::string>& files) {
  if (files.empty()) return {};
  RETURN_IF_ERROR(make_folders("", kSecretFolder));
  if (mount("ramfs", kSecretFolder, "ramfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0755") != 0) {
    return failed("mount memory for files with secrets");
  }
  for (const auto& [name, content] : files) {
    RETURN_IF_ERROR(make_file(std::string(kSecretFolder) + "/" + name, content, 0444));
  }
  return set_attributes(kSecretFolder, MOUNT_ATTR_RDONLY, false);
}

// As far as the image allows it: its /etc may be no folder. In the place of a link, whose target
// may be missing, comes a file.
void name_this_host(const std::string& hostname) {
  (void)make_folder("/etc");
  const std::pair<const char*, std::string> files[] = {
      {"/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n127.0.0.1 " + hostname + "\n"},
      {"/etc/hostname", hostname + "\n"},
      {"/etc/resolv.conf", ""}};
  for (const auto& [path, content] : files) {
    unlink(path);
    (void)make_file(path, content);
  }
}

// pivot_root(".", "."): the old root comes to lie on top of the new one and is taken off. Taking it
// off can wait for milliseconds on a busy machine, which is why it happens ahead of time.
Result<void> leave_for(const std::string& root) {
  if (chdir(root.c_str()) != 0) return failed("enter the new root");
  if (syscall(SYS_pivot_root, ".", ".") != 0) return failed("pivot_root");
  if (umount2(".", MNT_DETACH) != 0) return failed("take the old root away");
  if (chdir("/") != 0) return failed("enter the new root");
  return {};
}

// The image's tree with memory over it becomes "/"; /proc and /dev come along. Set-user-id bits and
// device files of the image have no effect there.
Result<void> enter_image(const LaunchPlan& plan, const OwnedFd& source) {
  const std::string lower = "/image/lower", memory = "/image/memory", root = "/image/root";
  RETURN_IF_ERROR(attach(source, lower, kHarmless | MOUNT_ATTR_RDONLY));
  RETURN_IF_ERROR(make_folder(memory));
  RETURN_IF_ERROR(make_folder(root));
  const std::string size = "mode=755,nr_inodes=128k,size=";
  if (mount("tmpfs", memory.c_str(), "tmpfs", MS_NOSUID | MS_NODEV,
            (size + std::to_string(plan.limits.scratch.count)).c_str()) != 0) {
    return failed("mount memory over the image");
  }
  const std::string upper = memory + "/upper", work = memory + "/work";
  RETURN_IF_ERROR(make_folder(upper));
  RETURN_IF_ERROR(make_folder(work));
  // "/" itself is the program's as well, like all below it.
  struct stat top {};
  if (stat(lower.c_str(), &top) != 0) return failed("look at the image's root");
  if (chown(upper.c_str(), top.st_uid, top.st_gid) != 0) return failed("give the root its owner");
  const std::string options =
      "userxattr,lowerdir=" + lower + ",upperdir=" + upper + ",workdir=" + work;
  if (mount("overlay", root.c_str(), "overlay", MS_NOSUID | MS_NODEV, options.c_str()) != 0) {
    return failed("lay memory over the image (overlayfs)");
  }
  ASSIGN_OR_RETURN(const OwnedFd proc, open_source("/proc"));
  ASSIGN_OR_RETURN(const OwnedFd dev, open_source("/dev"));
  RETURN_IF_ERROR(leave_for(root));
  RETURN_IF_ERROR(attach(proc, "/proc", 0));
  RETURN_IF_ERROR(attach(dev, "/dev", 0));
  name_this_host(plan.hostname);
  RETURN_IF_ERROR(make_folder("/tmp"));
  return make_folders("", plan.working_directory);
}

}  // namespace

Result<void> build_common_root() {
  umask(0022);
  // What the host mounts later still shows up here (and nothing of ours out there).
  if (mount("", "/", nullptr, MS_SLAVE | MS_REC, nullptr) != 0) return failed("detach the mounts");
  RETURN_IF_ERROR(mount_new("tmpfs", "", MS_NOSUID | MS_NODEV, "mode=755,size=1m,nr_inodes=1k"));
  RETURN_IF_ERROR(show_system_folders());
  RETURN_IF_ERROR(make_etc());
  RETURN_IF_ERROR(make_dev());
  for (const char* name : {"/tmp", "/run", "/var", "/var/task", "/opt", "/mnt"}) {
    RETURN_IF_ERROR(make_folder(kStaging + name));
  }
  RETURN_IF_ERROR(make_link("/tmp", kStaging + "/var/tmp"));
  RETURN_IF_ERROR(make_proc());
  return leave_for(kStaging);
}

Result<void> use_name_server() {
  RETURN_IF_ERROR(
      write_text("/etc/resolv.conf", std::string("nameserver ") + network::kRouterV4 + "\n"));
  return write_text("/etc/nsswitch.conf",
                    "passwd: files\ngroup: files\nhosts: files dns\nservices: files\n");
}

Result<std::vector<OwnedFd>> open_sources(const LaunchPlan& plan) {
  std::vector<OwnedFd> sources;
  auto add = [&](Result<OwnedFd> source) -> Result<void> {
    if (source.ok()) sources.push_back(std::move(*source));
    return source.ok() ? Result<void>{} : source.error();
  };
  if (!plan.code.empty()) RETURN_IF_ERROR(add(open_source(plan.code)));
  for (const Bind& bind : plan.binds) {
    RETURN_IF_ERROR(add(bind.without_links ? open_source_without_links(bind.host_path)
                                           : open_source(bind.host_path)));
  }
  for (const DeviceNode& device : plan.devices) RETURN_IF_ERROR(add(open_device(device.host_path)));
  if (plan.image) RETURN_IF_ERROR(add(open_source(plan.image->host_path)));
  return sources;
}

Result<void> complete_root(const LaunchPlan& plan, std::span<const OwnedFd> sources) {
  const size_t expected =
      (plan.code.empty() ? 0 : 1) + plan.binds.size() + plan.devices.size() + (plan.image ? 1 : 0);
  if (sources.size() != expected) {
    return Error{ErrorCode::kInternal, "the plan's sources did not all arrive"};
  }
  if (plan.image) RETURN_IF_ERROR(enter_image(plan, sources.back()));
  const std::string options = "mode=1777,nr_inodes=128k,size=";
  if (mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV,
            (options + std::to_string(plan.limits.scratch.count)).c_str()) != 0) {
    return failed("mount the scratch space");
  }
  if (plan.limits.shared_memory != limits::kSandboxSharedMemory &&
      mount("", "/dev/shm", nullptr, MS_REMOUNT | MS_NOSUID | MS_NODEV | MS_NOEXEC,
            ("size=" + std::to_string(plan.limits.shared_memory.count)).c_str()) != 0) {
    return failed("give /dev/shm its size");
  }
  auto next = sources.begin();
  if (!plan.code.empty()) {
    RETURN_IF_ERROR(attach(*next++, kCodeFolder, kHarmless | MOUNT_ATTR_RDONLY));
  }
  for (const Bind& bind : plan.binds) {
    RETURN_IF_ERROR(
        attach(*next++, bind.sandbox_path, kHarmless | (bind.writable ? 0 : MOUNT_ATTR_RDONLY)));
  }
  RETURN_IF_ERROR(show_secrets(plan.secret_files));
  for (const DeviceNode& device : plan.devices) {
    RETURN_IF_ERROR(attach(*next++, device.sandbox_path, MOUNT_ATTR_NOSUID));
  }
  // An image's root is the program's to write to, in memory.
  return set_attributes(plan.image ? "/dev" : "/", MOUNT_ATTR_RDONLY, false);
}

}  // namespace lambent::sandbox
