// lambent: the client's command. Parses flags, reads the environment, and hands over to room cli;
// 'serve', 'simulate', 'sweep', 'why --journal', 'shim', 'slices', 'bundle' and 'demo' are programs
// of their own; 'run', 'dev' and 'deploy FILE.py' are Python's.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "bin/lambent_commands.h"
#include "bin/lambent_paths.h"
#include "bin/programs.h"
#include "bin/standard_output.h"
#include "core/base/error.h"

namespace {

using namespace lambent;

// The verbs that are programs of their own.
std::string_view program_of(std::string_view verb) {
  for (const bin::Program& each : bin::kPrograms) {
    if (verb == each.verb) return each.program;
  }
  return "";
}

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

// The tour is a Python script, which needs nothing but the interpreter.
int exec_demo(int argc, char** argv) {
  const std::string script = bin::find_shared("demo.py");
  std::vector<char*> arguments = {const_cast<char*>("python3"), const_cast<char*>("-B"),
                                  const_cast<char*>(script.c_str())};
  for (int i = 2; i < argc; ++i) arguments.push_back(argv[i]);
  arguments.push_back(nullptr);
  if (!script.empty()) execvp(arguments[0], arguments.data());
  const std::string why = script.empty()
                              ? "share/lambent/demo.py was not found"
                              : std::string("cannot run python3: ") + std::strerror(errno);
  std::cerr << "lambent: NOT_FOUND: " << why << "\n";
  return exit_code_of(ErrorCode::kNotFound);
}

// What is done with functions of a Python file, by the Python of the user, which has what the file
// imports.
int exec_app_verb(char** argv) {
  const std::string package = bin::find_shared("python");
  const char* others = std::getenv("PYTHONPATH");
  const bool has_others = others != nullptr && *others != '\0';
  if (!package.empty()) {
    setenv("PYTHONPATH", (has_others ? package + ":" + others : package).c_str(), 1);
  }
  setenv("LAMBENT_PROGRAM", "lambent", 1);
  std::vector<char*> arguments = {const_cast<char*>("python3"), const_cast<char*>("-B"),
                                  const_cast<char*>("-m"), const_cast<char*>("lambent")};
  for (char** word = argv + 1; *word != nullptr; ++word) arguments.push_back(*word);
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  std::cerr << "lambent: NOT_FOUND: cannot run python3: " << std::strerror(errno) << "\n";
  return exit_code_of(ErrorCode::kNotFound);
}

// 'run' and 'dev', and 'deploy' of a Python file: one that is no value of an option.
bool is_app_verb(int argc, char** argv) {
  const std::string_view verb = argc > 1 ? argv[1] : "";
  if (verb == "run" || verb == "dev") return true;
  if (verb != "deploy") return false;
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i], before = argv[i - 1];
    if (word.ends_with(".py") && !word.starts_with('-') && !before.starts_with("--")) return true;
  }
  return false;
}

// Its story from a journal; without one the worker is asked.
bool names_a_journal(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--journal" || argument.starts_with("--journal=")) return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view first = argc > 1 ? argv[1] : "";
  // `lambent help serve` asks what `lambent serve --help` asks.
  char help[] = "--help";
  char* asked[] = {argv[0], argc > 2 ? argv[2] : nullptr, help, nullptr};
  if (first == "help" && argc == 3 &&
      (argv[2] == std::string_view("demo") || is_app_verb(2, argv + 1) ||
       !program_of(argv[2]).empty())) {
    first = argv[2];
    argv = asked;
  }
  if (is_app_verb(argv == asked ? 3 : argc, argv)) return exec_app_verb(argv);
  if (const std::string_view program = program_of(first);
      !program.empty() && (first != "why" || names_a_journal(argc, argv))) {
    return exec_sibling(std::string(program), argc, argv);
  }
  if (first == "demo") return exec_demo(argc, argv);
  return bin::after_output(bin::run_client_command(argc, argv));
}
