// run_forwarded [--memory BYTES] [--share PERCENT] [NAME=VALUE ...] PROGRAM ARGUMENTS...: runs a
// program as a client of a lambent-executor on an emulated device of its own; the settings are the
// executor's. Exits as the program does.
#include <cstdlib>
#include <iostream>

#include "forwarded/forwarding_host.h"

int main(int count, char** words) {
  using namespace lambent;
  std::vector<std::string> program(words + 1, words + count);
  Bytes memory = Bytes::mib(192);
  uint32_t share = 100;
  std::vector<std::pair<std::string, std::string>> settings;
  while (program.size() > 1 && (program[0] == "--memory" || program[0] == "--share")) {
    const uint64_t number = std::strtoull(program[1].c_str(), nullptr, 10);
    if (program[0] == "--memory") memory = Bytes(number);
    if (program[0] == "--share") share = static_cast<uint32_t>(number);
    program.erase(program.begin(), program.begin() + 2);
  }
  while (!program.empty() && program[0].find('=') != std::string::npos) {
    const size_t equals = program[0].find('=');
    settings.emplace_back(program[0].substr(0, equals), program[0].substr(equals + 1));
    program.erase(program.begin());
  }
  if (program.empty()) {
    std::cerr << "run_forwarded: no program\n";
    return 2;
  }
  forwarded_testing::ForwardingHost host(settings);
  if (!host.executor.expect<protocol::ExecutorHello>()) return 2;
  host.add_client(1, memory, share);
  const int status = host.run(1, program);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
