// lambent: the client's command. Parses flags, reads the environment, and hands over to room cli;
// 'serve' and 'bundle' are programs of their own beside this one.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "bin/lambent_commands.h"
#include "bin/lambent_paths.h"

namespace {

using namespace lambent;

// `lambent serve ...` is `lambent-worker ...` from the same folder.
int exec_sibling(const std::string& program, int argc, char** argv) {
  const std::string path = bin::own_folder() + "/" + program;
  std::vector<char*> arguments = {const_cast<char*>(path.c_str())};
  for (int i = 2; i < argc; ++i) arguments.push_back(argv[i]);
  arguments.push_back(nullptr);
  execv(path.c_str(), arguments.data());
  std::cerr << "lambent: NOT_FOUND: cannot run " << path << ": " << std::strerror(errno) << "\n";
  return exit_code_of(ErrorCode::kNotFound);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "serve") return exec_sibling("lambent-worker", argc, argv);
  if (first == "bundle") return exec_sibling("lambent-bundle", argc, argv);
  return bin::run_client_command(argc, argv);
}
