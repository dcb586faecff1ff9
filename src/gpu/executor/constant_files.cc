#include "gpu/executor/constant_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <string>

#include "gpu/executor/file_io.h"

namespace lambent::executor {
namespace {

constexpr uint64_t kSample = 4096;    // of a file's begin, middle and end
constexpr uint64_t kChunk = 1 << 20;  // compared at once

Result<uint64_t> size_of(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return error_from_errno("fstat", errno);
  return static_cast<uint64_t>(status.st_size);
}

// Of files of this size; false as well where one cannot be read.
bool have_one_content(int one, int other, uint64_t size) {
  std::string a, b;
  for (uint64_t at = 0; at < size; at += kChunk) {
    const uint64_t length = std::min(kChunk, size - at);
    a.resize(length);
    b.resize(length);
    if (!read_fully(one, at, a.data(), length).ok()) return false;
    if (!read_fully(other, at, b.data(), length).ok()) return false;
    if (a != b) return false;
  }
  return true;
}

}  // namespace

Result<DeviceName> name_of_file(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return error_from_errno("fstat", errno);
  const auto file = static_cast<uint64_t>(status.st_ino) ^ static_cast<uint64_t>(status.st_dev)
                                                               << 48;
  const auto version = static_cast<uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000 +
                       static_cast<uint64_t>(status.st_mtim.tv_nsec);
  return DeviceName::constant(file, version);
}

// Equal for equal contents, mostly different for others.
Result<ConstantFiles::Look> ConstantFiles::look_of(int fd) {
  ASSIGN_OR_RETURN(const uint64_t size, size_of(fd));
  std::string seen;
  for (const uint64_t at : {uint64_t{0}, size / 2, size - std::min(size, kSample)}) {
    std::string sample(std::min(kSample, size - at), '\0');
    RETURN_IF_ERROR(read_fully(fd, at, sample.data(), sample.size()));
    seen += sample;
  }
  return Look{size, std::hash<std::string>()(seen)};
}

Result<ConstantFiles::File> ConstantFiles::take(int fd) {
  forget_unused();
  ASSIGN_OR_RETURN(const DeviceName own, name_of_file(fd));
  const auto same = same_as_.find(own);
  const DeviceName name = same != same_as_.end() ? same->second : own;
  if (const auto known = known_.find(name); known != known_.end()) {
    if (auto file = known->second.lock()) return File{name, std::move(file)};
  }
  same_as_.erase(own);
  // One that cannot be read is like no other, and a request that needs its content is told.
  const auto look = look_of(fd);
  std::vector<DeviceName>* alike = look.ok() ? &by_look_[*look] : nullptr;
  for (size_t i = 0; alike != nullptr && i < alike->size(); ++i) {
    const DeviceName other = (*alike)[i];
    auto file = known_.at(other).lock();
    if (file == nullptr || !have_one_content(file->get(), fd, look->first)) continue;
    same_as_[own] = other;
    return File{other, std::move(file)};
  }
  auto file = std::make_shared<OwnedFd>(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!file->valid()) return error_from_errno("dup", errno);
  if (known_.insert_or_assign(own, file).second && alike != nullptr) {
    alike->push_back(own);
  }
  return File{own, std::move(file)};
}

void ConstantFiles::forget_unused() {
  if (std::erase_if(known_, [](const auto& each) { return each.second.expired(); }) == 0) return;
  const auto is_gone = [this](const DeviceName& name) { return !known_.contains(name); };
  std::erase_if(same_as_, [&](const auto& each) { return is_gone(each.second); });
  for (auto& [look, names] : by_look_) std::erase_if(names, is_gone);
  std::erase_if(by_look_, [](const auto& each) { return each.second.empty(); });
}

}  // namespace lambent::executor
