// What the benchmarks of memory that moves share: programs of their own that speak to the driver,
// on one side, and on the other somebody who tells them to move their memory (ShimSession).
#pragma once

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "bin/shim_session.h"

namespace lambent::bench {

using Address = unsigned long long;

// Calls the driver by name; ends the program if a call fails.
struct Driver {
  explicit Driver(void* library) : library_(library) {}
  template <typename... Arguments>
  void operator()(const char* name, Arguments... arguments) {
    using Function = int (*)(Arguments...);
    const auto function = reinterpret_cast<Function>(dlsym(library_, name));
    const int status = function == nullptr ? -1 : function(arguments...);
    if (status == 0) return;
    std::fprintf(stderr, "%s answered %d\n", name, status);
    std::exit(1);
  }

 private:
  void* library_;
};

inline Driver open_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  Driver driver(library);
  void* context = nullptr;
  driver("cuInit", 0U);
  driver("cuDevicePrimaryCtxRetain", &context, 0);
  driver("cuCtxSetCurrent", context);
  return driver;
}

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// This program, run once more with other words; it is spoken to by lines.
class Child {
 public:
  Child(const std::vector<std::string>& words, const std::vector<std::string>& environment) {
    int in[2];
    int out[2];
    if (pipe(in) != 0 || pipe(out) != 0) std::abort();
    id_ = fork();
    if (id_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      for (const int fd : {in[0], in[1], out[0], out[1]}) close(fd);
      for (const std::string& variable : environment) putenv(strdup(variable.c_str()));
      std::vector<char*> arguments;
      for (const std::string& word : words) arguments.push_back(strdup(word.c_str()));
      arguments.push_back(nullptr);
      execv("/proc/self/exe", arguments.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_ = fdopen(in[1], "w");
    from_ = fdopen(out[0], "r");
    setvbuf(from_, nullptr, _IONBF, 0);  // so that what poll says holds for the next line
  }
  ~Child() {
    std::fclose(to_);
    std::fclose(from_);
    waitpid(id_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  std::string line() {
    char text[256] = {};
    if (std::fgets(text, sizeof(text), from_) == nullptr) {
      std::fprintf(stderr, "a program of mine failed\n");
      std::exit(1);
    }
    return text;
  }
  void say(const char* word) {
    std::fputs(word, to_);
    std::fflush(to_);
  }
  // For waiting on the loop meanwhile.
  int from() const { return fileno(from_); }

 private:
  pid_t id_ = 0;
  FILE* to_ = nullptr;
  FILE* from_ = nullptr;
};

// Somebody who tells one program to move its memory.
class Node {
 public:
  explicit Node(const ShimSessionOptions& options) {
    auto session = ShimSession::open(loop_, options);
    if (!session.ok()) {
      std::fprintf(stderr, "%s\n", to_string(session.error()).c_str());
      std::exit(1);
    }
    session_ = std::move(*session);
    session_->on_moved = [this](const worker::MemoryMove& move) { moved_ = move; };
  }

  std::vector<std::string> variables() const { return session_->variables(); }
  // Turns the loop until the program has said something.
  std::string line_of(Child& child) {
    bool readable = false;
    const auto watch =
        loop_.watch(child.from(), true, false, [&](loop::Readiness) { readable = true; });
    while (!readable) loop_.run_once(milliseconds(100));
    return child.line();
  }
  // Until a process has said hello and was answered.
  void wait_for_process() {
    while (session_->processes() == 0) loop_.run_once(milliseconds(10));
    for (int turn = 0; turn < 10; ++turn) loop_.run_once(milliseconds(10));
  }
  worker::MemoryMove move(bool out) {
    begin(out);
    return finish();
  }
  // The same in two steps, for what happens meanwhile.
  void begin(bool out) {
    moved_.reset();
    if (out) {
      session_->move_out();
    } else {
      session_->move_in();
    }
  }
  worker::MemoryMove finish() {
    while (!moved_) loop_.run_once(milliseconds(100));
    if (!moved_->done || moved_->moved.count == 0) {
      std::fprintf(stderr, "the memory did not move\n%s", session_->log_text().c_str());
      std::exit(1);
    }
    return *moved_;
  }

 private:
  SystemClock clock_;
  loop::EventLoop loop_{clock_};
  std::unique_ptr<ShimSession> session_;
  std::optional<worker::MemoryMove> moved_;
};

}  // namespace lambent::bench
