#include "decide/journal/words.h"

#include <cmath>
#include <cstdio>

#include "core/domain/slice.h"
#include "decide/scheduling/fleet.h"

namespace lambent::journal {
namespace {

using namespace dispatch;

std::string sandbox_in_words(SandboxId id) { return "sandbox " + std::to_string(id.value); }

struct EventText {
  const Names& names;

  std::string operator()(const FunctionRegistered& e) const {
    return name_in(names, e.profile.id) + " registered, revision " +
           std::to_string(e.profile.revision);
  }
  std::string operator()(const FunctionRemoved& e) const {
    return name_in(names, e.function) + " removed";
  }
  std::string operator()(const InvocationSubmitted& e) const {
    return "invocation " + to_string(e.invocation) + " of " + name_in(names, e.function) +
           " submitted" + (e.asynchronous ? ", asynchronous" : "");
  }
  std::string operator()(const InvocationCancelled& e) const {
    return "invocation " + to_string(e.invocation) + " cancelled";
  }
  std::string operator()(const SandboxReady& e) const {
    if (e.kept_of != FunctionId{}) {
      return sandbox_in_words(e.sandbox) + " of " + name_in(names, e.kept_of) + " kept on " +
             device_in_words(e.device) + ", its memory " + (e.memory_is_out ? "out" : "in");
    }
    return sandbox_in_words(e.sandbox) + " ready after " +
           duration_in_words(e.sandbox_time + e.init_time);
  }
  std::string operator()(const SandboxExited& e) const {
    return sandbox_in_words(e.sandbox) + " gone" +
           (e.error_type.empty() ? "" : " (" + e.error_type + ")");
  }
  std::string operator()(const InvocationFinished& e) const {
    return "invocation " + to_string(e.invocation) + (e.succeeded ? " finished" : " failed") +
           " after " + duration_in_words(e.execution);
  }
  std::string operator()(const InvocationUndelivered& e) const {
    return "invocation " + to_string(e.invocation) + " never reached its handler";
  }
  std::string operator()(const CallForeseen& e) const {
    char text[64];
    std::snprintf(text, sizeof(text), " is foreseen within %.3f s, %.0f %% likely",
                  to_seconds(e.within), 100 * e.chance);
    return "a call of " + name_in(names, e.function) + text;
  }
  std::string operator()(const SandboxCrowdedOut& e) const {
    return sandbox_in_words(e.sandbox) + " is to leave, because the host's memory is short";
  }
  std::string operator()(const GpuTimeUsed& e) const {
    return "tenant " + std::to_string(e.tenant.value) + " had used " + duration_in_words(e.time) +
           " of GPU time " + duration_in_words(e.age) + " before";
  }
  std::string operator()(const DeviceReading& e) const {
    char text[96];
    std::snprintf(text, sizeof(text), "%s reads %.0f %% busy%s", device_in_words(e.device).c_str(),
                  e.utilisation * 100, e.healthy ? "" : ", not healthy");
    return text;
  }
  std::string operator()(const TimerFired&) const { return "timer fired"; }
  std::string operator()(const DrainStarted&) const { return "drain started"; }
  std::string operator()(const MemoryMoved& e) const {
    const std::string whose = "memory of " + sandbox_in_words(e.sandbox);
    const std::string way(name_of(e.direction));
    if (!e.done) return whose + " could not be moved " + way;
    return whose + " moved " + way + ", " + to_string(e.moved) + " in " +
           duration_in_words(e.duration) +
           (e.left.count > 0 ? ", " + to_string(e.left) + " stay" : "") +
           (e.offloaded.count > 0 ? ", " + to_string(e.offloaded) + " are offloaded" : "");
  }
  std::string operator()(const MemoryWanted& e) const {
    return sandbox_in_words(e.sandbox) + " asks for " + to_string(e.bytes) +
           " of its memory that is offloaded";
  }
  std::string operator()(const DeviceTaken& e) const {
    return "executors take " + to_string(e.bytes) + " of " + device_in_words(e.device);
  }
  std::string operator()(const TenantChanged& e) const {
    char weight[32];
    std::snprintf(weight, sizeof(weight), "%g", e.weight);
    std::string text = "tenant " + std::to_string(e.tenant.value) + " has weight " + weight;
    if (e.concurrency) text += ", " + std::to_string(*e.concurrency) + " invocations at once";
    if (e.gpu_memory) text += ", " + to_string(*e.gpu_memory) + " of GPU memory";
    if (e.gpu_time_per_hour) {
      text += ", " + duration_in_words(*e.gpu_time_per_hour) + " of GPU time an hour";
    }
    if (e.host_memory) text += ", " + to_string(*e.host_memory) + " of the host's memory";
    return text;
  }
};

struct ActionWords {
  const Names& names;

  std::string operator()(const StartSandbox& a) const {
    return "start " + sandbox_in_words(a.sandbox) + " of " + name_in(names, a.function) + " on " +
           devices_in_words(a.device, a.beside);
  }
  std::string operator()(const StartInvocation& a) const {
    return "run invocation " + to_string(a.invocation) + " in " + sandbox_in_words(a.sandbox) +
           " on " + devices_in_words(a.device, a.beside) + ", " + std::string(name_of(a.start));
  }
  std::string operator()(const StopSandbox& a) const {
    return "stop " + sandbox_in_words(a.sandbox) + ", " + std::string(name_of(a.reason));
  }
  std::string operator()(const CompleteInvocation& a) const {
    return "complete invocation " + to_string(a.invocation) + ", " +
           std::string(name_of(a.outcome)) +
           (a.error ? " (" + std::string(name_of(a.error->code)) + ")" : "");
  }
  std::string operator()(const MoveMemoryIn& a) const {
    return "move memory of " + sandbox_in_words(a.sandbox) + " in";
  }
  std::string operator()(const MoveMemoryOut& a) const {
    return "move memory of " + sandbox_in_words(a.sandbox) + " out" +
           (a.depth == MoveDepth::kContext ? ", context and all" : "");
  }
  std::string operator()(const GrantMemory& a) const {
    if (a.bytes.count == 0) return "leave what is offloaded of " + sandbox_in_words(a.sandbox);
    return "let " + sandbox_in_words(a.sandbox) + " fetch " + to_string(a.bytes);
  }
  std::string operator()(const WakeAt& a) const {
    char text[64];
    std::snprintf(text, sizeof(text), "wake at %.6f s", to_seconds(a.instant.time_since_epoch()));
    return text;
  }
};

}  // namespace

std::string name_in(const Names& names, FunctionId function) {
  const auto found = names.find(function);
  return found != names.end() ? found->second : "function " + std::to_string(function.value);
}

// By the name that all other verbs show: "GPU 0", or "GPU 0:2" of a MIG instance.
std::string device_in_words(DeviceId device) {
  return device == scheduling::kHostDevice ? "the host" : "GPU " + place_name(device);
}

std::string devices_in_words(DeviceId device, uint64_t beside) {
  std::string text = device_in_words(device);
  scheduling::for_each_device_in(
      beside, [&](uint32_t bit) { text += " and " + device_in_words(DeviceId{bit + 1}); });
  return text;
}

std::string duration_in_words(Duration duration) {
  const double amount_s = to_seconds(duration);
  const double size_s = std::abs(amount_s);
  char text[48];
  if (size_s >= 1e4) {
    std::snprintf(text, sizeof(text), "%.0f s", amount_s);
  } else if (size_s >= 1 || size_s == 0) {
    std::snprintf(text, sizeof(text), "%.4g s", amount_s);
  } else if (size_s >= 1e-3) {
    std::snprintf(text, sizeof(text), "%.3g ms", amount_s * 1e3);
  } else {
    std::snprintf(text, sizeof(text), "%.3g us", amount_s * 1e6);
  }
  return text;
}

std::string in_words(const Event& event, const Names& names) {
  return std::visit(EventText{names}, event);
}
std::string in_words(const Action& action, const Names& names) {
  return std::visit(ActionWords{names}, action);
}

}  // namespace lambent::journal
