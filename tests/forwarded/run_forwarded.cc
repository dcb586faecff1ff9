// run_forwarded [--memory BYTES] [NAME=VALUE ...] PROGRAM ARGUMENTS...: runs a program as a client
// of a lambent-executor on an emulated device of its own; the settings are the executor's. Exits as
// the program does.
#include <cstdlib>
#include <iostream>

#include "forwarded/forwarding_host.h"

int main(int count, char** words) {
  using namespace lambent;
  std::vector<std::string> program(words + 1, words + count);
  Bytes memory = Bytes::mib(192);
  std::vector<std::pair<std::string, std::string>> settings;
  if (program.size() > 1 && program[0] == "--memory") {
    memory = Bytes(std::strtoull(program[1].c_str(), nullptr, 10));
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
  host.add_client(1, memory);
  const int status = host.run(1, program);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
