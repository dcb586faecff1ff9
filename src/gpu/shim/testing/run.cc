#include "gpu/shim/testing/run.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>
#include <utility>

namespace lambent::shim {
namespace {

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Running::Running(const std::vector<std::string>& words,
                 const std::map<std::string, std::string>& environment) {
  int to_child[2] = {-1, -1};
  int from_child[2] = {-1, -1};
  if (pipe2(to_child, O_CLOEXEC) != 0 || pipe2(from_child, O_CLOEXEC) != 0) return;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to_child[0], 0);
  posix_spawn_file_actions_adddup2(&actions, from_child[1], 1);
  std::vector<std::string> arguments = words;
  std::vector<std::string> settings = {"PATH=/usr/bin:/bin"};
  for (const auto& [name, value] : environment) settings.push_back(name + "=" + value);
  posix_spawn(&process_, words.front().c_str(), &actions, nullptr, pointers_to(arguments).data(),
              pointers_to(settings).data());
  posix_spawn_file_actions_destroy(&actions);
  close(to_child[0]);
  close(from_child[1]);
  input_ = to_child[1];
  output_ = from_child[0];
}

Running::Running(Running&& other) noexcept
    : process_(std::exchange(other.process_, -1)),
      input_(std::exchange(other.input_, -1)),
      output_(std::exchange(other.output_, -1)),
      ended_(other.ended_),
      text_(std::move(other.text_)) {}

Running::~Running() {
  if (process_ > 0) finish();
}

void Running::read_some() {
  char buffer[4096];
  const ssize_t got = read(output_, buffer, sizeof(buffer));
  if (got > 0) text_.append(buffer, static_cast<size_t>(got));
  ended_ = got <= 0;
}

bool Running::wait_for(const std::string& word) {
  while (("\n" + text_).find("\n" + word) == std::string::npos) {
    if (ended_) return false;
    read_some();
  }
  return true;
}

void Running::tell(const std::string& line) {
  const std::string whole = line + "\n";
  if (write(input_, whole.data(), whole.size()) < 0) ended_ = true;
}

std::string Running::take_text() { return std::exchange(text_, std::string()); }

Finished Running::finish() {
  close(std::exchange(input_, -1));
  while (!ended_) read_some();
  close(std::exchange(output_, -1));
  int status = 0;
  waitpid(process_, &status, 0);
  process_ = -1;
  Finished result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.output = text_;
  std::istringstream lines(text_);
  std::string name;
  std::string value;
  while (lines >> name >> value) result.values[name] = value;
  return result;
}

Finished run(const std::vector<std::string>& words,
             const std::map<std::string, std::string>& environment) {
  return Running(words, environment).finish();
}

}  // namespace lambent::shim
