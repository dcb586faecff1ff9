// ForwardingHost: a real lambent-executor on an emulated device with clients whose processes run
// over forwarded CUDA. Included by tests and by run_forwarded; one thread.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/packet.h"
#include "gpu/executor/testing/process_testing.h"
#include "gpu/ledger/ledger.h"

extern char** environ;

namespace lambent::forwarded_testing {

class ForwardingHost {
 public:
  explicit ForwardingHost(const std::vector<std::pair<std::string, std::string>>& settings = {},
                          const std::vector<std::string>& more = {})
      : executor(settings, more) {}

  // A client of the executor; its processes find it at socket_of().
  ledger::LedgerReader add_client(uint64_t number, Bytes memory, uint32_t share = 100) {
    const std::string ledger_path = folder_ / ("ledger-" + std::to_string(number));
    auto reader = ledger::create_ledger(ledger_path, memory);
    CHECK(reader.ok(), "a test can make a ledger");
    const OwnedFd ledger(open(ledger_path.c_str(), O_RDWR | O_CLOEXEC));
    auto listening = listen_packets(socket_of(number), 0600);
    CHECK(listening.ok(), "a test can listen");
    executor.send(protocol::AddClient{SandboxId(number), memory, share},
                  {listening->get(), ledger.get()});
    return std::move(*reader);
  }
  void remove_client(uint64_t number) { executor.send(protocol::RemoveClient{SandboxId(number)}); }
  std::string socket_of(uint64_t number) const {
    return folder_ / ("client-" + std::to_string(number));
  }

  // Starts a program as a process of the client.
  pid_t start(uint64_t client, std::vector<std::string> words) const {
    std::vector<std::string> environment;
    std::string paths = LAMBENT_BINARY_DIR "/lib/forward";
    for (char** each = environ; *each != nullptr; ++each) {
      const std::string variable = *each;
      if (variable.starts_with("LAMBENT_FORWARD_SOCKET=")) continue;
      if (variable.starts_with("LD_LIBRARY_PATH=")) {
        paths += ":" + variable.substr(variable.find('=') + 1);
      } else {
        environment.push_back(variable);
      }
    }
    environment.push_back("LD_LIBRARY_PATH=" + paths);
    environment.push_back("LAMBENT_FORWARD_SOCKET=" + socket_of(client));
    std::vector<char*> variables, arguments;
    for (auto& each : environment) variables.push_back(each.data());
    variables.push_back(nullptr);
    for (auto& each : words) arguments.push_back(each.data());
    arguments.push_back(nullptr);
    pid_t pid = -1;
    CHECK(
        posix_spawnp(&pid, arguments[0], nullptr, nullptr, arguments.data(), variables.data()) == 0,
        "the program is there");
    return pid;
  }
  static int wait_for(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return status;
  }
  int run(uint64_t client, std::vector<std::string> words) const {
    return wait_for(start(client, std::move(words)));
  }

 private:
  TemporaryFolder folder_;

 public:
  executor::ExecutorProcess executor;  // ends first
};

}  // namespace lambent::forwarded_testing
