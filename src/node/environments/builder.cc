#include "node/environments/builder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/fd.h"
#include "core/base/time.h"
#include "node/environments/build_bounds.h"
#include "node/environments/build_failure.h"
#include "node/environments/index_proxy.h"
#include "node/environments/proxy_request.h"
#include "node/sandbox/program.h"

namespace lambent::environments {
namespace {

namespace fs = std::filesystem;

// Inside the walls. One mount holds the build and uv's cache, since there are no hard links from
// one mount to another.
constexpr char kWorkInside[] = "/opt/lambent/work";
constexpr char kUvInside[] = "/opt/lambent/uv";
constexpr char kWheelsInside[] = "/opt/lambent/wheels";
constexpr char kCertificates[] = "/etc/ssl/certs/ca-certificates.crt";
constexpr size_t kMostPackages = 5000;
constexpr size_t kToldAfter = 500;      // compiled files between two words of progress
constexpr unsigned kMostCompilers = 8;  // processes; functions need the machine meanwhile
constexpr size_t kCompiledAtOnce = 100;
constexpr std::string_view kCompiled = "compiled";

// Compiles the Python files below a folder by some processes, each its share of the files, and says
// so after so many of them. compileall's own processes are handed one file at a time, which costs
// half as much again. What cannot be compiled is left as it is, and so are the packages' own tests,
// a third to half of all code and never imported. Without a further process the first does its
// share.
constexpr char kCompile[] = R"(
import compileall, os, py_compile, sys
top, processes, at_once = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
files = []
for folder, _, names in os.walk(top):
    if not {'test', 'tests'} & set(folder[len(top):].split('/')):
        files += [folder + '/' + name for name in names if name.endswith('.py')]
shares = [0]
for share in range(1, processes):
    try:
        if os.fork() == 0:
            shares = [share]
            break
    except OSError:
        shares.append(share)
mine = [file for share in shares for file in files[share::processes]]
for done, file in enumerate(mine, 1):
    try:
        compileall.compile_file(file, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    except Exception:
        pass
    if done % at_once == 0:
        os.write(1, b'compiled\n')
while 0 in shares:
    try:
        os.wait()
    except ChildProcessError:
        break
)";

bool has_proxy(const std::vector<std::string>& variables) {
  return std::ranges::any_of(variables, [](const std::string& variable) {
    const bool is_exception =
        variable.starts_with("NO_PROXY=") || variable.starts_with("no_proxy=");
    return !is_exception && !variable.ends_with('=');
  });
}

// One build: its folders, its programs and how long and large it may be.
class Build {
 public:
  Build(const Walls& walls, const BuildOrder& order,
        const std::function<void(std::string_view)>& tell)
      : walls_(walls),
        order_(order),
        tell_(tell),
        work_(order.folder + "/" + kWorkFolder),
        place_(work_ + "/" + order.key),
        // uv's downloads too: another build that fills them at the same time counts for both.
        bounds_({place_, work_ + "/cache"}, order.most, order.timeout,
                {"python packages", "--environments-size", "--environment-timeout"}) {}
  ~Build() {
    std::error_code ignored;
    fs::remove_all(place_, ignored);
  }
  Build(const Build&) = delete;
  Build& operator=(const Build&) = delete;

  Result<BuildReport> run() {
    RETURN_IF_ERROR(make_folders());
    tell_("making an environment");
    RETURN_IF_ERROR(
        uv({"venv", "--relocatable", "--no-project", "--python", order_.python, tree_inside()},
           false));
    tell_("resolving packages");
    RETURN_IF_ERROR(install());
    tell_("compiling");
    RETURN_IF_ERROR(compile());
    RETURN_IF_ERROR(bounds_.check_all());
    BuildReport report{.size = Bytes(), .cache = Bytes(), .packages = std::move(packages_)};
    report.size = size_on_disk(place_ + "/" + kTreeFolder);
    // What is in no environment.
    report.cache = size_on_disk(work_ + "/cache", true);
    RETURN_IF_ERROR(finish(report));
    return report;
  }

 private:
  std::string place_inside() const { return std::string(kWorkInside) + "/" + order_.key; }
  std::string tree_inside() const { return place_inside() + "/" + kTreeFolder; }

  Result<void> make_folders() {
    std::error_code error;
    fs::remove_all(place_, error);
    for (const std::string& folder :
         {order_.folder + "/" + kReadyFolder, work_, work_ + "/cache", place_}) {
      if (!error) fs::create_directories(folder, error);
    }
    if (error) return Error{ErrorCode::kInternal, "create " + place_ + ": " + error.message()};
    std::string text;
    for (const std::string& one : order_.requirements) text += one + "\n";
    RETURN_IF_ERROR(write_file_atomically(place_ + "/requirements.txt", text, false));
    if (!walls_.change_user) return {};
    for (const std::string& folder : {work_, work_ + "/cache", place_}) {
      if (chown(folder.c_str(), sandbox::kNobody, sandbox::kNobody) != 0) {
        return error_from_errno("give away " + folder, errno);
      }
    }
    return {};
  }

  Result<void> install() {
    std::vector<std::string> arguments = {"pip",
                                          "install",
                                          "--python",
                                          tree_inside() + "/bin/python",
                                          "--only-binary",
                                          ":all:",
                                          "--link-mode",
                                          "hardlink",
                                          "--strict",
                                          "-r",
                                          place_inside() + "/requirements.txt"};
    if (order_.locked) arguments.push_back("--no-deps");
    if (!order_.wheels.empty()) {
      arguments.insert(arguments.end(), {"--find-links", kWheelsInside});
    }
    if (order_.offline) arguments.insert(arguments.end(), {"--offline", "--no-index"});
    return order_.requirements.empty() ? Result<void>{} : uv(std::move(arguments), !order_.offline);
  }

  // A package's files are read, never run: it is the system's interpreter, which does not look
  // into the environment.
  Result<void> compile() {
    const unsigned processes = std::clamp(std::thread::hardware_concurrency(), 1u, kMostCompilers);
    ConfinedProgram program;
    program.argv = {order_.python,
                    "-I",
                    "-c",
                    kCompile,
                    tree_inside() + "/lib",
                    std::to_string(processes),
                    std::to_string(kCompiledAtOnce)};
    program.environment = {{"HOME", "/tmp"}, {"LANG", "C.UTF-8"}};
    program.binds = {{work_, kWorkInside, true}};
    ConfinedWatch watch = watch_of();
    watch.on_line = [this, compiled = size_t{0}](std::string_view line) mutable {
      if (line != kCompiled) return;
      compiled += kCompiledAtOnce;
      if (compiled % kToldAfter == 0) {
        tell_("compiling: " + std::to_string(compiled) + " files so far");
      }
    };
    const auto end = run_confined(walls_, program, watch);
    return end.ok() ? Result<void>{} : end.error();
  }

  Result<void> uv(std::vector<std::string> arguments, bool network) {
    ConfinedProgram program;
    program.argv = {kUvInside};
    program.argv.insert(program.argv.end(), arguments.begin(), arguments.end());
    program.argv.insert(program.argv.end(),
                        {"--no-config", "--no-python-downloads", "--color", "never"});
    program.environment = {
        {"HOME", "/tmp"},        {"PATH", "/usr/local/bin:/usr/bin:/bin"},
        {"LANG", "C.UTF-8"},     {"UV_CACHE_DIR", std::string(kWorkInside) + "/cache"},
        {"UV_NO_PROGRESS", "1"}, {"SSL_CERT_FILE", kCertificates}};
    for (const std::string& variable : order_.variables) {
      const size_t equals = variable.find('=');
      if (equals == std::string::npos) continue;
      program.environment[variable.substr(0, equals)] = variable.substr(equals + 1);
    }
    // Not an argument, which all processes could read.
    if (!order_.index.empty()) program.environment["UV_DEFAULT_INDEX"] = order_.index;
    program.binds = {{work_, kWorkInside, true}, {order_.uv, kUvInside}};
    if (!order_.wheels.empty()) program.binds.push_back({order_.wheels, kWheelsInside});
    if (network) RETURN_IF_ERROR(give_network(program));
    const auto end = run_confined(walls_, program, watch_of());
    if (!end.ok()) return end.error();
    if (end->exit_code == 0) return {};
    if (!end->refused.empty()) return refused_places(end->refused);
    Error failure = build_failure(end->output);
    if (order_.wheels.empty()) return failure;
    return with_wheels_named(std::move(failure), kWheelsInside, order_.wheels);
  }

  // That of the index only. Where the node itself reaches others only through a proxy, that one
  // says what may be reached.
  Result<void> give_network(ConfinedProgram& program) const {
    program.network = has_proxy(order_.variables);
    if (program.network) return {};
    ASSIGN_OR_RETURN(program.reaches, index_places(order_.index, order_.files));
    for (const char* name : {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"}) {
      program.environment[name] = kIndexProxyUrl;
    }
    return {};
  }

  ConfinedWatch watch_of() {
    return {.on_line = [this](std::string_view line) { on_line(line); },
            .stop = [this] { return bounds_.check(); }};
  }

  // uv says " + numpy==2.4.6" of what it installed, and "Downloading numpy (16.1MiB)" before.
  void on_line(std::string_view line) {
    if (line.starts_with(" + ") && packages_.size() < kMostPackages) {
      packages_.emplace_back(line.substr(3));
      return;
    }
    for (const char* word : {"Resolved ", "Downloading ", "Prepared ", "Installed "}) {
      if (line.starts_with(word)) return tell_(without_credentials(line));
    }
  }

  // From here on it is the worker's.
  Result<void> finish(const BuildReport& report) {
    const std::string ready = order_.folder + "/" + kReadyFolder + "/" + order_.key;
    RETURN_IF_ERROR(write_file_atomically(place_ + "/" + kReportFile, to_json(report), false));
    std::error_code error;
    fs::remove(place_ + "/requirements.txt", error);
    if (walls_.change_user && chown(place_.c_str(), 0, 0) != 0) {
      return error_from_errno("take back " + place_, errno);
    }
    fs::permissions(place_, fs::perms(0755), error);
    fs::permissions(place_ + "/" + kTreeFolder, fs::perms(0755), error);
    sync();
    error.clear();
    fs::rename(place_, ready, error);
    if (error) return Error{ErrorCode::kInternal, "move to " + ready + ": " + error.message()};
    return {};
  }

  const Walls& walls_;
  const BuildOrder& order_;
  const std::function<void(std::string_view)>& tell_;
  const std::string work_;
  const std::string place_;
  BuildBounds bounds_;
  std::vector<std::string> packages_;
};

}  // namespace

Result<BuildReport> build_environment(const Walls& walls, const BuildOrder& order,
                                      const std::function<void(std::string_view)>& tell) {
  return Build(walls, order, tell).run();
}

void remove_environments(const std::string& folder, const std::vector<std::string>& keys,
                         bool cache) {
  std::error_code ignored;
  for (const std::string& key : keys) {
    fs::remove_all(folder + "/" + kReadyFolder + "/" + key, ignored);
  }
  if (cache) fs::remove_all(folder + "/" + kWorkFolder + "/cache", ignored);
}

}  // namespace lambent::environments
