#include "bin/kept_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/sealed_memory.h"

namespace lambent {
namespace {

// Of each sandbox a handful; a number beyond is a mistake.
constexpr int kMostDescriptors = 1 << 20;
constexpr Bytes kLongestRecord = Bytes::mib(64);

Error no_sense(std::string_view variable) {
  return {ErrorCode::kInvalidArgument, std::string(kKeptVariable) + " is a process, a descriptor " +
                                           "and a number, not '" + std::string(variable) + "'"};
}

// Three numbers.
bool parse(std::string_view text, int (&numbers)[3]) {
  for (int& number : numbers) {
    if (text.starts_with(' ')) text.remove_prefix(1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number < 0) return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
  }
  return text.empty();
}

Result<std::string> read_record(const OwnedFd& memory) {
  ASSIGN_OR_RETURN(const Bytes size, check_sealed(memory.get()));
  if (size > kLongestRecord) {
    return Error{ErrorCode::kInvalidArgument, "the record of kept sandboxes is too long"};
  }
  return read_memory(memory.get(), Bytes(0), size);
}

}  // namespace

Result<worker::KeptSandboxes> inherit_kept(const char* variable, pid_t self) {
  worker::KeptSandboxes kept;
  if (variable == nullptr) return kept;
  int numbers[3] = {};
  if (!parse(variable, numbers)) return no_sense(variable);
  const auto [pid, first, count] = numbers;
  if (pid != self) return kept;  // they were for the process that started this one
  if (first < 3 || count < 1 || count > kMostDescriptors) return no_sense(variable);
  std::vector<OwnedFd> all;
  bool whole = true;
  for (int fd = first; fd < first + count; ++fd) {
    const bool open = fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
    if (open) all.emplace_back(fd);
    whole = whole && open;
  }
  if (!whole) {
    return Error{ErrorCode::kInvalidArgument, "a descriptor of a kept sandbox is not open"};
  }
  ASSIGN_OR_RETURN(const std::string record, read_record(all.front()));
  ASSIGN_OR_RETURN(kept.record, worker::decode_kept(record, all.size() - 1));
  kept.descriptors.assign(std::make_move_iterator(all.begin() + 1),
                          std::make_move_iterator(all.end()));
  return kept;
}

Result<void> move_kept(worker::KeptSandboxes& kept, int least) {
  for (OwnedFd& each : kept.descriptors) {
    if (!each.valid()) continue;
    OwnedFd moved(fcntl(each.get(), F_DUPFD_CLOEXEC, least));
    if (!moved.valid()) return error_from_errno("leave a kept sandbox open", errno);
    each = std::move(moved);
  }
  return {};
}

Result<std::string> leave_kept(worker::KeptSandboxes kept, pid_t self, int first) {
  std::vector<OwnedFd> all;
  ASSIGN_OR_RETURN(OwnedFd record, sealed_memory(worker::encode_kept(std::move(kept.record))));
  all.push_back(std::move(record));
  for (OwnedFd& each : kept.descriptors) {
    if (each.valid()) {
      all.push_back(std::move(each));
      continue;
    }
    // What is not used any more keeps its number.
    all.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  const int count = static_cast<int>(all.size());
  // Out of the way first, or one would close another.
  worker::KeptSandboxes moving;
  moving.descriptors = std::move(all);
  RETURN_IF_ERROR(move_kept(moving, first + count));
  all = std::move(moving.descriptors);
  for (int index = 0; index < count; ++index) {
    if (dup2(all[static_cast<size_t>(index)].get(), first + index) < 0) {
      return error_from_errno("leave a kept sandbox open", errno);
    }
  }
  return std::to_string(self) + " " + std::to_string(first) + " " + std::to_string(count);
}

}  // namespace lambent
