#include "conformance/driver.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>

namespace lambent::conformance {

namespace {
template <class Function>
bool find(void* library, const char* symbol, Function* function, std::string* error) {
  *function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (!*function && error->empty()) *error = std::string("no symbol ") + symbol;
  return *function != nullptr;
}

void* open_library(const std::string& path, std::string* error) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) *error = dlerror();
  return library;
}
}  // namespace

bool Driver::load(const std::string& path, std::string* error) {
  void* library = open_library(path, error);
  if (!library) return false;
#define DRIVER_FUNCTION(name, symbol, parameters) find(library, #symbol, &name, error);
#include "gpu/cuda_abi/driver_table.inc"
#undef DRIVER_FUNCTION
  return error->empty();
}

bool Nvml::load(const std::string& path, std::string* error) {
  void* library = open_library(path, error);
  if (!library) return false;
#define NVML_FUNCTION(name, symbol, parameters) find(library, #symbol, &name, error);
#include "gpu/cuda_abi/nvml_table.inc"
#undef NVML_FUNCTION
  return error->empty();
}

namespace {
std::string file(const char* in_data, const char* built) {
  return data_path().empty() ? built : data_path() + "/" + in_data;
}
}  // namespace

std::string host_module() { return file("kernels/host-x86_64.so", CONFORMANCE_HOST_MODULE); }
std::string gpu_module() { return file("kernels/compute_80.ptx", CONFORMANCE_PTX_MODULE); }
std::string outdated_module() { return file("outdated_kernel.so", CONFORMANCE_OUTDATED_MODULE); }
std::string presets() { return file("presets", CONFORMANCE_PRESETS); }

std::vector<char> kernel_image(std::string* why_not) {
  std::string path = driver().emulated ? host_module() : gpu_module();
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    *why_not = "no kernels for this driver at '" + path + "'";
    return {};
  }
  std::vector<char> image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  image.push_back('\0');
  return image;
}

bool Peer::start(const std::string& role) {
  int in[2], out[2];
  // Its input is a socket, so that descriptors can be sent along.
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, in) != 0 || pipe(out) != 0) return false;
  pid = fork();
  if (pid == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    for (int fd : {in[0], in[1], out[0], out[1]}) close(fd);
    std::string role_flag = "--role=" + role, driver_flag = "--driver=" + driver_path(),
                nvml_flag = "--nvml=" + nvml_path(), data_flag = "--data=" + data_path();
    execl("/proc/self/exe", "conformance_test", role_flag.c_str(), driver_flag.c_str(),
          nvml_flag.c_str(), data_flag.c_str(), nullptr);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  to = in[1];
  from = out[0];
  return pid > 0;
}

bool Peer::expect(char byte) {
  char got = 0;
  return read(from, &got, 1) == 1 && got == byte;
}

void Peer::tell(char byte) {
  if (write(to, &byte, 1) != 1) return;
}

bool send_descriptor(int socket, int descriptor) {
  char byte = 'd';
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return sendmsg(socket, &message, 0) == 1;
}

int receive_descriptor(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  int descriptor = -1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, 0) != 1) return -1;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (!header || header->cmsg_type != SCM_RIGHTS) return -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

std::string Peer::read_line() {
  std::string line;
  for (char c; read(from, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

void Peer::kill_and_wait() {
  kill(pid, SIGKILL);
  wait_for_exit();
}

int Peer::wait_for_exit() {
  int status = 0;
  close(to);
  waitpid(pid, &status, 0);
  close(from);
  pid = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace lambent::conformance
