// coldstart_bench: how long a sandbox takes from the order to the program's first byte of output,
// beside the same program started without a sandbox. Prints a table and, last, one line of JSON.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "node/sandbox/sandbox_harness.h"

namespace {

using namespace lambent;
using namespace lambent::sandbox;

// The modules that the Python runtime client needs before it asks for its first invocation.
constexpr char kPythonImports[] =
    "import importlib, json, os, socket, sys, time, traceback, http.client; "
    "os.write(1, b'h')";

struct Summary {
  double median = 0, p10 = 0, p90 = 0;
  size_t count = 0;
};

Summary summarise(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  auto at = [&](double share) {
    return samples[static_cast<size_t>(share * static_cast<double>(samples.size() - 1) + 0.5)];
  };
  return {at(0.5), at(0.1), at(0.9), samples.size()};
}

// Cold starts come one by one out of quiet: the machine idles in between and prepared sandboxes
// are replaced.
void rest() { std::this_thread::sleep_for(std::chrono::milliseconds(60)); }

double plain_start(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  char path[] = "PATH=/usr/bin:/bin";
  char* environment[] = {path, nullptr};
  int ends[2];
  CHECK(pipe2(ends, O_CLOEXEC) == 0, "pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  const SystemClock clock;
  const Instant start = clock.now();
  pid_t pid = 0;
  CHECK(posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environment) == 0, "spawn");
  close(ends[1]);
  char byte = 0;
  CHECK(read(ends[0], &byte, 1) == 1, "the plain program wrote nothing");
  const double taken = to_milliseconds(clock.now() - start);
  close(ends[0]);
  waitpid(pid, nullptr, 0);
  posix_spawn_file_actions_destroy(&actions);
  return taken;
}

struct Sandboxed {
  std::vector<double> first_byte, started;
};

void sandboxed_start(Harness& harness, const std::vector<std::string>& arguments,
                     const std::string& code, Sandboxed& samples) {
  static uint64_t next = 1;
  LaunchPlan plan;
  plan.sandbox = SandboxId(next++);
  plan.argv = arguments;
  plan.code = code;
  plan.environment = {{"PATH", "/usr/bin:/bin"}};
  const Outcome outcome = harness.run(plan);
  if (outcome.error) fprintf(stderr, "%s\n", to_string(*outcome.error).c_str());
  CHECK(outcome.exit && outcome.exit->exit_code == 0 && outcome.output == "h", "a start failed");
  samples.first_byte.push_back(to_milliseconds(outcome.first_byte));
  samples.started.push_back(to_milliseconds(outcome.started));
}

void row(const char* name, const Summary& summary) {
  printf("%-34s %8.2f %8.2f %8.2f %6zu\n", name, summary.median, summary.p10, summary.p90,
         summary.count);
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
  const int natives = quick ? 60 : 300;
  const int pythons = quick ? 20 : 100;
  const std::string folder = std::string(LAMBENT_BINARY_DIR) + "/bench/coldstart";
  const std::string python = "/usr/bin/python3";
  const bool has_python = access(python.c_str(), X_OK) == 0;
  const std::vector<std::string> python_arguments = {python, "-c", kPythonImports};

  LauncherOptions options;
  options.program = std::string(LAMBENT_BINARY_DIR) + "/bin/lambent-launcher";
  LauncherOptions unpooled = options;
  unpooled.pool = 0;
  Harness pooled_harness(options);
  Harness unpooled_harness(unpooled);

  // Interleaved, so that what the machine does besides meets all of them alike.
  Sandboxed fixed, dynamic, alone, in_python;
  std::vector<double> plain_fixed, plain_dynamic, interpreter;
  for (int i = 0; i < natives; ++i) {
    rest();
    sandboxed_start(pooled_harness, {"/var/task/hello_static"}, folder, fixed);
    rest();
    sandboxed_start(pooled_harness, {"/var/task/hello_dynamic"}, folder, dynamic);
    rest();
    sandboxed_start(unpooled_harness, {"/var/task/hello_static"}, folder, alone);
    rest();
    plain_fixed.push_back(plain_start({folder + "/hello_static"}));
    plain_dynamic.push_back(plain_start({folder + "/hello_dynamic"}));
  }
  for (int i = 0; i < pythons && has_python; ++i) {
    rest();
    sandboxed_start(pooled_harness, python_arguments, "", in_python);
    rest();
    interpreter.push_back(plain_start(python_arguments));
  }

  printf("ms from the order to the first byte   median      p10      p90      n\n");
  const Summary native = summarise(dynamic.first_byte);
  const Summary native_static = summarise(fixed.first_byte);
  const Summary without_pool = summarise(alone.first_byte);
  row("native, dynamic, prepared sandbox", native);
  row("native, static, prepared sandbox", native_static);
  row("  of which until exec (static)", summarise(fixed.started));
  row("native, static, nothing prepared", without_pool);
  row("dynamic without a sandbox", summarise(plain_dynamic));
  row("static without a sandbox", summarise(plain_fixed));
  Summary python_summary, interpreter_summary;
  if (has_python) {
    python_summary = summarise(in_python.first_byte);
    interpreter_summary = summarise(interpreter);
    row("python3 with imports, sandboxed", python_summary);
    row("python3 with imports, no sandbox", interpreter_summary);
  }
  printf("capabilities:\n%s", to_string(pooled_harness.launcher().capabilities()).c_str());
  printf(
      "{\"bench\":\"coldstart\",\"quick\":%s,\"native_ms\":%.3f,\"native_p90_ms\":%.3f,"
      "\"native_static_ms\":%.3f,\"unpooled_ms\":%.3f,\"pooled_ms\":%.3f,",
      quick ? "true" : "false", native.median, native.p90, native_static.median,
      without_pool.median, native_static.median);
  if (has_python) {
    printf("\"python_ms\":%.3f,\"interpreter_ms\":%.3f,", python_summary.median,
           interpreter_summary.median);
  } else {
    printf("\"python_ms\":null,\"interpreter_ms\":null,");
  }
  printf("\"zygote_ms\":null}\n");
  return 0;
}
