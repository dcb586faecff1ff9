#include "node/environments/store.h"

#include <sys/stat.h>
#include <sys/utsname.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "core/base/json_text.h"
#include "core/crypto/crypto.h"
#include "node/environments/build_failure.h"
#include "node/environments/builder.h"

namespace lambent::environments {
namespace {

namespace fs = std::filesystem;

constexpr char kBindingsFolder[] = "functions";
constexpr size_t kMostReport = 1 << 20;
constexpr size_t kMostBinding = 256 + kMostPreloads * (kModuleNameLength + 1);

std::string machine() {
  utsname names{};
  return uname(&names) == 0 ? names.machine : "";
}

// What an environment is made from, apart from who asked for it.
std::string key_of(const BuildOrder& order, const std::string& version) {
  const nlohmann::json facts = {1,
                                version,
                                machine(),
                                without_credentials(order.index),
                                order.wheels,
                                order.offline,
                                order.locked,
                                order.requirements};
  return crypto::to_hex(crypto::sha256(json_text(facts)));
}

bool is_key(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

EnvironmentStore::EnvironmentStore(loop::EventLoop& loop, LogSink& log, Offload offload,
                                   EnvironmentOptions options)
    : loop_(loop),
      log_(log),
      offload_(std::move(offload)),
      options_(std::move(options)),
      shelf_(options_.most) {}

EnvironmentStore::~EnvironmentStore() = default;

std::string EnvironmentStore::ready(const std::string& key) const {
  return options_.folder + "/" + kReadyFolder + "/" + key;
}

std::string EnvironmentStore::binding(const std::string& code) const {
  return options_.folder + "/" + kBindingsFolder + "/" + code;
}

Result<void> EnvironmentStore::recover() {
  std::error_code error;
  for (const char* folder : {kReadyFolder, kWorkFolder, kBindingsFolder}) {
    if (!error) fs::create_directories(options_.folder + "/" + folder, error);
  }
  if (error)
    return Error{ErrorCode::kInternal, "create " + options_.folder + ": " + error.message()};
  for (const auto& entry : fs::directory_iterator(options_.folder + "/" + kWorkFolder, error)) {
    if (entry.path().filename() != "cache") fs::remove_all(entry.path(), error);
  }
  interpreters_ = Interpreters::find({"/usr/bin", "/usr/local/bin"}, options_.python);
  recover_ready();
  recover_bindings();
  return {};
}

void EnvironmentStore::recover_ready() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(options_.folder + "/" + kReadyFolder, error)) {
    const std::string key = entry.path().filename();
    const auto text = read_file(entry.path().string() + "/" + kReportFile, kMostReport);
    auto report = text.ok() ? parse_build_report(*text) : Result<BuildReport>(text.error());
    if (!is_key(key) || !report.ok()) {
      fs::remove_all(entry.path(), error);
      continue;
    }
    shelf_.add(key, report->size, loop_.clock().wall_now());
    cache_ = std::max(cache_, report->cache);
  }
}

void EnvironmentStore::recover_bindings() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(options_.folder + "/" + kBindingsFolder, error)) {
    const auto text = read_file(entry.path(), kMostBinding);
    if (!text.ok()) continue;
    std::istringstream lines(*text);
    std::string key, module;
    std::getline(lines, key);
    if (!is_key(key)) continue;
    const std::string code = entry.path().filename();
    bindings_[code] = key;
    while (std::getline(lines, module)) preloads_[code].push_back(module);
  }
}

Result<BuildOrder> EnvironmentStore::order_of(const PythonPackages& packages) const {
  ASSIGN_OR_RETURN(const Interpreter interpreter, interpreters_.get(packages.version));
  BuildOrder order{.folder = options_.folder,
                   .key = "",
                   .uv = options_.uv,
                   .python = interpreter.path,
                   .index = options_.index,
                   .files = options_.files,
                   .wheels = options_.wheels,
                   .offline = options_.offline,
                   .locked = packages.locked,
                   .requirements = packages.requirements,
                   .variables = options_.variables,
                   .most = options_.most,
                   .timeout = options_.timeout};
  order.key = key_of(order, interpreter.version);
  return order;
}

void EnvironmentStore::ensure(const std::string& code, const PythonPackages& packages, Done done) {
  wanted_.insert(code);
  preloads_.erase(code);
  if (!packages.preload.empty()) preloads_[code] = packages.preload;
  auto order = order_of(packages);
  if (!order.ok()) return done(order.error());
  const std::string key = order->key;
  if (shelf_.contains(key)) return bind(code, key, std::move(done));
  if (options_.uv.empty()) {
    return done(
        Error{ErrorCode::kFailedPrecondition,
              "this worker installs no Python packages, because it has found no uv; "
              "'pip install uv' in a virtual environment, and start it with --uv FILE where "
              "that is not in its PATH"});
  }
  auto& build = builds_[key];
  if (build == nullptr) {
    if (queue_.size() >= kMostWaiting) {
      builds_.erase(key);
      return done(Error{ErrorCode::kResourceExhausted,
                        "too many environments wait to be built; try again later"});
    }
    build = std::make_unique<Build>();
    build->order = std::move(*order);
    queue_.push_back(key);
  }
  build->waiting.emplace_back(code, std::move(done));
  start_builds();
}

void EnvironmentStore::start_builds() {
  while (running_ < kBuildsAtOnce && !queue_.empty()) {
    const std::string key = std::move(queue_.front());
    queue_.pop_front();
    Build& build = *builds_.at(key);
    build.started = loop_.clock().now();
    ++running_;
    auto process = BuildProcess::start(
        loop_, {options_.program}, to_json(build.order), [this, key](Result<std::string> report) {
          ended(key, report.ok() ? parse_build_report(*report) : report.error());
        });
    if (process.ok()) {
      build.process = std::move(*process);
      continue;
    }
    // Those who wait may ask again at once, so not within this turn.
    loop_.call_after(Duration(0), [this, key, error = process.error()] { ended(key, error); });
  }
}

void EnvironmentStore::ended(const std::string& key, Result<BuildReport> report) {
  const auto found = builds_.find(key);
  const std::unique_ptr<Build> build = std::move(found->second);
  builds_.erase(found);
  --running_;
  const double seconds_taken = to_seconds(loop_.clock().now() - build->started);
  Result<void> outcome;
  if (report.ok()) {
    log_.info("environment_built", {{"environment", key},
                                    {"packages", static_cast<int64_t>(report->packages.size())},
                                    {"bytes", static_cast<int64_t>(report->size.count)},
                                    {"seconds", seconds_taken}});
    shelf_.add(key, report->size, loop_.clock().wall_now());
    cache_ = report->cache;
    outcome = make_room(key);
  } else {
    log_.warning(
        "environment_failed",
        {{"environment", key}, {"seconds", seconds_taken}, {"error", to_string(report.error())}});
    outcome = report.error();
  }
  for (auto& [code, done] : build->waiting) {
    if (outcome.ok()) {
      bind(code, key, std::move(done));
    } else {
      done(outcome.error());
    }
  }
  start_builds();
}

std::set<std::string> EnvironmentStore::used_keys() const {
  std::set<std::string> keys;
  for (const auto& [code, key] : bindings_) keys.insert(key);
  return keys;
}

Result<void> EnvironmentStore::make_room(const std::string& newest) {
  if (shelf_.fits(cache_)) return {};
  std::set<std::string> used = used_keys();
  used.insert(newest);
  for (const std::string& key : shelf_.to_evict(used, Bytes(), loop_.clock().wall_now(), kGrace)) {
    evict(key);
  }
  // What was downloaded can be fetched again; a build under way still needs it.
  if (!shelf_.fits(cache_) && running_ == 0) {
    cache_ = Bytes();
    offload_([folder = options_.folder] { remove_environments(folder, {}, true); }, [] {});
  }
  if (shelf_.fits(Bytes())) return {};
  const Bytes all = shelf_.size();
  evict(newest);
  return Error{ErrorCode::kResourceExhausted,
               "python packages: with them the environments of this worker take " + to_string(all) +
                   ", and it keeps at most " + to_string(shelf_.most()) +
                   " (--environments-size); remove functions with others"};
}

void EnvironmentStore::evict(const std::string& key) {
  shelf_.remove(key);
  log_.info("environment_removed", {{"environment", key}});
  // Out of the way at once, because the same one may be wanted again.
  const std::string aside =
      options_.folder + "/" + kWorkFolder + "/removed-" + std::to_string(++evicted_);
  std::error_code error;
  fs::rename(ready(key), aside, error);
  if (error) return;
  offload_(
      [aside] {
        std::error_code ignored;
        fs::remove_all(aside, ignored);
      },
      [] {});
}

void EnvironmentStore::bind(const std::string& code, const std::string& key, Done done) {
  bindings_[code] = key;
  wanted_.erase(code);
  std::string text = key;
  for (const std::string& module : preload_of(code)) text += "\n" + module;
  const auto written = std::make_shared<Result<void>>();
  const bool queued = offload_(
      [written, path = binding(code), text] { *written = write_file_atomically(path, text, true); },
      [written, done] { done(*written); });
  if (!queued) {
    done(Error{ErrorCode::kResourceExhausted, "too many deployments at once; try again later"});
  }
}

std::string EnvironmentStore::progress(const std::string& code) const {
  for (const auto& [key, build] : builds_) {
    for (const auto& [waiting, done] : build->waiting) {
      if (waiting != code) continue;
      return build->process == nullptr ? "waits for other environments to be built"
                                       : build->process->progress();
    }
  }
  return "";
}

bool EnvironmentStore::has(const std::string& code) const {
  const auto found = bindings_.find(code);
  return found != bindings_.end() && shelf_.contains(found->second);
}

std::vector<std::string> EnvironmentStore::preload_of(const std::string& code) const {
  const auto found = preloads_.find(code);
  return found == preloads_.end() ? std::vector<std::string>() : found->second;
}

Result<std::string> EnvironmentStore::folder_of(const std::string& code) const {
  if (has(code)) return ready(bindings_.at(code)) + "/" + kTreeFolder;
  if (!bindings_.contains(code) && !wanted_.contains(code)) return std::string();
  if (!progress(code).empty()) {
    return Error{ErrorCode::kUnavailable,
                 "the function's Python packages are being installed again; try again later"};
  }
  return Error{ErrorCode::kFailedPrecondition,
               "the function's Python packages are not there, and could not be installed again; "
               "deploy it again to see why"};
}

void EnvironmentStore::collect(const std::set<std::string>& codes) {
  std::vector<std::string> gone;
  for (const auto& [code, key] : bindings_) {
    if (!codes.contains(code)) gone.push_back(code);
  }
  std::erase_if(wanted_, [&](const std::string& code) {
    return !codes.contains(code) && progress(code).empty();
  });
  release(gone);
}

void EnvironmentStore::release(const std::vector<std::string>& codes) {
  std::set<std::string> used_until_now;
  std::vector<std::string> files;
  for (const std::string& code : codes) {
    wanted_.erase(code);
    const auto bound = bindings_.find(code);
    if (bound == bindings_.end()) continue;
    used_until_now.insert(bound->second);
    bindings_.erase(bound);
    preloads_.erase(code);
    files.push_back(binding(code));
  }
  shelf_.touch(used_until_now, loop_.clock().wall_now());
  if (files.empty()) return;
  offload_(
      [files] {
        std::error_code ignored;
        for (const std::string& file : files) fs::remove(file, ignored);
      },
      [] {});
}

}  // namespace lambent::environments
