#include "node/worker/log_store.h"

#include <algorithm>

namespace lambent::worker {

uint64_t LogStore::append(FunctionId function, std::string_view text) {
  Log& log = logs_[function];
  const uint64_t offset = log.first_offset + log.text.size();
  log.text.append(text);
  if (log.text.size() > 2 * limit_.count) {
    const size_t surplus = log.text.size() - limit_.count;
    log.text.erase(0, surplus);
    log.first_offset += surplus;
  }
  if (observer_.appended) observer_.appended(function, offset, text);
  return offset;
}

void LogStore::remove(FunctionId function) {
  logs_.erase(function);
  if (observer_.removed) observer_.removed(function);
}

void LogStore::restore(FunctionId function, uint64_t first_offset, std::string text) {
  logs_[function] = {std::move(text), first_offset};
}

LogStore::Chunk LogStore::read(FunctionId function, uint64_t offset, size_t most) const {
  const auto found = logs_.find(function);
  if (found == logs_.end()) return Chunk{"", offset};
  const Log& log = found->second;
  const uint64_t end = log.first_offset + log.text.size();
  const uint64_t from = std::clamp(offset, log.first_offset, end);
  std::string text = log.text.substr(from - log.first_offset, most);
  const uint64_t next = from + text.size();
  return Chunk{std::move(text), next};
}

void LogTail::append(std::string_view text) {
  constexpr size_t kMost = limits::kLogTail.count;
  if (text.size() > kMost) text.remove_prefix(text.size() - kMost);
  text_.append(text);
  if (text_.size() > 4 * kMost) text_.erase(0, text_.size() - kMost);
}

std::string LogTail::text() const {
  constexpr size_t kMost = limits::kLogTail.count;
  return text_.size() <= kMost ? text_ : text_.substr(text_.size() - kMost);
}

}  // namespace lambent::worker
