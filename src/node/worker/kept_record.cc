#include "node/worker/kept_record.h"

#include "core/base/state_archive.h"
#include "core/crypto/crypto.h"
#include "node/sandbox/message.h"

namespace lambent::worker {
namespace {

// Raised whenever a record, or what stands behind its descriptors, changes.
constexpr unsigned kVersion = 1;
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
  archive.field(sandbox.waiting);
  archive.list(sandbox.resting);
  archive.field(sandbox.output);
  archive.field(sandbox.refusals);
  archive.list(sandbox.memory);
  archive.expect(sandbox.memory.size() <= 2);
  archive.expect(sandbox.listener.has_value() == sandbox.waiting.has_value());
  archive.expect(sandbox.listener.has_value() || sandbox.resting.empty());
}

void archive_record(StateArchive& archive, KeptRecord& record) {
  archive.list(record.launchers, [&archive](KeptLauncher& launcher) {
    archive_pid(archive, launcher.pid);
    archive.field(launcher.channel);
  });
  archive.list(record.sandboxes,
               [&archive](KeptSandbox& sandbox) { archive_sandbox(archive, sandbox); });
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

bool makes_sense(const KeptRecord& record, size_t descriptors) {
  Uses uses(descriptors);
  for (const KeptLauncher& launcher : record.launchers) {
    if (!uses.take(launcher.channel)) return false;
  }
  for (const KeptSandbox& each : record.sandboxes) {
    const bool known = each.launcher < record.launchers.size();
    const bool taken = uses.take(each.listener) && uses.take(each.waiting) &&
                       uses.take(each.resting) && uses.take(each.output) &&
                       uses.take(each.refusals) && uses.take(each.memory);
    if (!known || !taken) return false;
  }
  return true;
}

}  // namespace

std::string kept_record_format() {
  return "sandboxes " + std::to_string(kVersion) + "." + std::to_string(sandbox::message_version());
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
