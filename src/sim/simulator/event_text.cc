#include "sim/simulator/event_text.h"

#include <cstdio>

namespace lambent::simulator {
namespace {

std::string words(const char* format, auto... values) {
  char text[256];
  std::snprintf(text, sizeof(text), format, values...);
  return text;
}

unsigned long long number(auto id) { return static_cast<unsigned long long>(id.value); }
unsigned long long number(InvocationId id) { return id.low; }

struct EventText {
  std::string operator()(const dispatch::FunctionRegistered& e) const {
    return words("function %llu registered, revision %llu, memory %s, concurrency %u, timeout %gs",
                 number(e.profile.id), static_cast<unsigned long long>(e.profile.revision),
                 to_string(e.profile.device_memory).c_str(), e.profile.max_concurrency,
                 to_seconds(e.profile.timeout));
  }
  std::string operator()(const dispatch::FunctionRemoved& e) const {
    return words("function %llu removed", number(e.function));
  }
  std::string operator()(const dispatch::InvocationSubmitted& e) const {
    return words("invocation %llu of function %llu submitted%s", number(e.invocation),
                 number(e.function), e.asynchronous ? ", asynchronous" : "");
  }
  std::string operator()(const dispatch::InvocationCancelled& e) const {
    return words("invocation %llu cancelled", number(e.invocation));
  }
  std::string operator()(const dispatch::SandboxReady& e) const {
    return words("sandbox %llu ready", number(e.sandbox));
  }
  std::string operator()(const dispatch::SandboxExited& e) const {
    return words("sandbox %llu gone %s%s", number(e.sandbox), e.error_type.c_str(),
                 e.undelivered ? " undelivered" : "");
  }
  std::string operator()(const dispatch::InvocationFinished& e) const {
    return words("invocation %llu %s", number(e.invocation),
                 e.succeeded ? "finished" : "reports an error");
  }
  std::string operator()(const dispatch::DeviceReading& e) const {
    return words("device %llu read: %.2f%s", number(e.device), e.utilisation,
                 e.lost ? ", lost" : (e.healthy ? "" : ", silent"));
  }
  std::string operator()(const dispatch::TimerFired&) const { return "timer"; }
  std::string operator()(const dispatch::DrainStarted&) const { return "drain"; }
  std::string operator()(const dispatch::MemoryMoved& e) const {
    return words("memory of sandbox %llu %s %s, %s stay, %s are offloaded", number(e.sandbox),
                 e.done ? "moved" : "could not be moved", std::string(name_of(e.direction)).c_str(),
                 to_string(e.left).c_str(), to_string(e.offloaded).c_str());
  }
  std::string operator()(const dispatch::MemoryWanted& e) const {
    return words("sandbox %llu wants %s that are offloaded", number(e.sandbox),
                 to_string(e.bytes).c_str());
  }
  std::string operator()(const dispatch::DeviceTaken& e) const {
    return words("%s of device %llu taken", to_string(e.bytes).c_str(), number(e.device));
  }
};

struct ActionWords {
  std::string operator()(const dispatch::StartSandbox& a) const {
    return words("start sandbox %llu for function %llu revision %llu on device %llu",
                 number(a.sandbox), number(a.function), static_cast<unsigned long long>(a.revision),
                 number(a.device));
  }
  std::string operator()(const dispatch::StartInvocation& a) const {
    return words("run invocation %llu in sandbox %llu %s", number(a.invocation), number(a.sandbox),
                 std::string(name_of(a.start)).c_str());
  }
  std::string operator()(const dispatch::StopSandbox& a) const {
    return words("stop sandbox %llu %s", number(a.sandbox), std::string(name_of(a.reason)).c_str());
  }
  std::string operator()(const dispatch::CompleteInvocation& a) const {
    return words("invocation %llu %s %s %s", number(a.invocation),
                 std::string(name_of(a.outcome)).c_str(), a.error_type.c_str(),
                 a.error ? a.error->message.c_str() : "");
  }
  std::string operator()(const dispatch::MoveMemoryIn& a) const {
    return words("move memory of sandbox %llu in", number(a.sandbox));
  }
  std::string operator()(const dispatch::MoveMemoryOut& a) const {
    return words("move memory of sandbox %llu out, %s", number(a.sandbox),
                 std::string(name_of(a.depth)).c_str());
  }
  std::string operator()(const dispatch::GrantMemory& a) const {
    return words("grant sandbox %llu %s", number(a.sandbox), to_string(a.bytes).c_str());
  }
  std::string operator()(const dispatch::WakeAt& a) const {
    return words("wake at %.6f", to_seconds(a.instant.time_since_epoch()));
  }
};

}  // namespace

std::string in_words(const dispatch::Event& event) { return std::visit(EventText{}, event); }
std::string in_words(const dispatch::Action& action) { return std::visit(ActionWords{}, action); }

}  // namespace lambent::simulator
