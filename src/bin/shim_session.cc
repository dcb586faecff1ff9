#include "bin/shim_session.h"

#include <stdlib.h>
#include <sys/socket.h>

#include <cerrno>

#include "core/base/packet.h"
#include "core/protocol/memory_codec.h"

namespace lambent {
namespace {

constexpr uint64_t kSandbox = 1;
constexpr size_t kMostLog = 1 << 20;

}  // namespace

Result<std::unique_ptr<ShimSession>> ShimSession::open(loop::EventLoop& loop,
                                                       ShimSessionOptions options) {
  std::string name = std::filesystem::temp_directory_path() / "lambent-shim-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) return error_from_errno("make " + name, errno);
  std::unique_ptr<ShimSession> session(new ShimSession(loop, std::move(options), name));
  RETURN_IF_ERROR(session->start());
  return session;
}

ShimSession::ShimSession(loop::EventLoop& loop, ShimSessionOptions options,
                         std::filesystem::path folder)
    : loop_(loop), options_(std::move(options)), folder_(std::move(folder)) {}

ShimSession::~ShimSession() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Result<void> ShimSession::start() {
  ASSIGN_OR_RETURN(auto ledger, ledger::create_ledger(folder_ / "ledger", options_.limit));
  ledger_.emplace(std::move(ledger));
  ASSIGN_OR_RETURN(channel_, worker::MemoryChannel::open(loop_, log_, folder_ / "memory",
                                                         [this](worker::MemoryMove move) {
                                                           if (on_moved) on_moved(move);
                                                         }));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return error_from_errno("socketpair", errno);
  }
  control_ = OwnedFd(ends[0]);
  service_ = std::make_unique<monitor::MemoryService>(
      loop_, OwnedFd(ends[1]),
      monitor::MemoryServiceOptions{.budget = options_.host_memory, .sparse = options_.emulated},
      [] {});
  ASSIGN_OR_RETURN(const OwnedFd listener, listen_packets(folder_ / "link", 0600));
  protocol::MemoryMessage message;
  message.kind = protocol::MemoryMessageKind::kServeSandbox;
  message.sequence = kSandbox;
  message.bytes = options_.host_memory.count;
  const int fds[] = {listener.get()};
  return send_packet(control_.get(), protocol::bytes_of(message), fds);
}

std::vector<std::string> ShimSession::variables() const {
  const std::string nvml =
      options_.nvml.empty()
          ? std::filesystem::path(options_.driver).parent_path() / "libnvidia-ml.so.1"
          : std::filesystem::path(options_.nvml);
  std::vector<std::string> variables = {
      "LD_PRELOAD=" + options_.shim_folder + "/liblambent_shim.so:" + options_.shim_folder +
          "/liblambent_shim_nvml.so",
      "LAMBENT_SHIM_DRIVER=" + options_.driver,
      "LAMBENT_SHIM_NVML=" + nvml,
      "LAMBENT_SHIM_LEDGER=" + (folder_ / "ledger").string(),
      "LAMBENT_SHIM_LOG=" + (folder_ / "log").string(),
      "LAMBENT_SHIM_MEMORY=" + (folder_ / "memory").string(),
      "LAMBENT_SHIM_LINK=" + (folder_ / "link").string(),
      "LAMBENT_SHIM_MEMORY_MODE=" + std::string(name_of(options_.mode)),
      "LAMBENT_SHIM_WORKING_SET=" + std::string(name_of(options_.working_set)),
      "LAMBENT_SHIM_UVM=" + options_.managed_memory};
  if (options_.emulated) variables.push_back("LAMBENT_SHIM_OVERSUBSCRIBE=1");
  return variables;
}

std::string ShimSession::log_text() const {
  auto text = read_file(folder_ / "log", kMostLog);
  return text.ok() ? std::move(*text) : "";
}

}  // namespace lambent
