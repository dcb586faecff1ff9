// coldstart_bench: how long a sandbox takes from the order to the program's first byte of output,
// beside the same program started without a sandbox, and forked from a zygote. --environment FOLDER
// names one with PyTorch (what `lambent deploy` built, or a virtual environment of the system's
// Python), without which zygote_torch_ms is null. Prints a table and, last, one line of JSON.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
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

// A Python handler whose module writes its byte when it is imported, as the runtime client runs it.
struct Handler {
  std::string name;
  std::string code;  // a folder
  LaunchPlan plan;
};

Handler make_handler(const std::string& folder, const std::string& name, const std::string& source,
                     const std::string& environment, const std::vector<std::string>& preload) {
  Handler handler{name, folder + "/" + name, {}};
  std::filesystem::create_directories(handler.code);
  std::ofstream(handler.code + "/app.py") << source;
  LaunchPlan& plan = handler.plan;
  const std::string python =
      environment.empty() ? "/usr/bin/python3" : "/opt/lambent/python/bin/python";
  plan.argv = {python, "-m", "lambent_runtime", "app.handler"};
  plan.code = handler.code;
  plan.limits.memory = Bytes::gib(2);
  plan.environment = {{"PATH", "/usr/bin:/bin"},
                      {"HOME", "/tmp"},
                      {"PYTHONPATH", "/var/task:/var/runtime"},
                      {"PYTHONDONTWRITEBYTECODE", "1"}};
  plan.binds = {{std::string(LAMBENT_BINARY_DIR) + "/share/lambent/python", "/var/runtime"}};
  if (!environment.empty()) plan.binds.push_back({environment, "/opt/lambent/python"});
  plan.zygote.emplace();
  plan.zygote->key = name;
  plan.zygote->argv = {python, "-m", "lambent_runtime.zygote"};
  plan.zygote->argv.insert(plan.zygote->argv.end(), preload.begin(), preload.end());
  plan.zygote->environment = plan.environment;
  plan.zygote->binds = plan.binds;
  plan.environment["AWS_LAMBDA_RUNTIME_API"] = kRuntimeApiAddress;
  return handler;
}

LaunchPlan next_plan(const Handler& handler, bool forked) {
  static uint64_t next = 1'000'000;
  LaunchPlan plan = handler.plan;
  plan.sandbox = SandboxId(next++);
  if (!forked) plan.zygote.reset();
  return plan;
}

double handler_start(Harness& harness, const Handler& handler, bool forked) {
  const LaunchPlan plan = next_plan(handler, forked);
  const Outcome outcome = harness.run(plan);
  if (outcome.error) fprintf(stderr, "%s\n", to_string(*outcome.error).c_str());
  if (outcome.output != "h") fprintf(stderr, "%s\n", outcome.output.c_str());
  CHECK(outcome.exit && outcome.output == "h", "a handler did not start");
  const Started* started = harness.started(plan.sandbox);
  CHECK(started != nullptr && started->forked == forked, "not started as it should be");
  harness.forget_ended();
  return to_milliseconds(outcome.first_byte);
}

struct HandlerSamples {
  std::vector<double> executed, forked, unready;
};

// Empty: it is there; else why not.
std::string wait_for_zygote(Harness& harness, const Handler& handler) {
  bool over = false;
  std::string failure;
  harness.launcher().on_zygote([&](const std::string&, ZygoteEvent event, const std::string& why) {
    if (event == ZygoteEvent::kFailed) failure = why;
    over = over || event == ZygoteEvent::kFailed || event == ZygoteEvent::kReady;
  });
  (void)harness.run(next_plan(handler, true));  // the first one, which starts its zygote
  CHECK(harness.wait([&] { return over; }, std::chrono::minutes(3)), "no zygote");
  harness.launcher().on_zygote({});
  return failure;
}

// `unready`: of a launcher that keeps nothing ready, so that the fork itself is waited for.
HandlerSamples measure(Harness& harness, Harness& unready, const Handler& handler, int starts,
                       int executions) {
  HandlerSamples samples;
  for (int i = 0; i < starts; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    samples.forked.push_back(handler_start(harness, handler, true));
    rest();
    samples.unready.push_back(handler_start(unready, handler, true));
    if (i < executions) samples.executed.push_back(handler_start(harness, handler, false));
  }
  return samples;
}

double number_in(const std::string& path, const char* field) {
  const auto text = read_file(path, 1 << 20);
  const size_t at = text.ok() ? text->find(field) : std::string::npos;
  return at == std::string::npos ? 0 : atof(text->c_str() + at + strlen(field));
}

// Mean proportional share of the memory of handlers that are up at the same time, in MB.
double pss_mb(Harness& harness, const Handler& handler, bool forked) {
  constexpr int kAtOnce = 4;
  std::vector<SandboxId> sandboxes;
  for (int i = 0; i < kAtOnce; ++i) {
    const LaunchPlan plan = next_plan(handler, forked);
    sandboxes.push_back(plan.sandbox);
    harness.launch(plan);
    CHECK(harness.wait([&] { return harness.outcome(plan.sandbox).output == "h"; }, seconds(60)),
          "a handler did not start");
  }
  double sum = 0;
  for (const SandboxId sandbox : sandboxes) {
    const std::string init = std::to_string(harness.started(sandbox)->pid);
    const auto child = read_file("/proc/" + init + "/task/" + init + "/children", 4096);
    const std::string program = child.ok() ? child->substr(0, child->find(' ')) : "";
    sum += number_in("/proc/" + program + "/smaps_rollup", "\nPss:") * 1024 / 1e6;
  }
  for (const SandboxId sandbox : sandboxes) harness.launcher().kill(sandbox);
  harness.wait([&] {
    return std::ranges::all_of(sandboxes, [&](SandboxId each) { return harness.finished(each); });
  });
  return sum / kAtOnce;
}

struct HandlerFigures {
  Summary executed, forked, unready;
  double pss_executed = 0, pss_forked = 0;
};

// None: it has no zygote.
std::optional<HandlerFigures> figures_of(Harness& harness, Harness& unready,
                                         const std::string& name, const std::string& imports,
                                         const std::string& environment,
                                         const std::vector<std::string>& preload, int starts,
                                         int executions) {
  const std::string folder = std::string(LAMBENT_BINARY_DIR) + "/bench/coldstart";
  const std::string source = imports + "import os\nos.write(1, b'h')\n";
  const Handler exits = make_handler(folder, name, source + "os._exit(0)\n", environment, preload);
  for (Harness* each : {&harness, &unready}) {
    const std::string failure = wait_for_zygote(*each, exits);
    if (failure.empty()) continue;
    printf("%s has no zygote: %s\n", name.c_str(), failure.c_str());
    return std::nullopt;
  }
  const HandlerSamples samples = measure(harness, unready, exits, starts, executions);
  Handler stays = make_handler(folder, name + "_stays", source + "import time\ntime.sleep(600)\n",
                               environment, preload);
  stays.plan.zygote->key = exits.plan.zygote->key;
  HandlerFigures figures;
  figures.executed = summarise(samples.executed);
  figures.forked = summarise(samples.forked);
  figures.unready = summarise(samples.unready);
  figures.pss_executed = pss_mb(harness, stays, false);
  figures.pss_forked = pss_mb(harness, stays, true);
  return figures;
}

std::string json_of(const HandlerFigures& figures) {
  char text[256];
  snprintf(text, sizeof(text),
           "{\"executed_ms\":%.3f,\"forked_ms\":%.3f,\"forked_p90_ms\":%.3f,"
           "\"forked_unready_ms\":%.3f,\"pss_executed_mb\":%.1f,\"pss_forked_mb\":%.1f}",
           figures.executed.median, figures.forked.median, figures.forked.p90,
           figures.unready.median, figures.pss_executed, figures.pss_forked);
  return text;
}

// Folder of Python packages that has this one.
bool has_package(const std::string& environment, const std::string& package) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(environment + "/lib", error)) {
    if (std::filesystem::exists(entry.path() / "site-packages" / package, error)) return true;
  }
  return false;
}

void row(const char* name, const Summary& summary) {
  printf("%-34s %8.2f %8.2f %8.2f %6zu\n", name, summary.median, summary.p10, summary.p90,
         summary.count);
}

}  // namespace

int main(int argc, char** argv) {
  bool quick = false;
  std::string environment;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--quick") == 0) quick = true;
    if (strcmp(argv[i], "--environment") == 0 && i + 1 < argc) {
      environment = std::filesystem::canonical(argv[++i]);
    }
  }
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
  Harness zygotes(options);
  Harness unready_zygotes(unpooled);
  std::map<std::string, HandlerFigures> handlers;
  const Capabilities& can = zygotes.launcher().capabilities();
  if (has_python && can.memory_cgroup && can.user_namespaces) {
    if (auto python =
            figures_of(zygotes, unready_zygotes, "python", "", "", {}, pythons, pythons)) {
      handlers["python"] = *python;
    }
    for (const std::string package : {"numpy", "onnxruntime", "torch"}) {
      if (environment.empty() || !has_package(environment, package)) continue;
      if (auto figures = figures_of(zygotes, unready_zygotes, package, "import " + package + "\n",
                                    environment, {package}, pythons, 3)) {
        handlers[package] = *figures;
      }
    }
  }
  std::string by_handler, pss;
  for (const auto& [name, figures] : handlers) {
    row((name + " handler, forked").c_str(), figures.forked);
    row((name + " handler, forked, none ready").c_str(), figures.unready);
    row((name + " handler, executed").c_str(), figures.executed);
    printf("%-34s %8.1f forked, %.1f executed\n", "  MB of each of four (PSS)", figures.pss_forked,
           figures.pss_executed);
    by_handler += (by_handler.empty() ? "\"" : ",\"") + name + "\":" + json_of(figures);
    char number[64];
    snprintf(number, sizeof(number), "\"%s\":%.1f", name.c_str(), figures.pss_forked);
    pss += (pss.empty() ? "" : ",") + std::string(number);
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
  const auto forked_ms = [&handlers](const char* name) {
    const auto found = handlers.find(name);
    return found == handlers.end() ? std::string("null")
                                   : std::to_string(found->second.forked.median);
  };
  printf("\"zygote_ms\":%s,\"zygote_torch_ms\":%s,\"handlers\":{%s},\"pss_mb\":{%s}}\n",
         forked_ms("python").c_str(), forked_ms("torch").c_str(), by_handler.c_str(), pss.c_str());
  return 0;
}
