// What worker, lambent-launcher and the sandboxes' init processes say to each other, and its codec.
// Values; pure: decoding checks everything and never trusts a length. Any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "node/sandbox/capabilities.h"
#include "node/sandbox/exit.h"
#include "node/sandbox/plan.h"
#include "node/sandbox/zygote_event.h"

namespace lambent::sandbox {

// Worker to launcher, launcher to init (with the write end of the output pipe).
struct LaunchRequest {
  LaunchPlan plan;
  bool operator==(const LaunchRequest&) const = default;
};
struct KillRequest {
  SandboxId sandbox;
  bool operator==(const KillRequest&) const = default;
};
// Worker to launcher: the program is to end.
struct TerminateRequest {
  SandboxId sandbox;
  bool operator==(const TerminateRequest&) const = default;
};
// Worker to launcher: the program is ready, and no longer gives way to others.
struct ProgramReady {
  SandboxId sandbox;
  bool operator==(const ProgramReady&) const = default;
};
struct UsageRequest {
  SandboxId sandbox;
  bool operator==(const UsageRequest&) const = default;
};
// Worker to launcher, launcher to init: sockets of the sandbox's network that are not connected.
struct SocketsRequest {
  SandboxId sandbox;
  uint32_t count = 0;  // at most limits::kSandboxSockets
  bool operator==(const SocketsRequest&) const = default;
};

// Launcher to worker, once at the start.
struct Hello {
  Capabilities capabilities;
  bool operator==(const Hello&) const = default;
};
// Init to launcher: waits for its plan. Comes with the Runtime API listener.
struct Ready {
  bool operator==(const Ready&) const = default;
};
// The program was executed. From init it comes with the program's pidfd; to the worker with init's
// pidfd, listener and output.
struct StartedReply {
  SandboxId sandbox;
  int32_t pid = 0;
  Duration elapsed{};
  bool forked = false;  // from a zygote
  bool has_network = false;
  bool operator==(const StartedReply&) const = default;
};
// Init to launcher, with its network device and the listeners for a relay.
struct NetworkReady {
  bool operator==(const NetworkReady&) const = default;
};
struct FailedReply {
  SandboxId sandbox;
  Error error;
  bool operator==(const FailedReply&) const = default;
};
// Init to launcher: a fork of a zygote did not take its plan. What else a start fails of is a
// FailedReply.
struct ForkFailed {
  Error error;
  bool operator==(const ForkFailed&) const = default;
};
struct ExitedReply {
  SandboxId sandbox;
  Exit exit;
  bool operator==(const ExitedReply&) const = default;
};
struct UsageReply {
  SandboxId sandbox;
  std::optional<Bytes> memory;  // none: cannot be measured
  bool known = true;            // false: there is no such sandbox
  bool operator==(const UsageReply&) const = default;
};
// Comes with the sockets; with none if they could not be made or there is no such sandbox.
struct SocketsReply {
  SandboxId sandbox;
  bool operator==(const SocketsReply&) const = default;
};

// Launcher to the root of a zygote, once, with the sources of its plan.
struct ZygoteRequest {
  LaunchPlan plan;
  bool operator==(const ZygoteRequest&) const = default;
};
// Root of a zygote to launcher: it has loaded everything. (A FailedReply: it could not, or ended.)
struct ZygoteReady {
  bool operator==(const ZygoteReady&) const = default;
};
// Launcher to the root of a zygote: end the process that is forked, leave the sandboxes.
struct ZygoteRetirement {
  bool operator==(const ZygoteRetirement&) const = default;
};
// Launcher to the root of a zygote, with the far end of the init's control channel, then what the
// cgroups of the sandbox are entered by.
struct BoxRequest {
  uint64_t number = 0;
  bool operator==(const BoxRequest&) const = default;
};
// Its answer, with the init's pidfd; without one: the init could not be made.
struct BoxReply {
  uint64_t number = 0;
  bool operator==(const BoxReply&) const = default;
};
// Launcher to worker.
struct ZygoteNews {
  std::string key;
  ZygoteEvent event = ZygoteEvent::kReady;
  std::string text;    // why, in the words of what failed: foreign
  Duration elapsed{};  // of kReady: from its start
  bool operator==(const ZygoteNews&) const = default;
};
// Instead of a message that is too long for a packet. The first descriptor that comes with it holds
// its bytes; the others are the message's own.
struct LongMessage {
  uint64_t size = 0;
  bool operator==(const LongMessage&) const = default;
};

using Message =
    std::variant<LaunchRequest, KillRequest, UsageRequest, Hello, Ready, StartedReply, FailedReply,
                 ExitedReply, UsageReply, SocketsRequest, SocketsReply, ZygoteRequest, ZygoteReady,
                 ZygoteRetirement, BoxRequest, BoxReply, ZygoteNews, TerminateRequest, NetworkReady,
                 ProgramReady, ForkFailed, LongMessage>;

// Two programs understand each other if this is the same in both.
unsigned message_version();

// At most limits::kLauncherMessage bytes for every plan that validate() accepts, without the files
// of secrets; these are limits::kSandboxSecretFiles at most.
std::string encode(Message message);

// INVALID_ARGUMENT if the bytes are not exactly one message.
Result<Message> decode(std::string_view bytes);

}  // namespace lambent::sandbox
