// lambent-executor: runs kernel functions of one tenant on one device, in a process with one CUDA
// context. Started by the worker in a sandbox; speaks to it over one socket and ends with it, or
// when a kernel has broken the context.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>

#include "bin/pool_flags.h"
#include "core/base/time.h"
#include "gpu/executor/executor.h"
#include "gpu/executor/link_turns.h"

namespace {

using namespace lambent;

Result<OwnedFd> connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Error{ErrorCode::kInvalidArgument, path + " is too long for the name of a socket"};
  }
  memcpy(address.sun_path, path.c_str(), path.size() + 1);
  OwnedFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return error_from_errno("socket", errno);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return error_from_errno("connect to " + path, errno);
  }
  return fd;
}

// What it returns is what the process exits with.
Result<int> run(OwnedFd socket, int ordinal, executor::ExecutorOptions options) {
  const SystemClock clock;
  const Instant begin = clock.now();
  ASSIGN_OR_RETURN(const auto driver, cuda::Driver::load());
  ASSIGN_OR_RETURN(const auto context, cuda::Context::create(*driver, ordinal));
  loop::EventLoop loop(clock);
  int code = 0;
  ASSIGN_OR_RETURN(const auto executor,
                   executor::Executor::create(loop, *driver, context, std::move(socket), ordinal,
                                              std::move(options), [&](int how) {
                                                code = how;
                                                loop.stop();
                                              }));
  executor->say_hello(clock.now() - begin);
  loop.run();
  // Nothing is tidied up: what still runs on the device may never end, and all goes with us.
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace

int main(int count, char** words) {
  CLI::App app("Runs kernel functions of one tenant on one device, as its worker says.");
  std::string socket;
  int ordinal = 0;
  app.add_option("--socket", socket, "The worker's SOCK_SEQPACKET socket")->required();
  app.add_option("--device", ordinal, "Ordinal of the device, among those visible")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  executor::ExecutorOptions options;
  auto& transfers = options.transfers;
  app.add_option("--link", transfers.link_path,
                 "lambent-device's socket, which gives turns on the device's link");
  uint64_t block_kib = transfers.order.block.count >> 10;
  app.add_option("--transfer-block-kib", block_kib, "Copies are cut into blocks of this size")
      ->capture_default_str()
      ->check(CLI::Range(uint64_t{4}, executor::kLinkQuantum.count >> 10));
  app.add_option("--transfer-batch", transfers.order.batch,
                 "Blocks that are queued before who came meanwhile has a turn; 0: all that wait")
      ->capture_default_str();
  app.add_flag("!--no-fusing", transfers.order.fuse, "Small neighbours do not share a block");
  app.add_flag("!--first-come", transfers.order.fair, "Functions do not take turns on the link");
  app.add_flag("!--no-pipelining", options.pipelined,
               "A function is ready when all its constants are on the device, not before");
  app.add_flag("!--no-device-loops", options.device_loops,
               "The host looks at a loop's flag after each round, also where the device could");
  app.add_option(
         "--cublas", options.blas_libraries,
         "A libcublas.so for the linear algebra that is built in; of several, the first that "
         "works. None: kernels of Lambent's own")
      ->allow_extra_args(false);
  bin::add_pool_rule(app, "--pool-rule", options.pool);
  uint64_t hold_ms = static_cast<uint64_t>(to_milliseconds(options.pool_hold));
  app.add_option("--pool-hold-ms", hold_ms,
                 "How long a function without requests keeps it under the rules that give it back")
      ->capture_default_str()
      ->check(CLI::Range(uint64_t{0}, uint64_t{3'600'000}));
  uint64_t interval_ms = 0;
  app.add_option(
         "--pool-interval-ms", interval_ms,
         "How far ahead the pool of the layered rules looks; 0: as long as the driver takes "
         "for 200 MB")
      ->check(CLI::Range(uint64_t{0}, uint64_t{60'000}));
  uint64_t drain_ms = static_cast<uint64_t>(to_milliseconds(options.forwarding.drain));
  app.add_option("--client-drain-ms", drain_ms,
                 "How long work that a forwarded process left behind may go on; then the executor "
                 "ends, for it may never stop")
      ->capture_default_str()
      ->check(CLI::Range(uint64_t{1}, uint64_t{3'600'000}));
  uint64_t last_call_ms = static_cast<uint64_t>(to_milliseconds(options.forwarding.last_call));
  app.add_option("--client-last-call-ms", last_call_ms,
                 "The same of a call that the driver is in when its process has gone")
      ->capture_default_str()
      ->check(CLI::Range(uint64_t{1}, uint64_t{3'600'000}));
  CLI11_PARSE(app, count, words);
  options.forwarding.drain = milliseconds(drain_ms);
  options.forwarding.last_call = milliseconds(last_call_ms);
  if (interval_ms > 0) options.pool_interval = milliseconds(interval_ms);
  options.pool_hold = milliseconds(hold_ms);
  transfers.order.block = Bytes::kib(block_kib);

  auto connected = connect_to(socket);
  const auto code = connected.ok() ? run(std::move(*connected), ordinal, std::move(options))
                                   : Result<int>(connected.error());
  if (code.ok()) return *code;
  std::fprintf(stderr, "lambent-executor: %s\n", to_string(code.error()).c_str());
  return exit_code_of(code.error().code);
}
