#include "node/sandbox/message.h"

#include "core/base/message_archive.h"

namespace lambent::sandbox {
namespace {

// A message: the version, the kind, then its fields.
constexpr uint8_t kVersion = 9;

// The bytes of a plan are its limit: validate() checks how many entries it has.
constexpr size_t kUnlimited = SIZE_MAX;

void archive_texts(StateArchive& archive, std::vector<std::string>& texts) {
  archive_list(archive, texts, kUnlimited, [&archive](std::string& text) { archive.field(text); });
}

void archive_bind(StateArchive& archive, Bind& bind) {
  archive.field(bind.host_path);
  archive.field(bind.sandbox_path);
  archive.field(bind.writable);
  archive.field(bind.without_links);
}

void archive_device(StateArchive& archive, DeviceNode& device) {
  archive.field(device.host_path);
  archive.field(device.sandbox_path);
}

void archive_limits(StateArchive& archive, SandboxLimits& limits) {
  archive.field(limits.memory);
  archive.field(limits.processes);
  archive.field(limits.cpus);
  archive.field(limits.open_files);
  archive.field(limits.scratch);
  archive.field(limits.shared_memory);
  archive.field(limits.file_size);
}

void archive_zygote(StateArchive& archive, ZygotePlan& zygote) {
  archive.field(zygote.key);
  archive_texts(archive, zygote.argv);
  archive_map(archive, zygote.environment);
  archive_list(archive, zygote.binds, kUnlimited,
               [&archive](Bind& bind) { archive_bind(archive, bind); });
}

// As text, of which each has one.
template <typename Value>
void archive_parsed(StateArchive& archive, Value& value, Result<Value> (*parse)(std::string_view)) {
  std::string text = text_of(value);
  archive.field(text);
  auto parsed = parse(text);
  archive.expect(parsed.ok() && text_of(*parsed) == text);
  if (parsed.ok()) value = std::move(*parsed);
}

void archive_network(StateArchive& archive, NetworkPlan& network) {
  archive_parsed(archive, network.access, parse_network_access);
  archive_parsed(archive, network.bounds, parse_network_bounds);
}

void archive_plan(StateArchive& archive, LaunchPlan& plan) {
  archive.field(plan.sandbox);
  archive_texts(archive, plan.argv);
  archive_map(archive, plan.environment);
  archive.field(plan.working_directory);
  archive.field(plan.code);
  archive_list(archive, plan.binds, kUnlimited,
               [&archive](Bind& bind) { archive_bind(archive, bind); });
  archive_map(archive, plan.secret_files);
  archive_list(archive, plan.devices, kUnlimited,
               [&archive](DeviceNode& device) { archive_device(archive, device); });
  archive.field(plan.hostname);
  archive_optional(archive, plan.network,
                   [&archive](NetworkPlan& network) { archive_network(archive, network); });
  archive_list(archive, plan.processors, kUnlimited,
               [&archive](uint32_t& processor) { archive.field(processor); });
  archive_limits(archive, plan.limits);
  archive_optional(archive, plan.zygote,
                   [&archive](ZygotePlan& zygote) { archive_zygote(archive, zygote); });
  archive_optional(archive, plan.image, [&archive](ImageRoot& image) {
    archive.field(image.host_path);
    archive.field(image.user);
  });
}

void archive_body(StateArchive& archive, LaunchRequest& request) {
  archive_plan(archive, request.plan);
}

void archive_body(StateArchive& archive, KillRequest& request) { archive.field(request.sandbox); }

void archive_body(StateArchive& archive, TerminateRequest& request) {
  archive.field(request.sandbox);
}

void archive_body(StateArchive& archive, ProgramReady& ready) { archive.field(ready.sandbox); }

void archive_body(StateArchive& archive, UsageRequest& request) { archive.field(request.sandbox); }

void archive_body(StateArchive& archive, Hello& hello) {
  Capabilities& capabilities = hello.capabilities;
  archive.field(capabilities.impossible);
  archive.field(capabilities.root);
  archive.field(capabilities.same_user_reason);
  archive.field(capabilities.user_namespaces);
  archive.choice(capabilities.cgroup, CgroupVersion::kV2);
  archive.field(capabilities.memory_cgroup);
  archive.field(capabilities.pids_cgroup);
  archive.field(capabilities.cpu_cgroup);
  archive.field(capabilities.cgroup_folder);
  archive.field(capabilities.cgroup_reason);
  archive.field(capabilities.network_reason);
}

void archive_body(StateArchive&, Ready&) {}

void archive_body(StateArchive&, NetworkReady&) {}

void archive_body(StateArchive& archive, StartedReply& reply) {
  archive.field(reply.sandbox);
  archive_signed(archive, reply.pid);
  archive.field(reply.elapsed);
  archive.field(reply.forked);
  archive.field(reply.has_network);
}

void archive_error(StateArchive& archive, Error& error) {
  archive.choice(error.code, kLastErrorCode);
  archive.field(error.message);
}

void archive_body(StateArchive& archive, FailedReply& reply) {
  archive.field(reply.sandbox);
  archive_error(archive, reply.error);
}

void archive_body(StateArchive& archive, ForkFailed& failed) {
  archive_error(archive, failed.error);
}

void archive_body(StateArchive& archive, ExitedReply& reply) {
  archive.field(reply.sandbox);
  archive_signed(archive, reply.exit.exit_code);
  archive_signed(archive, reply.exit.signal);
  archive.field(reply.exit.out_of_memory);
  archive.field(reply.exit.killed);
  archive.field(reply.exit.memory_peak);
  archive.field(reply.exit.cpu);
}

void archive_body(StateArchive& archive, UsageReply& reply) {
  archive.field(reply.sandbox);
  archive.field(reply.memory);
  archive.field(reply.known);
}

void archive_body(StateArchive& archive, SocketsRequest& request) {
  archive.field(request.sandbox);
  archive.field(request.count);
}

void archive_body(StateArchive& archive, SocketsReply& reply) { archive.field(reply.sandbox); }

void archive_body(StateArchive& archive, ZygoteRequest& request) {
  archive_plan(archive, request.plan);
}

void archive_body(StateArchive&, ZygoteReady&) {}

void archive_body(StateArchive&, ZygoteRetirement&) {}

void archive_body(StateArchive& archive, BoxRequest& request) { archive.field(request.number); }

void archive_body(StateArchive& archive, BoxReply& reply) { archive.field(reply.number); }

void archive_body(StateArchive& archive, LongMessage& message) { archive.field(message.size); }

void archive_body(StateArchive& archive, ZygoteNews& news) {
  archive.field(news.key);
  archive.choice(news.event, ZygoteEvent::kRetired);
  archive.field(news.text);
  archive.field(news.elapsed);
}

void archive_message(StateArchive& archive, uint8_t& version, Message& message) {
  archive.field(version);
  archive.expect(version == kVersion);
  if (!archive.ok()) return;
  archive_kind(archive, message, [&archive](auto& body) { archive_body(archive, body); });
}

}  // namespace

unsigned message_version() { return kVersion; }

std::string encode(Message message) {
  std::string bytes;
  StateArchive archive(&bytes);
  uint8_t version = kVersion;
  archive_message(archive, version, message);
  return bytes;
}

Result<Message> decode(std::string_view bytes) {
  StateArchive archive(bytes);
  uint8_t version = 0;
  Message message;
  archive_message(archive, version, message);
  if (!archive.complete()) {
    return Error{ErrorCode::kInvalidArgument,
                 "launcher message: not one whole message of version " + std::to_string(kVersion) +
                     "; it has version " + std::to_string(version)};
  }
  return message;
}

}  // namespace lambent::sandbox
