#include "node/worker/kept_record.h"

#include "core/base/state_archive.h"
#include "core/crypto/crypto.h"
#include "core/domain/limits.h"
#include "core/protocol/memory_message.h"
#include "gpu/ledger/layout.h"
#include "node/sandbox/message.h"

namespace lambent::worker {
namespace {

// Raised whenever a record, or what stands behind its descriptors, changes.
constexpr unsigned kVersion = 2;
constexpr size_t kDigest = sizeof(crypto::Digest);
// None is older; more would not fit the clock.
constexpr Duration kOldest = std::chrono::hours(24 * 366 * 50);

Error damaged() { return {ErrorCode::kInvalidArgument, "the record of kept sandboxes is damaged"}; }

// A positive number.
void archive_pid(StateArchive& archive, int32_t& pid) {
  auto number = static_cast<uint32_t>(pid);
  archive.field(number);
  archive.expect(number > 0 && number <= INT32_MAX);
  if (archive.ok()) pid = static_cast<int32_t>(number);
}

void archive_past(StateArchive& archive, Duration& duration) {
  archive.field(duration);
  archive.expect(duration >= Duration(0) && duration <= kOldest);
}

// Something that may be missing.
template <typename Part, typename Archive>
void archive_maybe(StateArchive& archive, std::optional<Part>& part, Archive archive_part) {
  bool is_there = part.has_value();
  archive.field(is_there);
  if (!archive.ok() || !is_there) return;
  if (!part) part.emplace();
  archive_part(archive, *part);
}

void archive_memory(StateArchive& archive, KeptMemory& memory) {
  archive.field(memory.listener);
  archive.list(memory.processes);
  archive.expect(memory.processes.size() <= limits::kSandboxProcesses);
  archive.field(memory.sequence);
  archive.field(memory.is_out);
  archive.field(memory.deep);
  archive.expect(memory.is_out || !memory.deep);
  archive.field(memory.left);
  archive.field(memory.offloaded);
  archive.field(memory.link);
}

void archive_gpu(StateArchive& archive, KeptGpu& gpu) {
  archive.list(gpu.devices);
  archive.list(gpu.ledgers);
  archive.expect(!gpu.devices.empty() && gpu.devices.size() == gpu.ledgers.size());
  archive_maybe(archive, gpu.memory, archive_memory);
}

void archive_node(StateArchive& archive, KeptNode& node) {
  archive.field(node.live);
  archive.field(node.pristine);
  archive.field(node.listener);
  archive.field(node.machine);
  archive.expect(node.machine.size() == kDigest);
}

void archive_sandbox(StateArchive& archive, KeptSandbox& sandbox) {
  archive.field(sandbox.launcher);
  archive.field(sandbox.number);
  archive.field(sandbox.function);
  archive.field(sandbox.plan);
  archive.expect(sandbox.plan.size() == kDigest);
  archive_pid(archive, sandbox.pid);
  archive_past(archive, sandbox.age);
  archive_past(archive, sandbox.sandbox_time);
  archive_past(archive, sandbox.init_time);
  archive.field(sandbox.invocations);
  archive.field(sandbox.listener);
  archive.list(sandbox.waiting);
  archive.list(sandbox.resting);
  archive.field(sandbox.output);
  archive.field(sandbox.refusals);
  archive.list(sandbox.memory);
  archive.expect(sandbox.memory.size() <= 2);
  archive.expect(sandbox.listener.has_value() == !sandbox.waiting.empty());
  archive.expect(sandbox.listener.has_value() || sandbox.resting.empty());
  archive_maybe(archive, sandbox.gpu, archive_gpu);
}

void archive_record(StateArchive& archive, KeptRecord& record) {
  archive.list(record.launchers, [&archive](KeptLauncher& launcher) {
    archive_pid(archive, launcher.pid);
    archive.field(launcher.channel);
  });
  archive.list(record.sandboxes,
               [&archive](KeptSandbox& sandbox) { archive_sandbox(archive, sandbox); });
  archive_maybe(archive, record.node, archive_node);
}

// Each came, and is one thing only.
class Uses {
 public:
  explicit Uses(size_t count) : used_(count) {}

  bool take(DescriptorNumber number) {
    if (number >= used_.size() || used_[number]) return false;
    used_[number] = true;
    return true;
  }
  bool take(const std::optional<DescriptorNumber>& number) { return !number || take(*number); }
  bool take(const std::vector<DescriptorNumber>& numbers) {
    for (const DescriptorNumber number : numbers) {
      if (!take(number)) return false;
    }
    return true;
  }

 private:
  std::vector<bool> used_;
};

bool take_gpu(Uses& uses, const KeptGpu& gpu) {
  if (!uses.take(gpu.ledgers)) return false;
  return !gpu.memory || (uses.take(gpu.memory->listener) && uses.take(gpu.memory->processes) &&
                         uses.take(gpu.memory->link));
}

bool makes_sense(const KeptRecord& record, size_t descriptors) {
  Uses uses(descriptors);
  for (const KeptLauncher& launcher : record.launchers) {
    if (!uses.take(launcher.channel)) return false;
  }
  for (const KeptSandbox& each : record.sandboxes) {
    const bool known = each.launcher < record.launchers.size();
    const bool taken = uses.take(each.listener) && uses.take(each.waiting) &&
                       uses.take(each.resting) && uses.take(each.output) &&
                       uses.take(each.refusals) && uses.take(each.memory) &&
                       (!each.gpu || take_gpu(uses, *each.gpu));
    if (!known || !taken) return false;
  }
  const auto& node = record.node;
  return !node || (uses.take(node->live) && uses.take(node->pristine) && uses.take(node->listener));
}

}  // namespace

// With what their launchers, and the shims in them, speak and write.
std::string kept_record_format() {
  std::string format = "sandboxes " + std::to_string(kVersion);
  for (const unsigned version :
       {unsigned{sandbox::message_version()}, unsigned{protocol::kMemoryProtocolVersion},
        unsigned{ledger::kLedgerVersion}}) {
    format += "." + std::to_string(version);
  }
  return format;
}

// The format as text, its record, and the digest of both.
std::string encode_kept(KeptRecord record) {
  std::string bytes;
  StateArchive archive(&bytes);
  std::string format = kept_record_format();
  archive.field(format);
  archive_record(archive, record);
  bytes += crypto::bytes_of(crypto::sha256(bytes));
  return bytes;
}

Result<KeptRecord> decode_kept(std::string_view bytes, size_t descriptors) {
  if (bytes.size() < kDigest) return damaged();
  const std::string_view body = bytes.substr(0, bytes.size() - kDigest);
  const crypto::Digest digest = crypto::sha256(body);
  if (crypto::bytes_of(digest) != bytes.substr(body.size())) return damaged();
  StateArchive archive(body);
  std::string format;
  archive.field(format);
  if (!archive.ok()) return damaged();
  if (format != kept_record_format()) {
    return Error{ErrorCode::kFailedPrecondition,
                 "the sandboxes are described in another format than " + kept_record_format()};
  }
  KeptRecord record;
  archive_record(archive, record);
  if (!archive.complete() || !makes_sense(record, descriptors)) return damaged();
  return record;
}

}  // namespace lambent::worker
